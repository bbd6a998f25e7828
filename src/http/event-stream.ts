import type { ServerResponse } from 'node:http';

/** Milliseconds that what was sent may take to leave us. */
const PATIENCE = 10_000;

export interface EventStream {
  write: (text: string) => void;
  /** Bytes that were written and have not left us. */
  backlog: () => number;
  /** Resolves once they have. @returns false where that takes too long, or nobody reads any more. */
  flushed: () => Promise<boolean>;
  end: () => void;
}

/**
 * Server-Sent Events on a response of Node's own. The connection is not used again: whoever comes back may come to
 * another replica.
 * @param headers those that every answer has.
 * @param onClose the reader has gone, or the stream was ended.
 */
export function openEventStream(
  response: ServerResponse,
  headers: Record<string, string>,
  onClose: () => void,
): EventStream {
  response.on('close', onClose);
  // A reader that goes while it is written to is nothing to talk about.
  response.on('error', () => undefined);
  response.writeHead(200, {
    ...headers,
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    // nginx would gather what should leave at once.
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
        const timer = setTimeout(done, PATIENCE).unref();
        response.on('drain', done).on('close', done);
      }),
    end() {
      // One that does not read would never let it be ended.
      if (response.writableLength > 0) response.destroy();
      else response.end();
    },
  };
}
