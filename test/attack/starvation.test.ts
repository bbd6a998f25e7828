import { test, type Test } from 'tap';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, bearer, call } from '../support/client.ts';
import { anOwner, attempt, HOME, PASSWORD, type Headers } from '../support/guessing.ts';
import { hashedPasswords } from '../support/spy.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const AT_ONCE = 2;
const IN_FLIGHT = 60;

/** The sender of the i-th request of a flood. */
const SOURCES: Record<string, (i: number) => string> = {
  'one /64': (i) => `2001:db8:1:1::${i.toString(16)}`,
  'one /48': (i) => `2001:db8:1:${(i % 65_536).toString(16)}::1`,
  'the owner’s own /24': (i) => `192.0.2.${2 + (i % 250)}`,
  'many networks': (i) => `198.${18 + ((i >> 8) % 2)}.${i % 256}.7`,
};

type Send = (target: TestApp, headers: Headers) => ReturnType<typeof call>;

const REQUESTS: Record<'signup' | 'login' | 'reset', Send> = {
  signup: (target, headers) =>
    call(target, 'POST /api/auth/signup', {
      payload: { ...anAccount(), password: 'an unrelated one' },
      headers,
    }),
  login: (target, headers) => attempt(target, 'unknown', 'a wrong one', headers),
  reset: (target, headers) =>
    call(target, 'POST /api/auth/password-reset', {
      payload: { reset_token: 'unknown', password: 'an unrelated one' },
      headers,
    }),
};

/** Keeps requests in flight. `isShed` once one was refused for load; `end` waits for the last answers. */
function flood(target: TestApp, kinds: Send[], source: (i: number) => string) {
  let [sent, isShed, isOver] = [0, false, false];
  const work = async (send: Send) => {
    while (!isOver) {
      const { statusCode } = await send(target, { 'x-forwarded-for': source(sent++) });
      isShed ||= statusCode === 503;
      // A refusal is quick: without a pause, this process would do nothing else.
      await new Promise((resolve) => setTimeout(resolve, 250));
    }
  };
  const all = Array.from({ length: IN_FLIGHT }, (_, i) => work(kinds[i % kinds.length] ?? REQUESTS.login));
  return {
    isShed: () => isShed,
    end: async () => {
      isOver = true;
      await Promise.all(all);
    },
  };
}

/**
 * Logs in under the flood. Every login succeeds, and the median within three times the time of one hash, its own
 * included. Counted in hashes that begin before its own, so that a slow machine makes little difference.
 */
async function assertServed(t: Test, target: TestApp, owner: string, headers: Headers) {
  const begun = hashedPasswords(t);
  const ahead: number[] = [];
  for (let i = 0; i < 5; i++) {
    begun.length = 0;
    const answer = await attempt(target, owner, PASSWORD, headers);
    t.equal(answer.statusCode, 200, answer.body);
    t.ok(begun.includes(PASSWORD));
    ahead.push(begun.indexOf(PASSWORD));
  }
  const median = ahead.sort((one, other) => one - other)[2] ?? Infinity;
  t.ok(1 + median / AT_ONCE <= 3, `hashes that began first: ${ahead.join()}`);
}

test('a flood does not keep the owner of a known device from logging in', async (t) => {
  const env = {
    TRUST_PROXY: 'loopback',
    // Some 50 ms a hash.
    SCRYPT_LOG_N: '14',
    HASH_CONCURRENCY: `${AT_ONCE}`,
    // Fewer places than requests in flight: the flood fills the queue.
    HASH_QUEUE: '16',
  };
  const target = await buildTestApp(t, { env });
  const { username } = await anOwner(target);

  for (const [name, source] of Object.entries(SOURCES)) {
    await t.test(`signups, logins and resets from ${name}`, async (t) => {
      const attack = flood(target, Object.values(REQUESTS), source);
      await until(attack.isShed);
      await assertServed(t, target, username, HOME);
      await attack.end();
    });
  }

  await t.test('nor does an account that logs in from two networks with its own token', async (t) => {
    const attacker = await anOwner(target, { 'x-forwarded-for': '198.18.0.9' });
    const known: Send = (target, headers) =>
      attempt(target, attacker.username, 'a wrong one', {
        ...headers,
        ...bearer(attacker.pair.refresh_token),
      });
    const attack = flood(target, [known], (i) => `198.18.${i % 2}.${2 + (i % 250)}`);
    await until(attack.isShed);
    // One hash of each of its networks goes first (ADR 8).
    await assertServed(t, target, username, HOME);
    await attack.end();
  });

  await t.test('nor does a flood of signups keep a new device', async (t) => {
    const attack = flood(target, [REQUESTS.signup], SOURCES['many networks'] ?? String);
    await until(attack.isShed);
    await assertServed(t, target, username, { 'x-forwarded-for': '203.0.113.9', 'user-agent': 'New/1.0' });
    await attack.end();
  });
});
