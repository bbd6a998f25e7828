import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { AuthError, type ErrorCode, type FieldError, type FieldProblem } from '../domain/errors.ts';
import { truncate } from '../domain/truncate.ts';
import { relayHint, type WarnOfRelay } from './caller/relay.ts';
import type { RequestLog } from './plugins/request-log.ts';
import { errorType, oauthMembers } from './oauth-error.ts';
import { MAX_FIELD_ERRORS, PROBLEMS, problemHeaders, problemOf, secondStepMembers } from './problem.ts';
import type { RetrySpread } from './retry-spread.ts';
import { PATTERN_MESSAGES } from './schemas.ts';

/** Our codes for Fastify's own errors. */
const FASTIFY_CODES: Record<string, ErrorCode> = {
  FST_ERR_VALIDATION: 'validation_failed',
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 'unsupported_media_type',
  FST_ERR_CTP_BODY_TOO_LARGE: 'body_too_large',
  FST_ERR_CTP_INVALID_JSON_BODY: 'malformed_json',
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 'bad_request',
  FST_ERR_BAD_URL: 'bad_request',
  FST_ERR_ASYNC_CONSTRAINT: 'bad_request',
};

interface ErrorOptions {
  /** Whether the answer holds the reason: never in production. */
  showsReasons?: boolean;
  retrySpread?: RetrySpread;
  warnOfRelay?: WarnOfRelay;
  /** Whether /docs is served. */
  docs?: boolean;
  /** What else a 404 says. */
  hint?: string;
  requestLog?: Pick<RequestLog, 'failed'>;
  /** Whether to log a failure of a store. */
  isNews?: (reason: string) => boolean;
}

/** Milliseconds. During an outage every request fails for the same reason, which is logged once in this time. */
const REPEAT = 60_000;

/** Registers the only place that turns errors into answers. */
export function registerErrorHandler(app: FastifyInstance, options: ErrorOptions = {}): void {
  const isNews = makeNews();
  app.setErrorHandler<FastifyError | AuthError>((error, request, reply) =>
    sendError(error, request, reply, { ...options, isNews }),
  );
  app.setNotFoundHandler((request, reply) => sendError(new AuthError('not_found'), request, reply));
}

/** Answers an error with its problem details. Logs bugs and failed dependencies. */
export function sendError(
  error: Error,
  request: FastifyRequest,
  reply: FastifyReply,
  options: ErrorOptions = {},
): FastifyReply {
  const {
    showsReasons = false,
    retrySpread = () => 0,
    warnOfRelay,
    docs = false,
    hint = '',
    requestLog,
    isNews = () => true,
  } = options;
  const refusal = error instanceof AuthError ? error : translate(error, request);
  const [status] = PROBLEMS[refusal.code];
  if (status === 500) requestLog?.failed(request, error);
  else if (refusal.code === 'unavailable' && refusal.cause) {
    const reason = reasonOf(refusal.cause);
    if (isNews(reason)) request.log.warn({ reason }, 'a dependency failed');
  }
  request.errorCode = refusal.code;
  request.refusalReason = refusal.reason ?? null;
  request.limited = refusal.limited ?? null;
  request.refusedService = refusal.serviceId ?? null;
  const problem = problemOf(refusal.code, request.id, refusal.errors, refusal.right);
  if (showsReasons && refusal.reason !== undefined && refusal.code !== 'invalid_credentials')
    problem.reason = refusal.reason;
  const relay = relayHint(refusal.code, request);
  if (relay !== null) {
    problem.detail += ` ${relay}`;
    warnOfRelay?.(request);
  }
  if (refusal.code === 'malformed_json' || refusal.code === 'unsupported_media_type')
    problem.detail += ` This operation takes ${takenBody(request)}.`;
  if (hint !== '' && refusal.code === 'not_found') problem.detail += ` ${hint}`;
  if (refusal.code === 'token_missing' && request.headers.authorization !== undefined)
    problem.detail += ' The header must be `Authorization: Bearer TOKEN`.';
  // Where a newcomer with a browser begins.
  if (docs && refusal.code === 'not_found' && request.url === '/') {
    problem.detail += ' The reference is at /docs.';
    reply.header('link', '</docs>; rel="service-doc"');
  }
  const { secondStep } = refusal;
  return reply
    .code(status)
    .headers(problemHeaders(refusal, retrySpread(refusal.code)))
    .type(errorType(request))
    .serializer(JSON.stringify)
    .send({
      ...problem,
      ...(secondStep && secondStepMembers(secondStep)),
      ...oauthMembers(request, problem),
    });
}

