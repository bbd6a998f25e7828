import type { Pair } from '../support/client.ts';
import { seededAccount, type Account } from './accounts.ts';
import type { Judge } from './judge.ts';
import type { Wire } from './wire.ts';

/** A device before the run: signed in if it has a pair. */
export interface OpenedDevice {
  name: string;
  account: Account;
  pair?: Pair;
}

/** The run cannot begin, or may not. Its message is for the terminal. */
export class LoadError extends Error {
  override name = 'LoadError';
}

/** Devices, the first of which hold these pairs: device `i` belongs to seeded user `i`. */
export function devicesOf(
  users: number,
  pairs: readonly Pair[],
  judge: Pick<Judge, 'opened'>,
): OpenedDevice[] {
  return Array.from({ length: users }, (_, i) => {
    const device = { name: `load-device-${i}`, account: seededAccount(i) };
    const pair = pairs[i];
    if (!pair) return device;
    judge.opened(device.name, device.account.username, pair);
    return { ...device, pair };
  });
}

/** Logins in flight; a service hashes a few at once, and the rest would only wait. */
const AT_ONCE = 8;
const LONGEST_WAIT = 5;
/** Requests without an answer between two logins that succeed. */
const MAX_SILENT = 30;

/**
 * Logs in the first seeded users at a service that the kit did not start.
 * @param pause waits so many milliseconds.
 * @throws LoadError if a seeded user cannot log in, or the service does not answer
 */
export async function logInAll(
  count: number,
  {
    wire,
    pause,
    progress,
    signal,
  }: {
    wire: Pick<Wire, 'send'>;
    pause: (ms: number) => Promise<unknown>;
    progress: (done: number) => void;
    signal: AbortSignal;
  },
): Promise<Pair[]> {
  const pairs: Pair[] = [];
  let [next, done, silent] = [0, 0, 0];
  const logIn = async (i: number): Promise<Pair> => {
    const { username, password } = seededAccount(i);
    const call = { method: 'POST', path: '/api/auth', body: { username, password } } as const;
    for (;;) {
      if (signal.aborted) throw new LoadError('stopped before the run');
      const { status, code, retryAfter, body } = await wire.send({ ...call, userAgent: `load-device-${i}` });
      if (status === 200) {
        silent = 0;
        return body as Pair;
      }
      if (code === '429 rate_limited')
        throw new LoadError(
          'the service limits logins: set RATE_LIMIT_LOGIN=0 and RATE_LIMIT_NETWORK=0, or RATE_LIMIT_ALLOW',
        );
      if (status >= 400 && status < 500 && status !== 429)
        throw new LoadError(
          `${username} cannot log in (${code}): run \`npm run load -- seed --users N\` against the service's database`,
        );
      if (status === 0 && ++silent > MAX_SILENT) throw new LoadError(`the service does not answer: ${code}`);
      await pause(Math.min(LONGEST_WAIT, Math.max(1, retryAfter)) * 1000);
    }
  };
  const work = async () => {
    for (let i = next++; i < count; i = next++) {
      pairs[i] = await logIn(i);
      progress(++done);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return pairs;
}
