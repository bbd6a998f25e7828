import { setTimeout as sleep } from 'node:timers/promises';
import type { UserToken, Verifier } from '@latchkey/verifier';
import { anAccount, bearer, type Pair } from '../../support/client.ts';
import type { Call } from '../../../packages/load/src/exchange.ts';
import type { Answer, Balancer } from './balancer.ts';

/** A token that a service verifies locally, and how to end it. */
export interface Verified {
  token: string;
  end: Call;
}

/** Who checks tokens: a verifier in this process, or an agent. @throws with a `code` as the verifier's */
export type Reader = Pick<Verifier, 'verify'>;

/** The result of ending a token. */
export interface Ended {
  /** Of each reader: milliseconds from the answer to the logout to its refusal; 0 if that came first. */
  took: number[];
  isMissed: boolean;
}

/** Concurrent tasks. */
const PARALLEL = 8;
/** Sessions of one user. */
const EACH = 50;
/** Milliseconds between two checks, and after which a revocation counts as missed. */
const [LOOK, MISSED] = [2, 60_000];

/** Runs `each` over all items, with limited concurrency. */
export async function inParallel<Item, Result>(
  items: readonly Item[],
  each: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  let next = 0;
  const work = async () => {
    for (let i = next++; i < items.length; i = next++) results[i] = await each(items[i] as Item);
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
  return results;
}

/** Retries until the answer is 200. @throws Error if the answer is neither 200 nor "try again". */
export async function insist(balancer: Balancer, call: Call): Promise<Answer> {
  for (;;) {
    const answer = await balancer.send(call);
    if (answer.status === 200) return answer;
    if (answer.status !== 0 && answer.status !== 503)
      throw new Error(`${call.path} was answered ${answer.status}`);
    await sleep(50);
  }
}

/** Opens this many sessions, and a long-lived token for every twentieth. */
export async function openVerified(balancer: Balancer, count: number): Promise<Verified[]> {
  const users = Array.from({ length: Math.ceil(count / EACH) }, () => anAccount());
  await inParallel(users, (body) => insist(balancer, { method: 'POST', path: '/api/auth/signup', body }));
  return inParallel(
    Array.from({ length: count }, (_, i) => i),
    async (i) => {
      const { username, password } = users[Math.floor(i / EACH)] ?? anAccount();
      const opened = await insist(balancer, {
        method: 'POST',
        path: '/api/auth',
        body: { username, password },
      });
      const token = (opened.body as Pair).access_token;
      if (i % 20 !== 0) return { token, end: { method: 'DELETE', path: '/api/auth', token } };
      const created = await insist(balancer, {
        method: 'POST',
        path: '/api/auth/llt',
        token,
        body: { device: 'tablet' },
      });
      const { id, longlived_token } = created.body as { id: number; longlived_token: string };
      return { token: longlived_token, end: { method: 'DELETE', path: `/api/auth/llt/${id}`, token } };
    },
  );
}

/** The reader's reason to refuse the token; `good` if it accepts it. */
export function outcomeOf(reader: Reader, token: string): Promise<string> {
  return reader.verify(token).then(
    () => 'good',
    (error: unknown) => (error as { code?: string }).code ?? String(error),
  );
}

/** The same, repeated until there is a decision: for a new long-lived token the verifier may have to ask Latchkey. */
export async function decisionOn(reader: Reader, token: string): Promise<string> {
  const since = performance.now();
  for (;;) {
    const outcome = await outcomeOf(reader, token);
    if (outcome !== 'unavailable' || performance.now() - since > MISSED) return outcome;
    await sleep(50);
  }
}

/** Ends the token, and polls the readers until each of them refuses it. */
export async function endAndWatch(
  balancer: Balancer,
  readers: readonly Reader[],
  { token, end }: Verified,
): Promise<Ended> {
  let answeredAt = 0;
  const refusedAt = async (reader: Reader) => {
    while (answeredAt === 0 || performance.now() - answeredAt < MISSED) {
      if ((await outcomeOf(reader, token)) === 'invalid_token') return performance.now();
      await sleep(LOOK);
    }
    return Infinity;
  };
  const watching = Promise.all(readers.map(refusedAt));
  await insist(balancer, end);
  answeredAt = performance.now();
  const took = (await watching).map((at) => Math.max(0, at - answeredAt));
  return { took, isMissed: took.includes(Infinity) };
}

/** `p50 3 ms, p99 40 ms, at most 90 ms`, by the reader with this index. */
export function percentiles(ended: readonly Ended[], reader: number): string {
  const sorted = ended.map(({ took }) => took[reader] ?? NaN).sort((a, b) => a - b);
  const at = (share: number) => `${(sorted[Math.ceil(share * sorted.length) - 1] ?? NaN).toFixed(0)} ms`;
  return `p50 ${at(0.5)}, p99 ${at(0.99)}, at most ${at(1)}`;
}

/** An agent as a reader. */
export function askingAgent({ url }: { url: string }): Reader {
  return {
    async verify(token) {
      const response = await fetch(`${url}/verify`, { headers: bearer(token) }).catch(() => null);
      await response?.arrayBuffer();
      // While it is down, its service answers 503.
      const { status = 503 } = response ?? {};
      if (status === 200) return {} as UserToken;
      throw Object.assign(new Error(`answered ${status}`), {
        code: { 401: 'invalid_token', 503: 'unavailable' }[status],
      });
    },
  };
}
