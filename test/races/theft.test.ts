import { NO_REQUEST } from '../../src/domain/audit/source.ts';
import { test } from 'tap';
import { makeEndForReuse } from '../../src/domain/sessions/end-for-reuse.ts';
import { makeRefresh } from '../../src/domain/sessions/refresh.ts';
import { makeWriteBehind } from '../../src/domain/tokens/write-behind.ts';
import { withReadThrough } from '../../src/domain/tokens/read-through.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { redisMissing } from '../support/redis.ts';
import { duringUncommitted, raceWorld } from './world.ts';
import { UNOBSERVED } from '../support/unobserved.ts';

test('theft against a lost reply: the next refresh tells the record', { skip: redisMissing }, async (t) => {
  const world = await raceWorld(t);
  const { tokenStates, tokens, revocations, writer, key, generation, rotate, forgetEverything } = world;
  const refresh = makeRefresh({
    readThrough: withReadThrough(tokenStates, { tokens, clock: systemClock, observe: UNOBSERVED }),
    endForReuse: makeEndForReuse({
      ...someQueues(),
      tokenStates,
      tokens,
      revocations,
      clock: systemClock,
      audit: () => undefined,
    }),
    writeBehind: makeWriteBehind({ tokenStates, revocations, writer, clock: systemClock, ...someQueues() }),
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: 0 },
    retryWindow: 0,
    clock: systemClock,
    audit: () => undefined,
    observe: UNOBSERVED,
  });
  const next = await rotate(generation);
  if (next.outcome !== 'issued') throw new Error(next.outcome);
  const { latest } = next.state;
  const present = () =>
    refresh({
      identity: { ...key, generation: latest, acr: null },
      caller: 'home',
      receivedAt: systemClock.monotonic(),
      from: NO_REQUEST,
    });

  const llts: number[] = [];
  for (const of of [generation, latest]) {
    const createdBy = { sessionId: key.tokenId, withFactor: false, generation: of };
    const token = { name: 'x', createdAt: systemClock.now(), kid: 'a key', createdBy };
    llts.push((await tokens.addLongLived(key.userId, token, 9)) ?? 0);
  }
  await tokenStates.checkAccess(key, latest);
  t.match(await rotate(generation), { outcome: 'reused' });
  t.equal((await tokens.find(key.tokenId))?.record.revokedAt, null, 'the record does not know yet');
  await t.rejects(present(), { code: 'token_reused' });
  t.not((await tokens.find(key.tokenId))?.record.revokedAt, null);
  t.strictSame(await tokenStates.checkAccess(key, latest), { outcome: 'revoked' });
  for (const tokenId of llts) {
    t.match(await tokens.find(tokenId), { record: { revokedAt: Number } }, 'the generation was lost');
    t.strictSame(await tokenStates.checkLongLived({ ...key, tokenId }), { outcome: 'revoked' });
  }
  await forgetEverything();
  await t.rejects(present(), { code: 'invalid_token' });
});

test(
  'theft against a token being created: a token added earlier is ended',
  { skip: redisMissing },
  async (t) => {
    const { url, tokens, key, generation } = await raceWorld(t);
    const adding = `SELECT id FROM users WHERE id = ${key.userId} FOR NO KEY UPDATE;
    INSERT INTO tokens (user_id, type, name, created_at, created_by, created_generation)
    VALUES (${key.userId}, 'llt', 'x', now(), ${key.tokenId}, ${generation})`;
    const stolen = await duringUncommitted(url, adding, () =>
      tokens.revokeForReuse(key.userId, key.tokenId, systemClock.now(), generation),
    );
    t.equal(stolen?.ended.length, 1);
    t.strictSame(await tokens.list(key.userId), []);
  },
);
