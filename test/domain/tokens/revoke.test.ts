import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import type { TokenKey } from '../../../src/domain/principal.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import type { Revocation } from '../../../src/domain/tokens/ports.ts';
import { makeRevokeTokens } from '../../../src/domain/tokens/revoke.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { stopAfter } from '../../support/stop-after.ts';
import { aSession, aUser, ROOM } from '../../support/token.ts';

const away = () => Promise.reject(new AuthError('unavailable'));

/** Sessions of one user, known to both stores. `asked` lists what the stores were asked, in order. */
async function aWorld(count = 1) {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2 })]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const now = clock.micros();
  const state = initialState(now, 'home');
  const keys: TokenKey[] = [];
  for (let i = 0; i < count; i++) {
    const session = { name: 'Firefox', createdAt: clock.now(), state };
    const added = await tokens.addSession(1, session, ROOM);
    const key = { userId: 1, tokenId: added?.id ?? 0 };
    await tokenStates.put(aSession(state, { id: key.tokenId, userId: 1 }), user, now);
    keys.push(key);
  }
  const asked: string[] = [];
  const told = <Args extends unknown[], Result>(what: string, work: (...args: Args) => Result) => {
    return (...args: Args): Result => {
      asked.push(what);
      return work(...args);
    };
  };
  const ports = {
    tokenStates: { revoke: told('tombstones', (...revoked: TokenKey[]) => tokenStates.revoke(...revoked)) },
    tokens: {
      revoke: told('alone', (...args: Parameters<typeof tokens.revoke>) => tokens.revoke(...args)),
      revokeByCaller: told('alone, by its caller', (...args: Parameters<typeof tokens.revokeByCaller>) =>
        tokens.revokeByCaller(...args),
      ),
      revokeMany: told('commit', (...args: Parameters<typeof tokens.revokeMany>) =>
        tokens.revokeMany(...args),
      ),
    },
    revocations: {
      settle: (ids: readonly number[]) => {
        asked.push(`settle ${ids.join()}`);
        return tokens.settle(ids);
      },
    },
    clock,
    endOfTick: () => new Promise<void>((resolve) => setImmediate(resolve)),
    pause: (ms: number) => {
      clock.pass(ms);
      return Promise.resolve();
    },
  };
  const queues = someQueues(clock);
  const outcomeOf = async (key: TokenKey) => (await tokenStates.checkAccess(key, now)).outcome;
  const [key = { userId: 1, tokenId: 0 }] = keys;
  return { clock, tokens, tokenStates, keys, key, asked, queues, ports: { ...ports, ...queues }, outcomeOf };
}

test('a revocation reaches the record and the store, and can be repeated', async (t) => {
  const { clock, tokens, key, ports, outcomeOf } = await aWorld();
  const { revoke, settled } = makeRevokeTokens(ports);
  let ended = 0;
  for (let i = 0; i < 2; i++) {
    t.equal(await revoke(1, key.tokenId, 'session', () => ended++), true);
    t.equal(ended, 1, 'told once');
    t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } });
    t.equal(await outcomeOf(key), 'revoked');
    await settled();
    t.strictSame(await tokens.pending(9), [], 'its tombstone is known to stand');
  }
  clock.pass(3 * 3600_000);
  t.equal(await revoke(1, key.tokenId), true);
  t.equal(await outcomeOf(key), 'missing', 'a repeat adds no tombstone');
});

test('a token of another user is not revoked and gets no tombstone', async (t) => {
  const { key, ports, asked, outcomeOf } = await aWorld();
  const { revoke } = makeRevokeTokens(ports);
  t.equal(await revoke(2, key.tokenId), false);
  t.equal(await revoke(1, key.tokenId, 'llt'), false);
  t.equal(await revoke(1, 99), false);
  t.equal(await outcomeOf(key), 'good');
  t.equal(await outcomeOf({ userId: 1, tokenId: 99 }), 'missing');
  t.strictSame(asked, ['commit', 'commit', 'commit']);
});

test('a caller with a good token ends another of its own, only of the requested type', async (t) => {
  const { keys, ports, outcomeOf } = await aWorld(3);
  const [caller, other, third] = keys as [TokenKey, TokenKey, TokenKey];
  const { revoke, revokeByCaller } = makeRevokeTokens(ports);
  t.equal(await revokeByCaller(caller, other.tokenId, 'llt'), false);
  t.equal(await revokeByCaller(caller, 99), false);
  t.equal(await outcomeOf(other), 'good');
  let ended = 0;
  for (let i = 0; i < 2; i++) {
    t.equal(await revokeByCaller(caller, other.tokenId, 'session', () => ended++), true);
    t.equal(ended, 1, 'told once');
    t.equal(await outcomeOf(other), 'revoked');
  }
  t.equal(await revokeByCaller(caller, third.tokenId), true, 'nothing has to be told');
  await revoke(1, caller.tokenId);
  await t.rejects(revokeByCaller(caller, other.tokenId), { code: 'invalid_token' });
});

