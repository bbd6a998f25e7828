import { isUtf8 } from 'node:buffer';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import fp from 'fastify-plugin';
import { AuthError } from '../../domain/errors.ts';

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

/**
 * Accepts only JSON in UTF-8 as body. Some clients send its content type on every request, so an empty body counts as
 * none, which is malformed JSON only where an operation needs one. A GET's body is never read.
 */
function parseJsonBody(app: FastifyInstance, _options: object, done: () => void): void {
  const parseJson = app.getDefaultJsonParser('error', 'error');
  app.removeContentTypeParser(['text/plain', 'application/json']);
  app.addContentTypeParser<Buffer>('application/json', { parseAs: 'buffer' }, (request, body, finish) => {
    if (body.length === 0) {
      finish(null, undefined);
      return;
    }
    let text: string;
    try {
      text = decoder.decode(body);
    } catch {
      finish(
        Object.assign(new Error('not UTF-8'), { code: 'FST_ERR_CTP_INVALID_JSON_BODY', statusCode: 400 }),
      );
      return;
    }
    void parseJson(request, text, (error, value) => {
      // secure-json-parse refuses __proto__ with a different error.
      finish(error && Object.assign(error, { code: 'FST_ERR_CTP_INVALID_JSON_BODY' }), value);
    });
  });
  app.addHook('onRoute', (route) => {
    const { body, consumes } = route.schema ?? {};
    // Forms have a parser and answers of their own.
    if (body === undefined || consumes !== undefined) return;
    route.preValidation = [requireBody, ...[route.preValidation ?? []].flat()];
  });
  done();
}

/** Without a body and its type, no parser runs. With its type, an empty one counts as none. */
function requireBody({ body }: FastifyRequest, _reply: unknown, next: (error?: Error) => void): void {
  next(body === undefined ? new AuthError('malformed_json') : undefined);
}

export const jsonBody = fp(parseJsonBody, { name: 'json-body', fastify: '5.x' });

const PROBLEMS = {
  malformed: { code: 'format', message: 'must be a form in UTF-8' },
  repeated: { code: 'repeated', message: 'must not repeat a parameter' },
} as const;

/** Routes with this plugin accept only a form as body; all others accept only JSON. */
function parseFormBody(app: FastifyInstance, _options: object, done: () => void): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser<Buffer>(
    'application/x-www-form-urlencoded',
    { parseAs: 'buffer' },
    (_request, body, finish) => {
      const form = parseForm(body);
      if ('parameters' in form) {
        finish(null, form.parameters);
        return;
      }
      finish(new AuthError('validation_failed', { errors: [{ path: '', ...PROBLEMS[form.fault] }] }));
    },
  );
  done();
}

export const formBody = fp(parseFormBody, { name: 'form-body', fastify: '5.x' });

// application/x-www-form-urlencoded, as OAuth uses it (RFC 6749, appendix B).

/** @returns null if an escape is malformed, or the decoded text is not UTF-8. */
export function decodeFormText(text: string): string | null {
  // A token has no escapes, and two searches cost far less than decoding it.
  if (!text.includes('%') && !text.includes('+')) return text;
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}

/** @returns null if the bytes are not UTF-8. */
export function decodeUtf8(bytes: Buffer): string | null {
  return isUtf8(bytes) ? bytes.toString() : null;
}

/** A form's parameters, or its error. */
export type Form = { parameters: Record<string, string> } | { fault: 'malformed' | 'repeated' };

/**
 * RFC 6749, section 3.1: a parameter without a value counts as omitted, and no parameter may be repeated. Node's own
 * parser would accept a malformed escape, and keep the last of two values.
 */
export function parseForm(body: Buffer): Form {
  const text = decodeUtf8(body);
  if (text === null) return { fault: 'malformed' };
  const parameters = new Map<string, string>();
  for (const part of text.split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const end = equals === -1 ? part.length : equals;
    const name = decodeFormText(part.slice(0, end));
    const value = decodeFormText(part.slice(end + 1));
    if (name === null || value === null) return { fault: 'malformed' };
    if (parameters.has(name)) return { fault: 'repeated' };
    parameters.set(name, value);
  }
  for (const [name, value] of parameters) if (value === '') parameters.delete(name);
  // fromEntries creates `__proto__` as an ordinary property.
  return { parameters: Object.fromEntries(parameters) };
}
