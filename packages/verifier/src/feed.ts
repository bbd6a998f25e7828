import { elapsedSince, momentOf, SYSTEM_CLOCK } from './clock.ts';
import { readEvents } from './event-stream.ts';
import { readMessage, type FeedMessage } from './feed-message.ts';
import { RefusedError } from './connection.ts';
import { setBackgroundTimeout, sleep } from './runtime.ts';
import { reasonOf, unavailable, VerifierError } from './verifier-error.ts';

export interface Feed {
  close(): Promise<void>;
}

interface Parts {
  /** Opens the feed after the last event. */
  open: (lastEventId: string | null, signal: AbortSignal) => Promise<Response>;
  onConnect: () => void;
  onMessage: (message: FeedMessage) => void;
  /** Called with the id of each heartbeat, after `onMessage`. */
  onHeartbeat: (position: string) => void;
  /** Called with null when the feed works again. */
  onError: (error: VerifierError | null) => void;
  /** Milliseconds. */
  times?: Partial<typeof TIMES>;
}

const TIMES = {
  /** A connection without an event for this long is dead: Latchkey sends a heartbeat every second. */
  silence: 3000,
  /** The pause before the second retry; it doubles with each. The first retry follows at once. */
  pause: 100,
  /** The longest pause: if one of two replicas is down, a reader should be back within a second. */
  maxPause: 1000,
  /** The pause after Latchkey refused us: an early retry would fail too. */
  refusedPause: 10_000,
  /** A connection that lasted this long resets the pause. */
  good: 5000,
};

/** Reads the feed until it is closed, and reconnects as needed. Starts at once. */
export function followFeed({ open, onConnect, onMessage, onHeartbeat, onError, times }: Parts): Feed {
  const { silence, pause, maxPause, refusedPause, good } = { ...TIMES, ...times };
  const closing = new AbortController();
  const isClosed = () => closing.signal.aborted;
  let lastEventId: string | null = null;

  /** @returns why the connection ended; null if the server ended it, as a replica does that stops. */
  async function follow(): Promise<unknown> {
    const connection = new AbortController();
    const giveUp = () => {
      connection.abort(unavailable('unreachable', 'the feed is silent'));
    };
    const hangUp = () => {
      connection.abort(unavailable('unreachable', 'the feed is closed'));
    };
    closing.signal.addEventListener('abort', hangUp);
    const ended = (reason: unknown): unknown =>
      connection.signal.aborted ? connection.signal.reason : reason;
    let heard = momentOf(SYSTEM_CLOCK);
    let timer = setBackgroundTimeout(giveUp, silence);
    try {
      const response = await openOrAbort(lastEventId, connection.signal);
      if (!response.body) return unavailable('unexpected_answer', 'the feed is empty');
      onConnect();
      for await (const event of readEvents(chunksOf(response.body, connection.signal))) {
        clearTimeout(timer);
        // After a pause of the process or its machine, what waited in buffers is read before the timer fires. Such a
        // heartbeat is as old as the pause, and would pass for a new one.
        if (elapsedSince(heard, SYSTEM_CLOCK) > silence) {
          giveUp();
          break;
        }
        heard = momentOf(SYSTEM_CLOCK);
        timer = setBackgroundTimeout(giveUp, silence);
        take(event);
      }
      return ended(null);
    } catch (error) {
      return ended(error);
    } finally {
      clearTimeout(timer);
      closing.signal.removeEventListener('abort', hangUp);
      connection.abort();
    }
  }

  /**
   * A fetch may ignore its signal: undici holds it weakly, and after a garbage collection an abort reaches neither
   * request nor body. So this code watches the signal for both.
   */
  function openOrAbort(from: string | null, signal: AbortSignal): Promise<Response> {
    return new Promise((resolve, reject) => {
      const abandon = () => {
        reject(signal.reason as Error);
      };
      signal.addEventListener('abort', abandon);
      open(from, signal).then((response) => {
        if (signal.aborted) void response.body?.cancel().catch(() => undefined);
        resolve(response);
      }, reject);
    });
  }

  function take(event: Parameters<typeof readMessage>[0]): void {
    try {
      const message = readMessage(event);
      if (message) onMessage(message);
      if (message?.type === 'heartbeat') onError(null);
      if (message?.type === 'heartbeat' && event.id) onHeartbeat(event.id);
    } catch (error) {
      // Ask for a snapshot, which contains the lost event too.
      lastEventId = null;
      throw error;
    }
    // Set the id only now, so that an event that was not applied is sent again.
    if (event.id !== undefined) lastEventId = event.id === '' ? null : event.id;
  }

  async function run(): Promise<void> {
    for (let failures = 0; !isClosed();) {
      const since = performance.now();
      const error = await follow();
      if (isClosed()) return;
      failures = performance.now() - since >= good ? 0 : failures + 1;
      // A replica that stops ends a good connection, and another one answers at once: no outage.
      if (error !== null || failures > 0) onError(asFailure(error));
      const longest = isRefusal(error) ? refusedPause : pauseAfter(failures);
      // Jitter, so that not all verifiers reconnect at once. Closing ends the pause.
      await sleep(longest * (0.5 + Math.random() / 2), closing.signal);
    }
  }

  function pauseAfter(failures: number): number {
    return failures === 0 ? 0 : Math.min(maxPause, pause * 2 ** (failures - 1));
  }

  const running = run();
  return {
    async close() {
      closing.abort();
      await running;
    },
  };
}

function asFailure(error: unknown): VerifierError {
  if (error instanceof VerifierError) return error;
  const what = error === null ? 'the feed ended' : `the feed broke off: ${reasonOf(error)}`;
  return unavailable('unreachable', what);
}

/** Whether Latchkey refused this client. Other statuses may come from a proxy, and be temporary. */
function isRefusal(error: unknown): boolean {
  return error instanceof RefusedError && [401, 403].includes(error.answered);
}

/** Ends on abort, and then cancels the body. */
async function* chunksOf(body: ReadableStream<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  const hangUp = () => {
    reader.cancel().catch(() => undefined);
  };
  signal.addEventListener('abort', hangUp);
  while (!signal.aborted) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
  hangUp();
}
