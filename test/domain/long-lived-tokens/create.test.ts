import { NO_REQUEST } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { makeCreateLongLived, type LimitedRequest } from '../../../src/domain/long-lived-tokens/create.ts';
import { makeLimitAttempts } from '../../../src/domain/limits/limit-attempts.ts';
import { makeBudget } from '../../../src/domain/limits/budget.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeMemoryAttemptSlots } from '../../../src/infra/memory/attempt-slots.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { aCaller } from '../../support/caller.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser, ROOM } from '../../support/token.ts';

const [HOME, OFFICE] = ['192.0.2.0/24', '198.51.100.0/24'];

async function aService({
  enabled = true,
  limitedEnabled = true,
  limitedMaxAge = 31_536_000,
  maxAge = 0,
  loginMaxAge = 0,
  maxTokens = 2,
  budget = 100,
  network = 100,
} = {}) {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const [createdAt, generation] = [clock.now(), clock.micros()];
  const session = { name: 'Firefox', createdAt, state: initialState(generation, 'home') };
  const added = await tokens.addSession(1, session, ROOM);
  const tokenId = added?.id ?? 0;
  const found = await tokens.find(tokenId);
  if (found) await tokenStates.put(found.record, { ...user, name: 'Countess', version: 3 }, generation);
  const events: AuditEvent[] = [];
  const { createLongLived, createLimited } = makeCreateLongLived({
    tokens,
    tokenStates,
    services: { hasAudience: (audience) => Promise.resolve(audience === 'orders') },
    maxTokens,
    enabled,
    limitedEnabled,
    maxAge,
    limitedMaxAge,
    ownAudience: 'latchkey',
    loginMaxAge,
    clock,
    budget: makeBudget(
      makeLimitAttempts({
        slots: makeMemoryAttemptSlots(clock.now),
        hash: (text) => text,
        auditLimit: (_key, event) => events.push(event),
        auditFailure: (event) => events.push(event),
      }),
      {
        user: { limit: 'llt_budget', allowance: { count: budget, seconds: 3600 } },
        network: { limit: 'llt_network', allowance: { count: network, seconds: 3600 } },
      },
    ),
    audit: (event) => events.push(event),
    auditLimit: (key, event) => events.push({ ...event, key } as AuditEvent),
  });
  const caller = { ...aCaller(user, tokenId, generation), createdAt };
  const create = (device = 'Kitchen', from: string | null = HOME) =>
    createLongLived(caller, device, 'a key', { from: NO_REQUEST, network: from });
  const ask = (asked: Partial<LimitedRequest> = {}, type: 'access' | 'llt' | 'limited' = 'access') => {
    const { name = 'Report', scopes = ['orders:read'], expiresIn, audience } = asked;
    const origin = { from: NO_REQUEST, network: HOME };
    return createLimited({ ...caller, type }, { name, scopes, expiresIn, audience }, 'a key', origin);
  };
  return { clock, tokens, tokenStates, session: tokenId, generation, events, create, ask };
}

test('the record has the session and the generation that asked', async (t) => {
  const { clock, tokens, tokenStates, session, generation, events, create } = await aService();
  const { tokenId, ...grant } = await create(' Kitchen ');
  t.strictSame(grant, { userId: 1, createdAt: clock.now(), expiresAt: null });
  t.match(await tokens.find(tokenId), { record: { name: 'Kitchen', createdBy: session, expiresAt: null } });
  t.strictSame(events, [{ event: 'llt.created', userId: 1, tokenId, by: session }]);
  // The caller's name was read before it changed.
  t.match(await tokenStates.checkLongLived({ userId: 1, tokenId }), {
    outcome: 'good',
    user: { name: 'Countess' },
  });
  t.match(await tokens.revokeForReuse(1, session, clock.now(), generation + 1), { ended: [] });
  t.match(await tokens.revokeForReuse(1, session, clock.now(), generation), { ended: [tokenId] });
});