test('what arrives during a commit shares the next one, and its tombstones', async (t) => {
  const { keys, ports, asked, outcomeOf } = await aWorld(64);
  const commit = stopAfter(ports.tokens.revokeMany);
  const { revoke, settled } = makeRevokeTokens({
    ...ports,
    tokens: { ...ports.tokens, revokeMany: commit.work },
  });
  const ending = keys.slice(0, 3).map(({ tokenId }) => revoke(1, tokenId));
  await commit.reached;
  ending.push(...keys.slice(3).map(({ tokenId }) => revoke(1, tokenId)));
  await ports.endOfTick();
  await ports.endOfTick();
  t.strictSame(asked, ['commit'], 'one commit at a time');
  commit.go();
  t.strictSame(new Set(await Promise.all(ending)), new Set([true]));
  await settled();
  for (const key of keys) t.equal(await outcomeOf(key), 'revoked');
  t.strictSame(asked.slice(0, 4), ['commit', 'tombstones', 'commit', 'tombstones']);
  t.strictSame(asked.slice(4), [`settle ${keys.map(({ tokenId }) => tokenId).join()}`]);
});

test('a commit has at most 500 rows', async (t) => {
  const { keys, ports } = await aWorld(501);
  const sizes: number[] = [];
  const revokeMany = (revocations: readonly Revocation[], at: number) => {
    sizes.push(revocations.length);
    return ports.tokens.revokeMany(revocations, at);
  };
  const { revoke } = makeRevokeTokens({ ...ports, tokens: { ...ports.tokens, revokeMany } });
  await Promise.all(keys.map(({ tokenId }) => revoke(1, tokenId, undefined, undefined, 'service')));
  t.strictSame(sizes, [500, 1]);
});

test('two requests for one token at once end it once', async (t) => {
  const { key, ports, asked } = await aWorld();
  const { revoke } = makeRevokeTokens(ports);
  let ended = 0;
  const twice = [1, 2].map(() => revoke(1, key.tokenId, undefined, () => ended++));
  t.strictSame(await Promise.all(twice), [true, true]);
  t.equal(ended, 1);
  t.equal(asked.filter((what) => what === 'commit').length, 1);
});

test('a caller that ends in a commit ends no other token in it', async (t) => {
  const { keys, ports, outcomeOf } = await aWorld(2);
  const [caller, other] = keys as [TokenKey, TokenKey];
  const { revoke, revokeByCaller } = makeRevokeTokens(ports);
  const [loggedOut, refused] = await Promise.allSettled([
    revoke(1, caller.tokenId),
    revokeByCaller(caller, other.tokenId),
  ]);
  t.match(loggedOut, { value: true });
  t.match(refused, { reason: { code: 'invalid_token' } });
  t.equal(await outcomeOf(other), 'good');
});

/** The first session is held by somebody until that time, by Clock.monotonic. */
async function aHeldRow(heldFor: number) {
  const world = await aWorld(3);
  const { clock, keys, ports } = world;
  clock.pass(5000);
  const heldUntil = clock.monotonic() + heldFor;
  const isReady = ({ key }: Revocation) => key.tokenId !== keys[0]?.tokenId || clock.monotonic() >= heldUntil;
  const tokens = {
    ...ports.tokens,
    revokeMany: async (revocations: readonly Revocation[], at: number) => {
      const ready = revocations.filter(isReady);
      const outcomes = await ports.tokens.revokeMany(ready, at);
      return revocations.map((each) => (isReady(each) ? (outcomes[ready.indexOf(each)] ?? null) : 'locked'));
    },
  };
  const [held, free, caller] = keys as [TokenKey, TokenKey, TokenKey];
  return { ...world, held, free, caller, ports: { ...ports, tokens } };
}

test('a row that somebody holds is tried again, and keeps only its own request waiting', async (t) => {
  const { held, free, ports, asked, outcomeOf } = await aHeldRow(975);
  const { revoke } = makeRevokeTokens(ports);
  const waiting = revoke(1, held.tokenId);
  t.equal(await revoke(1, free.tokenId), true);
  t.equal(await outcomeOf(held), 'good');
  t.equal(await waiting, true);
  t.equal(await outcomeOf(held), 'revoked');
  t.notOk(asked.includes('alone'));
});

