import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { makeExchange } from '../../src/domain/access-tokens/exchange.ts';
import { makeVerify } from '../../src/domain/access-tokens/verify.ts';
import { NO_REQUEST } from '../../src/domain/audit/source.ts';
import { ANY_GENERATION } from '../../src/domain/sessions/rotation.ts';
import { withReadThrough } from '../../src/domain/tokens/read-through.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { redisMissing } from '../support/redis.ts';
import { stopAfter } from '../support/stop-after.ts';
import { NO_FACTOR } from '../support/token.ts';
import { raceWorld } from './world.ts';
import { UNOBSERVED } from '../support/unobserved.ts';

const skip = { skip: redisMissing };

test('logout against exchange: a token that comes after the logout is not good', skip, async (t) => {
  const { tokenStates, tokens, key, generation, revoke } = await raceWorld(t);
  const known = stopAfter(() => Promise.resolve(true));
  const verify = makeVerify({
    readThrough: withReadThrough(tokenStates, { tokens, clock: systemClock, observe: UNOBSERVED }),
    writeBehind: { note: () => undefined, noteUse: () => undefined },
    endForReuse: { queue: () => false },
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: 0 },
    clock: systemClock,
    audit: () => undefined,
    observe: UNOBSERVED,
  });
  const exchange = makeExchange({
    verify,
    services: { hasAudience: known.work },
    ownAudience: 'latchkey',
    ttl: 300,
    clock: systemClock,
    randomBytes,
    observe: UNOBSERVED,
  });
  const expiresAt = Math.floor(Date.now() / 1000) + 600;
  const subject = { ...key, ...NO_FACTOR, generation, expiresAt, type: 'access' as const };
  const exchanging = exchange(subject, { audience: 'orders', serviceId: null }, NO_REQUEST);
  await known.reached;
  t.equal(await revoke(key.userId, key.tokenId), true);
  known.go();

  const { sub, sid, gen } = await exchanging;
  t.strictSame([Number(sub), sid, gen], [key.userId, key.tokenId, generation]);
  const exchanged = { ...key, ...NO_FACTOR, generation, type: 'exchanged' as const };
  await t.rejects(verify(exchanged, NO_REQUEST), { code: 'invalid_token' });
});

test('logout against a use that rebuilds the session: the use comes too late', skip, async (t) => {
  const { key, revoke, rebuilding } = await raceWorld(t);
  const { find, readThrough } = await rebuilding();
  const using = readThrough.checkAccess(key, ANY_GENERATION);
  await find.reached;
  t.equal(await revoke(key.userId, key.tokenId), true);
  find.go();
  t.match(await using, { outcome: 'revoked' });
});

test('logout against use: once it is answered, no use is good', skip, async (t) => {
  const { tokenStates, key, revoke } = await raceWorld(t);
  const outcomes: string[] = [];
  const logout = { isDone: false };
  const using = (async () => {
    while (outcomes.at(-1) !== 'revoked' && outcomes.length < 10_000) {
      const wasDone = logout.isDone;
      const { outcome } = await tokenStates.checkAccess(key, ANY_GENERATION);
      if (wasDone) t.equal(outcome, 'revoked');
      outcomes.push(outcome);
    }
  })();
  await revoke(key.userId, key.tokenId);
  logout.isDone = true;
  await using;
  t.equal(outcomes.at(-1), 'revoked');
});
