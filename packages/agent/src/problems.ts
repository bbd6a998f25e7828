import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';

/** Refusals besides those of the verifier, as Latchkey answers them (RFC 9457). */
const PROBLEMS = {
  bad_request: [400, 'Bad request', 'The request is not well-formed HTTP.'],
  validation_failed: [400, 'Validation failed', 'The body must be a form with one `token`.'],
  insufficient_user_authentication: [
    401,
    'Insufficient user authentication',
    'A proxy demands something of the login here, which the agent does not check.',
  ],
  not_found: [404, 'Not found', 'There is nothing at this path.'],
  method_not_allowed: [405, 'Method not allowed', 'The path does not support this method; see Allow.'],
  request_timeout: [408, 'Request timeout', 'The request did not arrive in time.'],
  body_too_large: [413, 'Body too large', 'The body is larger than 16 KiB.'],
  unsupported_media_type: [415, 'Unsupported media type', 'This path takes a form.'],
  headers_too_large: [431, 'Headers too large', 'The headers are larger than 16 KiB.'],
  internal_error: [500, 'Internal error', 'Something went wrong on our side.'],
  unavailable: [503, 'Unavailable', 'It cannot be told for now whether the token is good; see Retry-After.'],
} as const;

export type Code = keyof typeof PROBLEMS;

/** The request's X-Request-Id, or a new one if it has none that Latchkey would take. */
export function requestIdOf({ headers: { 'x-request-id': given } }: IncomingMessage): string {
  return typeof given === 'string' && /^[A-Za-z0-9-]{1,64}$/.test(given) ? given : randomUUID();
}

/** @param requestId given if the log has named the request already, so that both have the same id. */
export function answerProblem(
  response: ServerResponse,
  code: Code,
  more?: Record<string, string>,
  requestId = requestIdOf(response.req),
): unknown {
  const { status, headers, body } = render(code, requestId, more);
  return response.writeHead(status, headers).end(body);
}

/** A request that Node could not read has no response. */
export function answerClientError({ code }: NodeJS.ErrnoException, socket: Duplex): void {
  if (code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  const { status, title, headers, body } = render(codeOf(code), randomUUID(), { connection: 'close' });
  const lines = Object.entries(headers).map((each) => `${each.join(': ')}\r\n`);
  socket.end(`HTTP/1.1 ${status} ${title}\r\n${lines.join('')}\r\n${body}`);
}

function codeOf(code: string | undefined): Code {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large';
  return code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 'request_timeout' : 'bad_request';
}

function render(code: Code, requestId: string, more?: Record<string, string>) {
  const [status, title, detail] = PROBLEMS[code];
  const problem = { type: `urn:latchkey:error:${code}`, title, status, detail, code };
  const body = JSON.stringify({ ...problem, request_id: requestId });
  const headers = {
    'content-type': 'application/problem+json',
    'content-length': String(Buffer.byteLength(body)),
    'cache-control': 'no-store',
    ...(status === 503 && { 'retry-after': '1' }),
    ...more,
  };
  return { status, title, headers, body };
}