test('after a second, its request waits for the row itself', async (t) => {
  const { held, caller, ports, asked, outcomeOf } = await aHeldRow(1000.5);
  const { revokeByCaller } = makeRevokeTokens(ports);
  t.equal(await revokeByCaller(caller, held.tokenId), true);
  t.equal(await outcomeOf(held), 'revoked');
  t.equal(asked.filter((what) => what === 'commit').length, 41);
  t.strictSame(
    asked.filter((what) => what.startsWith('alone')),
    ['alone, by its caller'],
  );
  const other = await aHeldRow(Infinity);
  t.equal(await makeRevokeTokens(other.ports).revoke(1, other.held.tokenId), true);
  t.ok(other.asked.includes('alone'));
});

test('what such a request finds or fails with is its own', async (t) => {
  for (const [lone, expected] of [
    [() => Promise.resolve(null), { value: false }],
    [away, { reason: { code: 'unavailable' } }],
  ] as const) {
    const { held, caller, ports } = await aHeldRow(Infinity);
    const tokens = { ...ports.tokens, revoke: lone, revokeByCaller: lone };
    const { revoke, revokeByCaller } = makeRevokeTokens({ ...ports, tokens });
    const outcomes = await Promise.allSettled([
      revoke(1, held.tokenId),
      revokeByCaller(caller, held.tokenId),
    ]);
    for (const outcome of outcomes) t.match(outcome, expected);
  }
  const { held, caller, ports } = await aHeldRow(Infinity);
  await ports.tokens.revoke(1, caller.tokenId, 1);
  const { revokeByCaller } = makeRevokeTokens({
    ...ports,
    tokens: { ...ports.tokens, revokeMany: (all) => Promise.resolve(all.map(() => 'locked' as const)) },
  });
  await t.rejects(revokeByCaller(caller, held.tokenId), { code: 'invalid_token' });
});

test('each revocation is settled, also after an earlier one was', async (t) => {
  const { tokens, keys, ports } = await aWorld(2);
  const { revoke, settled } = makeRevokeTokens(ports);
  for (const { tokenId } of keys) {
    await revoke(1, tokenId);
    await settled();
    t.strictSame(await tokens.pending(9), []);
  }
});

test('it fails until the store has the tombstone, and a retry finishes it', async (t) => {
  const { clock, tokens, key, ports, outcomeOf } = await aWorld();
  let ended = 0;
  const failing = makeRevokeTokens({ ...ports, tokenStates: { revoke: away } });
  await t.rejects(
    failing.revoke(1, key.tokenId, undefined, () => ended++),
    { code: 'unavailable' },
  );
  t.equal(ended, 1, 'the end on record is told, because a retry ends nothing');
  t.match(await tokens.find(key.tokenId), { record: { revokedAt: clock.now() } }, 'the record came first');
  t.equal(await makeRevokeTokens(ports).revoke(1, key.tokenId, undefined, () => ended++), true);
  t.equal(ended, 1, 'told once');
  t.equal(await outcomeOf(key), 'revoked');
});

test('without the record no tombstone is set, and the next commit is tried', async (t) => {
  const { key, ports, outcomeOf } = await aWorld();
  let isAway = true;
  const { revoke } = makeRevokeTokens({
    ...ports,
    tokens: {
      ...ports.tokens,
      revokeMany: (...args) => (isAway ? away() : ports.tokens.revokeMany(...args)),
    },
  });
  await t.rejects(revoke(1, key.tokenId), { code: 'unavailable' });
  t.equal(await outcomeOf(key), 'good');
  isAway = false;
  t.equal(await revoke(1, key.tokenId), true);
});

test('a mark that cannot be settled fails no request: a sweep settles it', async (t) => {
  const { tokens, key, ports } = await aWorld();
  const { revoke, settled } = makeRevokeTokens({ ...ports, revocations: { settle: away } });
  t.equal(await revoke(1, key.tokenId), true);
  await settled();
  t.strictSame(await tokens.pending(9), [key]);
});

/** A database that hangs: each commit fails when a test says so. */
async function aHangingWorld() {
  const world = await aWorld();
  const commits: (readonly Revocation[])[] = [];
  let fail = (_: Error) => undefined as unknown;
  const revokeMany = (batch: readonly Revocation[]) => {
    commits.push(batch);
    return new Promise<never>((_, reject) => (fail = reject));
  };
  const { revoke, revokeByCaller } = makeRevokeTokens({
    ...world.ports,
    tokens: { ...world.ports.tokens, revokeMany },
  });
  const answers: unknown[] = [];
  let sent = 0;
  /** Each of another account. */
  const send = async (count: number) => {
    for (let i = 0; i < count; i++)
      void revoke(++sent, sent).catch((error: unknown) => answers.push((error as AuthError).code));
    await world.ports.endOfTick();
  };
  /** Lets the commit time out. */
  const timeOut = async () => {
    fail(new AuthError('unavailable'));
    await world.ports.endOfTick();
  };
  return { ...world, commits, revoke, revokeByCaller, answers, send, timeOut };
}

