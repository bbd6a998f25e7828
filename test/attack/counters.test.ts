import { test, type Test } from 'tap';
import { COUNTED_BY } from '../../src/domain/limits/counter-keys.ts';
import { SLOT_LIMITS, type SlotLimit } from '../../src/domain/refusal-reasons.ts';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, call, logIn, pairOf } from '../support/client.ts';
import { valueOf } from '../support/exposition.ts';
import { aFactor, firstStep, logInWithFactor, secondStep } from '../support/factors.ts';
import { confirmApp, setUpApp } from '../support/own-factors.ts';
import { addPasskey, asserted, loginOptions, PASSKEYS, sendPasskey } from '../support/passkeys.ts';
import { redisServersMissing, startRedis, type RedisServer } from '../support/redis-server.ts';
import { redeem } from '../support/resets.ts';
import '../support/watch-leaks.ts';

// One account and one /48, whose every request comes from another /64, try to fill Redis with counters. A new limit does
// not compile until it says here how a caller gets as many of its counters as possible.

/** Of each limit that is on: so small that the loops use it up. */
const FEW = '2/3600';
/** In a round the caller renews what it can, and tries more often than one counter allows. */
const ROUNDS = 6;
const TRIES = 3;
/** A counter with its first slot, by MEMORY USAGE, which a hash may pay for. docs/threat-model.md has the figure. */
const BYTES = 190;

type Headers = Record<string, string>;
type Round = (from: () => Headers, i: number) => Promise<unknown>;

interface Attack {
  /** The limits of this counter alone: others would stop the loop before it. */
  limits: Environment;
  begin: (target: TestApp) => Promise<Round>;
}

let addresses = 0;
const fromSite = (): Headers => ({ 'x-forwarded-for': `2001:db8:77:${(addresses++).toString(16)}::1` });

async function anOwner(target: TestApp) {
  const account = anAccount();
  return { ...account, pair: pairOf(await call(target, 'POST /api/auth/signup', { payload: account })) };
}

async function repeatedly(task: (i: number) => Promise<unknown>): Promise<void> {
  for (let i = 0; i < TRIES; i++) await task(i);
}

/** Wrong codes for an account whose password changes in each round. */
const byNewPasswords: Attack = {
  limits: { RATE_LIMIT_FACTOR: FEW },
  begin: async (target) => {
    const owner = await anOwner(target);
    const factor = await aFactor(target, owner.pair);
    const { access_token: token } = await logInWithFactor(target, owner.username, factor);
    let { password } = owner;
    return async (from, i) => {
      const payload = { current_password: password, new_password: `analytical engine ${i}` };
      await call(target, 'POST /api/user/password', { token, payload, headers: from() });
      password = payload.new_password;
      const login_token = await firstStep(target, owner.username, { password, headers: from() });
      await repeatedly(() => secondStep(target, { login_token, code: '000000' }, from()));
    };
  },
};

/** Wrong codes for an app that is set up anew in each round. */
const bySetUps: Attack = {
  limits: { RATE_LIMIT_FACTOR: FEW },
  begin: async (target) => {
    const { access_token: token } = (await anOwner(target)).pair;
    return async () => {
      await setUpApp(target, token);
      await repeatedly(() => confirmApp(target, token, '000000'));
    };
  },
};

const newTokens = (limits: Environment): Attack => ({
  limits,
  begin: async (target) => {
    const { access_token: token } = (await anOwner(target)).pair;
    const payload = { device: 'Kitchen' };
    return (from) =>
      repeatedly(() => call(target, 'POST /api/auth/llt', { token, payload, headers: from() }));
  },
});

