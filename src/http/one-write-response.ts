import { ServerResponse, type IncomingMessage } from 'node:http';

type End = (chunk?: unknown, encoding?: unknown, callback?: unknown) => unknown;

/**
 * Sends head and body in one write. Node ends a response with another, empty chunk, and two chunks cost far more than
 * one string.
 */
export class OneWriteResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  // Fastify ends a response with these three arguments, the last two null.
  override end(chunk?: unknown, encoding?: unknown, callback?: unknown): this {
    const { socket } = this;
    // Without its length in the head, a body would be sent in chunks. A response that waits for an earlier one on the
    // same connection has no socket yet.
    const isWhole = typeof chunk === 'string' && chunk !== '' && this.headersSent && !encoding && !callback;
    if (!isWhole || socket?.writableCorked !== 0) {
      (super.end as End)(chunk, encoding, callback);
      return this;
    }
    // Joins head and body, and holds them back until `uncork`.
    // Latin-1 costs Node far less than UTF-8, and ASCII is the same in both.
    this.write(chunk, Buffer.byteLength(chunk) === chunk.length ? 'latin1' : 'utf8');
    socket.uncork();
    return super.end();
  }
}