test('while the database hangs, whoever waited for one timeout gives up', async (t) => {
  const { clock, queues, commits, answers, send, timeOut } = await aHangingWorld();
  await send(1);
  clock.pass(10);
  await send(600);
  clock.pass(4000);
  await send(1);
  clock.pass(1000);
  queues.goOff();
  await send(0);
  t.equal(answers.length, 600, 'also while a commit is under way');
  t.match(queues.dropped, { revocations: 600 });
  t.equal(commits.length, 1);
  await timeOut();
  t.strictSame([commits.length, answers.length], [2, 601], 'one who came later is in the next commit');
  clock.pass(10_000);
  queues.goOff();
  await timeOut();
  t.strictSame(answers, Array(602).fill('unavailable'), 'what a commit has taken is answered by that');
});

test('5,000 requests may be open, in line or in a commit', async (t) => {
  const { queues, commits, answers, send, timeOut } = await aHangingWorld();
  await send(400);
  await send(4601);
  t.equal(commits[0]?.length, 400);
  t.strictSame([answers, queues.dropped], [['unavailable'], { revocations: 1 }]);
  await timeOut();
  t.equal(answers.length, 401);
  await send(401);
  t.equal(answers.length, 402, 'each answer makes room for one');
});

test('a token and an account have their share of the open requests, and a service has no need of one', async (t) => {
  const { ports, revoke, revokeByCaller, answers, send, timeOut } = await aHangingWorld();
  const userId = 10_000;
  let failed = 0;
  /** @returns how many are refused at once. */
  const ask = async (count: number, request: (tokenId: number) => Promise<boolean>) => {
    const refusals: unknown[] = [];
    for (let i = 0; i < count; i++)
      request(1000 + i).catch((error: unknown) => {
        if ((error as AuthError).code === 'unavailable') failed++;
        else refusals.push(error);
      });
    await ports.endOfTick();
    for (const refusal of refusals) t.match(refusal, { code: 'rate_limited', reason: 'lane', retryAfter: 1 });
    return refusals.length;
  };
  const by = (caller: number) => (tokenId: number) => revokeByCaller({ userId, tokenId: caller }, tokenId);
  t.equal(await ask(101, by(1)), 1, 'of a token');
  t.equal(await ask(1, (id) => revoke(userId, id)), 0, 'whose own logout has another line');
  for (const caller of [2, 3, 4]) t.equal(await ask(100, by(caller)), 0, 'others of its account');
  t.equal(await ask(100, by(5)), 1, 'of an account');
  t.equal(await ask(200, (id) => revoke(userId, id, undefined, undefined, 'service')), 0);
  await send(4300);
  t.strictSame(answers, [], 'the rest is for others');
  await timeOut();
  t.equal(failed, 100, 'the first commit');
  t.equal(await ask(101, by(1)), 1, 'each answer gives its place back');
});

test('a full queue keeps the place of a request whose row is held', async (t) => {
  const { free, held, ports, outcomeOf, clock } = await aHeldRow(500);
  let wake = () => undefined as unknown;
  const paused = new Promise<void>((resolve) => (wake = resolve));
  const { revoke } = makeRevokeTokens({
    ...ports,
    pause: async (ms) => {
      await paused;
      clock.pass(ms);
    },
  });
  const waiting = revoke(1, held.tokenId);
  await ports.endOfTick();
  const others = Array.from({ length: 5000 }, () => revoke(1, free.tokenId, undefined, undefined, 'service'));
  wake();
  const outcomes = await Promise.allSettled(others);
  t.equal(outcomes.filter(({ status }) => status === 'rejected').length, 1);
  t.equal(await waiting, true);
  t.equal(await outcomeOf(held), 'revoked');
});

test('marks beyond 10,000 are left to the sweep', async (t) => {
  const { ports, queues } = await aWorld();
  const settled: number[] = [];
  const stuck = stopAfter((ids: readonly number[]) => {
    settled.push(ids.length);
    return Promise.resolve();
  });
  const { revoke, settled: marksSettled } = makeRevokeTokens({
    ...ports,
    tokens: { ...ports.tokens, revokeMany: (all) => Promise.resolve(all.map(() => 'now' as const)) },
    tokenStates: { revoke: () => Promise.resolve() },
    revocations: { settle: stuck.work },
  });
  await revoke(1, 20_000);
  await stuck.reached;
  for (let sent = 0; sent < 10_500; sent += 500)
    await Promise.all(Array.from({ length: 500 }, (_, i) => revoke(i + 1, sent + i + 1)));
  t.strictSame(queues.dropped, { marks: 500 });
  stuck.go();
  await marksSettled();
  t.strictSame(settled, [1, 10_000]);
});
