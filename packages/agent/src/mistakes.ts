import { setTimeout as sleep } from 'node:timers/promises';
import { VerifierError, type Verifier } from '@latchkey/verifier';

interface Parts {
  verifier: Pick<Verifier, 'ready'>;
  onReady: () => void;
  /** Called if a mistake has lasted for 30 s. An outage may last for ever. */
  onLasting: (mistake: VerifierError) => void;
  signal: AbortSignal;
  clock?: { now: () => number; sleep: (ms: number, signal: AbortSignal) => Promise<unknown> };
}

/** Milliseconds in which a failure of the same kind is the same. */
const SAME = 5000;
/** Milliseconds. A new client or secret takes seconds to reach every replica of Latchkey. */
const PATIENCE = 30_000;

const SYSTEM_CLOCK = {
  now: () => performance.now(),
  sleep: (ms: number, signal: AbortSignal) => sleep(ms, null, { signal }),
};

/** Looks every second, until the signal ends that. */
export async function watchMistakes(parts: Parts): Promise<void> {
  const { verifier, onReady, onLasting, signal, clock = SYSTEM_CLOCK } = parts;
  let wasReady = false;
  let since: number | null = null;
  while (!signal.aborted) {
    const error = await verifier.ready({ signal: AbortSignal.abort() }).then(
      () => null,
      (failure: unknown) => failure as VerifierError,
    );
    wasReady ||= error === null;
    if (error === null) onReady();
    const mistake = error && mistakeIn(error, wasReady);
    if (mistake === null) since = null;
    else if (clock.now() - (since ??= clock.now()) >= PATIENCE) onLasting(mistake);
    await clock.sleep(1000, signal).catch(() => null);
  }
}

/** @returns null for an outage */
function mistakeIn(error: VerifierError, wasReady: boolean): VerifierError | null {
  const { reason, cause } = error;
  if (reason === 'configuration') return error;
  // Another server is at the address. Later, a proxy may answer in Latchkey's place for a while.
  const isElsewhere = cause instanceof VerifierError && cause.reason === 'unexpected_answer';
  return isElsewhere && !wasReady ? cause : null;
}

/** Keys and feed fail together, and one line is enough for both. */
export function makeIsNews(): (error: VerifierError) => boolean {
  const told = new Map<string, number>();
  return ({ option, reason }) => {
    const what = `${option} ${reason}`;
    const isNews = performance.now() - (told.get(what) ?? -Infinity) > SAME;
    if (isNews) told.set(what, performance.now());
    return isNews;
  };
}

/** The message of an error, after the variables to look at. @param credentials those of the client */
export function explain({ option, message }: VerifierError, credentials: string): string {
  if (option === undefined) return message;
  return `${option === 'client' ? credentials : `LATCHKEY_${option.toUpperCase()}`}: ${message}`;
}
