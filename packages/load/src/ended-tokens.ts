import { claimsOf } from './pair.ts';
import type { Judge } from './judge.ts';
import type { Samples } from './samples.ts';
import type { Wire } from './wire.ts';
import type { Clock } from './schedule.ts';

/** A token that the service must refuse from now on. */
export interface EndedToken {
  token: string;
  type: 'access' | 'refresh';
  why: 'logged out' | 'superseded';
}

/** Presents ended tokens again and again: each must be refused. */
export interface EndedTokens {
  add(...tokens: EndedToken[]): void;
  /** Presents one, the newest first: a service that forgets a revocation may do so at once. */
  tryOne(): Promise<void>;
  /** Presents every remembered one once more, after the run: the samples leave these out. @param signal ends it early. */
  tryAll(signal: AbortSignal): Promise<void>;
}

/** Enough to notice; later ones replace the oldest. */
const REMEMBERED = 1000;
const AT_ONCE = 16;

/** A superseded refresh token is never added: to present it would be theft. */
export function makeEndedTokens(ports: {
  wire: Pick<Wire, 'send'>;
  judge: Pick<Judge, 'triedEnded'>;
  samples: Pick<Samples, 'record'>;
  clock: Pick<Clock, 'monotonic'>;
}): EndedTokens {
  const { wire, judge, samples, clock } = ports;
  const fresh: EndedToken[] = [];
  const seen: EndedToken[] = [];
  let [added, next] = [0, 0];

  async function present({ token, type, why }: EndedToken, isSampled = true): Promise<void> {
    const due = clock.monotonic();
    const path = type === 'access' ? '/api/auth/verify' : '/api/auth/refresh';
    const { status, code } = await wire.send({ method: 'GET', path, token });
    // The service must refuse it.
    if (isSampled)
      samples.record({
        operation: 'ended',
        due,
        done: clock.monotonic(),
        code: status === 401 ? 'ok' : code,
      });
    if (status === 200 || status === 401)
      judge.triedEnded(`the ${type} token ${String(claimsOf(token).jti)}, which was ${why},`, status === 200);
  }

  return {
    add(...tokens) {
      for (const each of tokens) {
        fresh.push(each);
        seen[added++ % REMEMBERED] = each;
      }
      if (fresh.length > REMEMBERED) fresh.splice(0, fresh.length - REMEMBERED);
    },
    async tryOne() {
      const token = fresh.pop() ?? seen[next++ % Math.max(1, seen.length)];
      if (token) await present(token);
    },
    async tryAll(signal) {
      const left = [...seen];
      const work = async () => {
        for (let token = left.pop(); token && !signal.aborted; token = left.pop())
          await present(token, false);
      };
      await Promise.all(Array.from({ length: AT_ONCE }, work));
    },
  };
}
