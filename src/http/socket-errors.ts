import { randomUUID } from 'node:crypto';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { ErrorCode } from '../domain/errors.ts';
import type { Observe } from '../telemetry/observe.ts';
import { requestIdOf } from './plugins/request-context.ts';
import type { RequestLog } from './plugins/request-log.ts';
import { PROBLEM_TYPE, problemHeaders, problemOf } from './problem.ts';

/** Where a refusal is logged and counted. */
export interface Report {
  requestLog: Pick<RequestLog, 'refused'>;
  observe: Pick<Observe, 'error'>;
}

/**
 * Refusals below the router, where no request object exists: written to the socket, in the same format as all others.
 */
export function answerClientError(error: NodeJS.ErrnoException, socket: Socket, report: Report): void {
  if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
  // Node detects this only after the request has reached its route, which refuses it (request-context.ts).
  if (error.code === 'HPE_INVALID_TRANSFER_ENCODING' && isAnswered(socket)) return void socket.end();
  const { head, headers, body } = render(codeOf(error), randomUUID(), report);
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.end(`HTTP/1.1 ${head}\r\n${lines.join('\r\n')}\r\n\r\n${body}`);
}

/** Without this, Node answers an unknown Expect header itself, and without a body. */
export function answerExpectations(server: Server, report: Report): void {
  server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    const { status, headers, body } = render('expectation_failed', requestIdOf(request), report);
    response.writeHead(status, headers).end(body);
  });
}

/**
 * Whether the faulty request was answered already: a proxy would take a second answer for that of the next request on
 * the connection. Node has no public name for the response in flight; its own handler reads the same property.
 */
function isAnswered(socket: Socket): boolean {
  const { _httpMessage: response } = socket as { _httpMessage?: ServerResponse | null };
  return response?.headersSent ?? false;
}

function codeOf({ code }: NodeJS.ErrnoException): ErrorCode {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large';
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') return 'request_timeout';
  return 'bad_request';
}

function render(code: ErrorCode, requestId: string, { requestLog, observe }: Report) {
  const problem = problemOf(code, requestId);
  const body = JSON.stringify(problem);
  const headers = {
    ...problemHeaders({ code, retryAfter: undefined }),
    'content-type': PROBLEM_TYPE,
    'content-length': String(Buffer.byteLength(body)),
    'x-request-id': requestId,
    connection: 'close',
  };
  requestLog.refused(requestId, code);
  observe.error(code, null);
  return { status: problem.status, head: `${problem.status} ${problem.title}`, headers, body };
}