test('an expiry is fixed at creation, to the second', async (t) => {
  const { clock, tokens, create } = await aService({ maxAge: 60 });
  clock.pass(999);
  const { tokenId, createdAt, expiresAt } = await create();
  t.equal(expiresAt, createdAt - 999 + 60_000);
  t.match(await tokens.find(tokenId), { record: { expiresAt } });
  clock.distrust();
  await t.rejects(create(), { code: 'unavailable' }, 'not by a clock that may be wrong');
  const endless = await aService();
  endless.clock.distrust();
  t.match(await endless.create(), { expiresAt: null });
});

test('a session whose login is too old creates none', async (t) => {
  const { clock, tokens, create } = await aService({ loginMaxAge: 60 });
  clock.pass(60_000);
  await create();
  clock.pass(1);
  await t.rejects(create(), { code: 'login_too_old' });
  clock.distrust();
  await t.rejects(create(), { code: 'unavailable' });
  t.equal((await tokens.list(1)).length, 2);
});

test('creation can be turned off', async (t) => {
  const { tokens, create } = await aService({ enabled: false });
  await t.rejects(create(), { code: 'llt_disabled' });
  await t.rejects(create(' '), { code: 'llt_disabled' });
  t.equal((await tokens.list(1)).length, 1);
});

test('creation needs a device name and a free place', async (t) => {
  const { events, create } = await aService();
  await t.rejects(create(' '), { code: 'validation_failed', errors: [{ path: '/device' }] });
  await create();
  await create();
  await t.rejects(create(), { code: 'too_many_tokens' });
  const reached = { event: 'limit.reached', limit: 'llt', userId: 1, windowSeconds: 3600 } as const;
  t.strictSame(events[2], { ...reached, key: 'llt:1' });
});

test('deleted tokens count for the budget, refused ones do not, and a window later it is free again', async (t) => {
  const { clock, tokens, events, create } = await aService({ maxTokens: 1, budget: 3 });
  for (let i = 0; i < 2; i++) {
    const { tokenId } = await create();
    await t.rejects(create(), { code: 'too_many_tokens' }, 'the living tokens count too');
    await tokens.revoke(1, tokenId, clock.now());
    clock.pass(1000);
  }
  const { tokenId } = await create();
  await t.rejects(create(), { code: 'rate_limited', retryAfter: 3598 });
  t.equal(await tokens.find(tokenId + 1), null, 'nothing is written');
  await tokens.revoke(1, tokenId, clock.now());
  t.match(events.at(-1), { event: 'limit.reached', limit: 'llt_budget', userId: 1, windowSeconds: 3600 });
  clock.pass(3_598_000);
  await create();
});

test('the budget of the network counts too, and neither takes from the other', async (t) => {
  const { clock, events, create } = await aService({ maxTokens: 10, budget: 3, network: 2 });
  await create();
  await create();
  const full = { code: 'rate_limited', retryAfter: 3600 };
  for (let i = 0; i < 3; i++) await t.rejects(create(), full, 'nor does it take the user’s');
  t.match(events.at(-1), { event: 'limit.reached', limit: 'llt_network', network: HOME });
  clock.pass(1000);
  await create('Kitchen', OFFICE);
  const spent = { code: 'rate_limited', retryAfter: 3599 };
  for (let i = 0; i < 3; i++) await t.rejects(create('Kitchen', OFFICE), spent);
  await t.rejects(create('Kitchen', null), spent, 'a private address');
  clock.pass(3_599_000);
  await create('Kitchen', OFFICE);
  const office = { code: 'rate_limited', retryAfter: 1 };
  await t.rejects(create('Kitchen', OFFICE), office, 'two have succeeded there');
});

const DAY = 86_400;

