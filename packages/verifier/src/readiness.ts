import { unavailable, type VerifierError } from './verifier-error.ts';

/** What has to work once before the verifier can check tokens without asking. */
export type Part = 'keys' | 'feed';

export interface Readiness {
  /** The part works. */
  loaded(part: Part): void;
  failed(part: Part, error: VerifierError): void;
  /**
   * Resolves when every part has worked once and none has a mistake now.
   * @throws VerifierError `configuration` for a mistake that only an operator or developer can correct; `not_ready` if
   * the signal ends the wait, or the verifier is closed.
   */
  wait(signal?: AbortSignal): Promise<void>;
  close(): void;
}

interface State {
  isLoaded: boolean;
  failure: VerifierError | null;
}

export function makeReadiness(): Readiness {
  const parts: Record<Part, State> = {
    keys: { isLoaded: false, failure: null },
    feed: { isLoaded: false, failure: null },
  };
  const waiting = new Set<() => void>();
  let isClosed = false;

  const states = () => Object.values(parts);
  const failures = () => states().flatMap(({ failure }) => failure ?? []);
  const mistake = () => failures().find(({ reason }) => reason === 'configuration');
  const isReady = () => states().every(({ isLoaded }) => isLoaded);

  function notReady(why: string): VerifierError {
    const [cause] = failures();
    const message = `not ready, ${why}${cause ? `: ${cause.message}` : ''}`;
    return unavailable('not_ready', message, { cause, option: cause?.option });
  }

  function look(): void {
    for (const each of waiting) each();
  }

  return {
    loaded(part) {
      parts[part] = { isLoaded: true, failure: null };
      look();
    },
    failed(part, failure) {
      parts[part].failure = failure;
      look();
    },
    wait(signal) {
      return new Promise((resolve, reject) => {
        // All other timers let the process end, and a service that awaits this before it listens has nothing else.
        const alive = setInterval(() => undefined, 60_000);
        const done = (error?: VerifierError) => {
          clearInterval(alive);
          waiting.delete(check);
          signal?.removeEventListener('abort', check);
          if (error) reject(error);
          else resolve();
        };
        const check = () => {
          const wrong = mistake();
          if (wrong) done(wrong);
          else if (isReady()) done();
          else if (isClosed) done(notReady('and it is closed'));
          else if (signal?.aborted) done(notReady('and the time is over'));
        };
        waiting.add(check);
        signal?.addEventListener('abort', check);
        check();
      });
    },
    close() {
      isClosed = true;
      look();
    },
  };
}
