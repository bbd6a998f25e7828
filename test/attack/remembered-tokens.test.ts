// alone
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { test } from 'tap';
import { rememberedTokens } from '../../src/domain/sizing/remembered-tokens.ts';
import { makeIdentityPacking } from '../../src/http/identity-packing.ts';
import { makeVerifiedCredentials } from '../../src/http/verified-credentials.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, logIn, pairOf, refresh, signUp, verify, type Pair } from '../support/client.ts';
import '../support/watch-leaks.ts';

// The threat: somebody refreshes without end and presents each new token, so that a replica forgets everybody else's, and
// checks a signature whenever one of them comes back, or so that it runs out of memory.

const SESSIONS = 100;
const CAPACITY = 5 * SESSIONS;

test('100 sessions that refresh endlessly take no more than their share of what is remembered', async (t) => {
  const target = await buildTestApp(t, {
    override: (options) => ({ ...options, rememberedTokens: CAPACITY }),
  });
  const bystanders = await sessionsOf(target);
  const attackers = await sessionsOf(target);
  const presentAll = async (pairs: readonly Pair[]) => {
    for (const { access_token: token } of pairs) await timeOf(target, token);
  };
  const attack = async (times: number) => {
    for (let i = 0; i < times * SESSIONS; i++) {
      const slot = i % SESSIONS;
      const token = attackers[slot]?.refresh_token ?? '';
      const pair = pairOf(await refresh(target, token));
      attackers[slot] = pair;
      await timeOf(target, pair.access_token);
    }
  };

  await presentAll(bystanders);
  // With the tokens of the comparison, as many as are surely remembered.
  await attack(CAPACITY / SESSIONS - 2);
  t.ok(await areKnown(target, bystanders, attackers), 'the others are still remembered');

  await attack((2 * CAPACITY) / SESSIONS);
  t.notOk(await areKnown(target, bystanders, attackers), 'no more than two generations are');
});

/** Sessions of one account. */
async function sessionsOf(target: TestApp): Promise<Pair[]> {
  const account = anAccount();
  const pairs = [await signUp(target, account)];
  while (pairs.length < SESSIONS) pairs.push(await logIn(target, account.username));
  return pairs;
}

/** Milliseconds of a verify. */
async function timeOf(target: TestApp, token: string): Promise<number> {
  const begun = performance.now();
  const { statusCode } = await verify(target, token);
  if (statusCode !== 200) throw new Error(`verify answered ${statusCode}`);
  return performance.now() - begun;
}

/**
 * Whether the tokens of these sessions are remembered: verify takes as long for them as for a token that it has just
 * seen, and not as long as for one that it sees for the first time. They take turns, because the machine may be busy.
 */
async function areKnown(target: TestApp, asked: readonly Pair[], others: Pair[]): Promise<boolean> {
  const times = { asked: [] as number[], first: [] as number[], second: [] as number[] };
  for (const [i, { access_token: token }] of asked.entries()) {
    const pair = pairOf(await refresh(target, others[i]?.refresh_token ?? ''));
    others[i] = pair;
    // What a refresh leaves to do would count as the first verify after it.
    await timeOf(target, token).then((time) => times.asked.push(time));
    times.first.push(await timeOf(target, pair.access_token));
    times.second.push(await timeOf(target, pair.access_token));
  }
  return medianOf(times.asked) < (medianOf(times.first) + medianOf(times.second)) / 2;
}

function medianOf(values: readonly number[]): number {
  return [...values].sort((one, other) => one - other)[values.length >> 1] ?? NaN;
}

test('filling the largest cache stops the event loop for 20 ms at most', (t) => {
  const capacity = rememberedTokens(64 * 1024 ** 3, 0);
  t.equal(capacity, 1_000_000);
  const tokens = makeVerifiedCredentials(capacity, makeIdentityPacking());
  // Whatever belongs to the cache returns with each fill; what the machine does besides may not.
  const longest = [0, 1, 2].map((fill) => {
    let most = 0;
    let before = busyTime();
    for (let i = fill * capacity; i < (fill + 1) * capacity; i++) {
      tokens.add(`a-token-of-${i}`, {
        userId: i,
        tokenId: i,
        generation: 2 ** 50 + i,
        expiresAt: i,
        withFactor: false,
        authTime: i,
        type: 'access',
      });
      if (i % 100 > 0) continue;
      const now = busyTime();
      most = Math.max(most, now - before);
      before = now;
    }
    return most;
  });
  t.ok(Math.min(...longest) < 20, `${longest.map((time) => time.toFixed(1)).join(', ')} ms`);
  t.end();
});

/** Milliseconds for which the main thread has run. Other processes do not count, where the system tells. */
function busyTime(): number {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'latin1').split(' ')[0]) / 1e6;
  } catch {
    return performance.now();
  }
}