test('a limited token has its scopes, its audience and an expiry on record', async (t) => {
  const { clock, tokens, session, events, ask } = await aService();
  const scopes = ['orders:read', 'billing'];
  const { tokenId, ...grant } = await ask({ scopes, audience: 'orders', expiresIn: 60 });
  const expiresAt = (Math.floor(clock.now() / 1000) + 60) * 1000;
  t.strictSame(grant, { userId: 1, createdAt: clock.now(), expiresAt, scopes, audience: 'orders' });
  t.match(await tokens.find(tokenId), {
    record: {
      type: 'llt',
      name: 'Report',
      createdBy: session,
      expiresAt,
      limited: { scopes, audience: 'orders' },
    },
  });
  const event = { event: 'limited.created', userId: 1, by: session } as const;
  t.strictSame(events, [{ ...event, tokenId, scopes: 'orders:read billing', audience: 'orders' }]);
  const own = await ask({ audience: 'latchkey' });
  t.equal(own.audience, 'latchkey');
  t.strictSame(events[1], { ...event, tokenId: own.tokenId, scopes: 'orders:read' });
});

test('the lifetime of a limited token', async (t) => {
  for (const [ages, expected] of [
    [{}, [90 * DAY, 365 * DAY]],
    [{ limitedMaxAge: 3600 }, [3600, 3600]],
    [{ maxAge: 100 * DAY }, [90 * DAY, 100 * DAY]],
    [{ maxAge: 120 }, [120, 120]],
  ] as const) {
    const [usual, longest] = expected;
    const { clock, ask } = await aService({ ...ages, maxTokens: 9 });
    const lifetime = async (expiresIn?: number) =>
      (await ask({ expiresIn })).expiresAt / 1000 - Math.floor(clock.now() / 1000);
    t.equal(await lifetime(), usual);
    t.equal(await lifetime(longest), longest);
    t.equal(await lifetime(60), 60);
    for (const expiresIn of [59, 0, -60, longest + 1, 1e300])
      await t.rejects(ask({ expiresIn }), {
        code: 'validation_failed',
        errors: [
          { path: '/expires_in', code: 'out_of_range', message: `must be from 60 to ${longest} seconds` },
        ],
      });
  }
  const minute = await aService({ maxAge: 60 });
  await minute.ask({ expiresIn: 60 });
  await t.rejects(minute.ask({ expiresIn: 61 }), { errors: [{ code: 'out_of_range' }] });
  const shorter = await aService({ maxAge: 59 });
  await shorter.ask();
  await t.rejects(shorter.ask({ expiresIn: 60 }), {
    errors: [{ code: 'not_allowed', message: 'must be missing: no token lives longer than 59 seconds here' }],
  });
  const { clock, ask } = await aService();
  clock.distrust();
  await t.rejects(ask(), { code: 'unavailable' }, 'not by a clock that may be wrong');
});

test('what is wrong with a request for a limited token is told together', async (t) => {
  const { tokens, ask } = await aService();
  await t.rejects(ask({ name: ' ', scopes: [], expiresIn: 1 }), {
    code: 'validation_failed',
    errors: [{ path: '/name' }, { path: '/expires_in' }, { path: '/scopes' }],
  });
  for (const audience of ['', 'stock', 'orders#limited', 'latchkey#limited', 'Orders'])
    await t.rejects(ask({ audience }), { code: 'invalid_target' }, audience);
  t.equal((await tokens.list(1)).length, 1, 'the session');
});

test('limited tokens and long-lived ones share their limits, and each can be turned off alone', async (t) => {
  const both = await aService({ maxTokens: 2 });
  await both.create();
  await both.ask();
  await t.rejects(both.ask(), { code: 'too_many_tokens' });
  await t.rejects(both.create(), { code: 'too_many_tokens' });
  const spent = await aService({ budget: 1 });
  await spent.ask();
  await t.rejects(spent.create(), { code: 'rate_limited' });
  const off = await aService({ limitedEnabled: false });
  await t.rejects(off.ask(), { code: 'llt_disabled' });
  await off.create();
  const alone = await aService({ enabled: false, loginMaxAge: 60 });
  await t.rejects(alone.create(), { code: 'llt_disabled' });
  await alone.ask();
  for (const type of ['llt', 'limited'] as const)
    await t.rejects(alone.ask({}, type), { code: 'token_not_allowed' });
  alone.clock.pass(60_001);
  await t.rejects(alone.ask(), { code: 'login_too_old' });
});
