/** The body of an open feed. It knows when its reader has dealt with all that it was sent. */
export interface FeedBody {
  stream: ReadableStream<Uint8Array>;
  write(text: string): void;
  /** Resolves once the reader asks for more than everything written so far, or is gone. */
  heard(): Promise<void>;
  /** Whether the reader has dealt with everything written so far. */
  isIdle(): boolean;
  /** Ends it after what was written. */
  end(): void;
  /** Breaks it off, as a lost connection does. */
  breakOff(): void;
}

/** @param onClose called once, however it ends */
export function openFeedBody(onClose: () => void): FeedBody {
  const encoder = new TextEncoder();
  let unread = '';
  let isWaiting = false;
  let isEnded = false;
  let isClosed = false;
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let wake: () => void = () => undefined;
  let waiters: (() => void)[] = [];

  const isIdle = () => isWaiting && unread === '';

  function settle(): void {
    const settled = waiters;
    waiters = [];
    for (const each of settled) each();
  }

  function close(): void {
    if (isClosed) return;
    isClosed = true;
    onClose();
    settle();
    wake();
  }

  const stream = new ReadableStream<Uint8Array>(
    {
      start(given) {
        controller = given;
      },
      // The stream has no buffer of its own, so it asks for more only when the reader does, which has then
      // handled the last part.
      async pull(given) {
        if (unread === '' && !isEnded) {
          isWaiting = true;
          settle();
          await new Promise<void>((resolve) => (wake = resolve));
          isWaiting = false;
        }
        if (isClosed) return;
        if (unread === '') {
          given.close();
          close();
          return;
        }
        given.enqueue(encoder.encode(unread));
        unread = '';
      },
      cancel: close,
    },
    { highWaterMark: 0 },
  );

  return {
    stream,
    write(text) {
      unread += text;
      wake();
    },
    heard() {
      if (isClosed || isIdle()) return Promise.resolve();
      return new Promise((resolve) => waiters.push(resolve));
    },
    isIdle,
    end() {
      isEnded = true;
      wake();
    },
    breakOff() {
      if (isClosed) return;
      controller?.error(new TypeError('terminated'));
      close();
    },
  };
}
