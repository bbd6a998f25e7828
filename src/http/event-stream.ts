import type { ServerResponse } from 'node:http';

/** How long a flush may take, in milliseconds. */
const FLUSH_TIMEOUT = 10_000;

export interface EventStream {
  write: (text: string) => void;
  /** Bytes that were written and not flushed yet. */
  backlog: () => number;
  /** Resolves once all bytes are flushed. @returns false if that takes too long, or the stream is closed. */
  flushed: () => Promise<boolean>;
  end: () => void;
}

/**
 * Server-Sent Events on a raw Node response. The connection is not reused: a reader that reconnects may reach another
 * replica.
 * @param headers the common headers of every answer.
 * @param onClose called when the reader disconnects or the stream is ended.
 */
export function openEventStream(
  response: ServerResponse,
  headers: Record<string, string>,
  onClose: () => void,
): EventStream {
  response.on('close', onClose);
  // A reader may disconnect during a write: this is no error.
  response.on('error', () => undefined);
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream',
    // `no-transform`: a proxy that compresses the stream may hold events back until a block is full.
    'cache-control': 'no-store, no-transform',
    // Turns off buffering in nginx.
    'x-accel-buffering': 'no',
    connection: 'close',
  });
  response.flushHeaders();
  const isOpen = () => !response.writableEnded && !response.destroyed;

  return {
    write(text) {
      if (isOpen()) response.write(text);
    },
    backlog: () => response.writableLength,
    flushed: () =>
      new Promise((resolve) => {
        if (!isOpen() || !response.writableNeedDrain) {
          resolve(isOpen());
          return;
        }
        const done = () => {
          clearTimeout(timer);
          response.off('drain', done).off('close', done);
          resolve(isOpen() && !response.writableNeedDrain);
        };
        const timer = setTimeout(done, FLUSH_TIMEOUT).unref();
        response.on('drain', done).on('close', done);
      }),
    end() {
      // `end` waits for the backlog, and a reader that does not read would block it.
      if (response.writableLength > 0) response.destroy();
      else response.end();
    },
  };
}