const ATTACKS: Record<SlotLimit, Attack> = {
  account: {
    limits: { RATE_LIMIT_ACCOUNT: FEW },
    begin: (target) =>
      Promise.resolve((from, i) =>
        repeatedly((n) => {
          const payload = { username: `unknown-${i}-${n}`, password: 'guess' };
          return call(target, 'POST /api/auth', { payload, headers: from() });
        }),
      ),
  },
  device: {
    limits: { RATE_LIMIT_ACCOUNT: FEW },
    begin: async (target) => {
      const { username, password } = await anOwner(target);
      return async (from) => {
        const payload = { username, password };
        const { refresh_token } = pairOf(await call(target, 'POST /api/auth', { payload, headers: from() }));
        await repeatedly(() => {
          const headers = { ...from(), authorization: `Bearer ${refresh_token}` };
          return call(target, 'POST /api/auth', { payload: { username, password: 'guess' }, headers });
        });
      };
    },
  },
  network: {
    limits: { RATE_LIMIT_NETWORK: FEW },
    begin: (target) =>
      Promise.resolve((from, i) =>
        repeatedly((n) => redeem(target, `lkr_${i}-${n}`, 'analytical engine', from())),
      ),
  },
  factor: byNewPasswords,
  factor_total: byNewPasswords,
  factor_device: {
    limits: { RATE_LIMIT_FACTOR: FEW },
    begin: async (target) => {
      const { username, pair } = await anOwner(target);
      const factor = await aFactor(target, pair);
      // A session of its own in each round, of which the first lock out no later one.
      const sessions: string[] = [];
      for (let i = 0; i < 2 * ROUNDS; i++)
        sessions.push((await logInWithFactor(target, username, factor)).refresh_token);
      const login_token = await firstStep(target, username);
      return (from, i) =>
        repeatedly(() =>
          secondStep(
            target,
            { login_token, code: '000000' },
            { ...from(), authorization: `Bearer ${sessions[i]}` },
          ),
        );
    },
  },
  factor_setup: bySetUps,
  factor_setup_total: bySetUps,
  signup_network: {
    limits: { RATE_LIMIT_SIGNUP_NETWORK: FEW },
    begin: (target) =>
      Promise.resolve((from) =>
        repeatedly(() => call(target, 'POST /api/auth/signup', { payload: anAccount(), headers: from() })),
      ),
  },
  reset_network: {
    limits: { RATE_LIMIT_NETWORK: FEW },
    begin: (target) =>
      Promise.resolve((from, i) =>
        repeatedly((n) => {
          const payload = { username: `unknown-${i}-${n}` };
          return call(target, 'POST /api/auth/password-reset-request', { payload, headers: from() });
        }),
      ),
  },
  reset_account: {
    limits: { RATE_LIMIT_ACCOUNT: FEW },
    begin: async (target) => {
      const { username } = await anOwner(target);
      return async (from, i) => {
        // A session each: their user can open as many as they like.
        const { refresh_token: token } = await logIn(target, username);
        return repeatedly((n) => {
          const payload = { username: `unknown-${i}-${n}` };
          const headers = from();
          return call(target, 'POST /api/auth/password-reset-request', { token, payload, headers });
        });
      };
    },
  },
  llt_budget: newTokens({ RATE_LIMIT_LLT: FEW }),
  llt_network: newTokens({ RATE_LIMIT_LLT_NETWORK: FEW }),
  passkey_budget: {
    limits: { ...PASSKEYS, RATE_LIMIT_LLT: FEW },
    begin: async (target) => {
      const { browser } = await addPasskey(target, (await anOwner(target)).pair.access_token);
      return (from) =>
        repeatedly(async () =>
          sendPasskey(target, asserted(browser, await loginOptions(target)), {}, from()),
        );
    },
  },
  profile_budget: {
    limits: { RATE_LIMIT_PROFILE: FEW },
    begin: async (target) => {
      const { access_token: token } = (await anOwner(target)).pair;
      return (from, i) =>
        repeatedly((n) => {
          const payload = { name: `Ada ${i} ${n}` };
          return call(target, 'PATCH /api/user', { token, payload, headers: from() });
        });
    },
  },
};

test('counters of one account and one /48', { skip: redisServersMissing }, async (t) => {
  const redis = await startRedis(t);
  for (const attack of new Set(Object.values(ATTACKS))) {
    const limits = SLOT_LIMITS.filter((limit) => ATTACKS[limit] === attack);
    await t.test(limits.join(' and '), (t) => assertBounded(t, redis, attack, limits));
  }
});

async function assertBounded(
  t: Test,
  redis: RedisServer,
  { limits, begin }: Attack,
  counters: readonly SlotLimit[],
): Promise<void> {
  const env = { TRUST_PROXY: 'loopback', REDIS_URL: redis.url, ...limits };
  await redis.ask('FLUSHALL');
  // With a database of its own: one that has seen the last Redis would take the emptied one only after a while.
  const target = await buildTestApp(t, { env });
  const round = await begin(target);
  const before = await hashesOf(target);
  for (let i = 0; i < ROUNDS; i++) await round(fromSite, i);
  const half = await bytesIn(redis);
  for (let i = ROUNDS; i < 2 * ROUNDS; i++) await round(fromSite, i);
  const [all, paid] = [await bytesIn(redis), (await hashesOf(target)) - before];
  t.comment(`${half} bytes after ${ROUNDS} rounds, ${all} after all, ${paid} hashes`);
  for (const limit of counters) {
    const keys = (await redis.ask('KEYS', `*attempts:${limit}:*`)) as string[];
    t.ok(keys.length > 0, `${limit} was counted`);
    const by = COUNTED_BY[limit];
    // Each slot of a name or a device costs a hash. Any other loop adds nothing once its root has no slot left.
    if (by === 'name' || by === 'device') t.ok(all <= BYTES * paid, `at most ${BYTES} bytes a hash`);
    else t.equal(all, half, `${limit} is bounded in all`);
  }
}

async function hashesOf({ composition }: TestApp): Promise<number> {
  return valueOf(await composition.ops.metrics(), 'latchkey_hash_duration_seconds');
}

/** Of all counters of attempts. */
async function bytesIn(redis: RedisServer): Promise<number> {
  const sum = `local sum = 0
    for _, key in ipairs(redis.call('KEYS', '*attempts:*')) do
      sum = sum + redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0)
    end
    return sum`;
  return Number(await redis.ask('EVAL', sum, 0));
}