/** What a caller whose body is missing, or another kind of body, should send. */
function takenBody({ routeOptions: { schema } }: FastifyRequest): string {
  const { body, consumes = ['application/json'] } = schema ?? {};
  if (body === undefined) return 'no body';
  const { required = [], properties = {} } = body as { required?: string[]; properties?: object };
  const members = required.length > 0 ? required : Object.keys(properties);
  return `${consumes.join(' or ')} with ${members.join(', ')}`;
}

function translate(error: FastifyError | Error, request: FastifyRequest): AuthError {
  const { code = '', statusCode = 500 } = error as Partial<FastifyError>;
  const known = FASTIFY_CODES[code];
  if (known) {
    const errors = fieldErrors(error as FastifyError, takenBody(request));
    return new AuthError(known, { cause: error, ...(errors && { errors }) });
  }
  return new AuthError(statusCode >= 400 && statusCode < 500 ? 'bad_request' : 'internal_error', {
    cause: error,
  });
}

/** The validator's errors, without any value that the client sent. @param taken see `takenBody`. */
function fieldErrors(
  { validation, validationContext = 'body' }: FastifyError,
  taken: string,
): FieldError[] | undefined {
  const isText = validationContext !== 'body';
  return validation?.slice(0, MAX_FIELD_ERRORS).map(({ instancePath, keyword, params, message }) => {
    const where = isText ? validationContext.replace('querystring', 'query') : '';
    const property = params.missingProperty ?? params.additionalProperty;
    const path = `${instancePath}${typeof property === 'string' ? `/${truncate(property, 64)}` : ''}`;
    const isBody = where + path === '' && keyword === 'type';
    const said = isBody ? `must be ${taken}` : (PATTERN_MESSAGES.get(String(params.pattern)) ?? message);
    return { path: where + path, ...fieldProblem(keyword, Number(params.limit), said, isText) };
  });
}

/** What it means that a field violates a keyword of our schemas. A test compares these with all that they use. */
export const KEYWORDS: Readonly<Record<string, FieldProblem['code']>> = {
  required: 'required',
  additionalProperties: 'unknown',
  type: 'type',
  pattern: 'format',
  format: 'format',
  enum: 'not_allowed',
  const: 'not_allowed',
  minimum: 'out_of_range',
  maximum: 'out_of_range',
  minLength: 'too_short',
  maxLength: 'too_long',
  minItems: 'too_short',
  maxItems: 'too_many',
  uniqueItems: 'repeated',
};

/** @param isText whether every value arrives as text: then only a repeated one has another type. */
function fieldProblem(
  keyword: string,
  limit: number,
  given: string | undefined,
  isText: boolean,
): FieldProblem {
  const code = KEYWORDS[keyword] ?? 'format';
  const message = given ?? 'is not valid';
  switch (code) {
    case 'required':
      return { code, message: 'is required' };
    case 'unknown':
      return { code, message: 'is not a known property' };
    case 'type':
      return isText ? { code: 'repeated', message: 'must be given once' } : { code, message };
    case 'too_short':
      return { code, params: { min: limit }, message };
    case 'too_long':
    case 'too_many':
      return { code, params: { max: limit }, message };
    default:
      return { code, message };
  }
}

/** Says of each reason whether it has not been logged for REPEAT. */
function makeNews(now = () => performance.now()): (reason: string) => boolean {
  const loggedAt = new Map<string, number>();
  return (reason) => {
    if (now() - (loggedAt.get(reason) ?? -REPEAT) < REPEAT) return false;
    loggedAt.set(reason, now());
    return true;
  };
}

/**
 * Name and code only, because a driver's message may quote a query or a URL. The message of a KeyError is our own, and
 * names the key that is missing.
 */
function reasonOf(cause: unknown): string {
  const { name, code, message } = cause as { name?: string; code?: string; message?: string };
  return name === 'KeyError' ? `${name}: ${message}` : [name, code].filter(Boolean).join(' ');
}
