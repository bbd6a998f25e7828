import { test } from 'tap';
import { makeEndForReuse } from '../../src/domain/sessions/end-for-reuse.ts';
import { makeRefresh } from '../../src/domain/sessions/refresh.ts';
import { makeWriteBehind } from '../../src/domain/sessions/write-behind.ts';
import { makeReadThrough } from '../../src/domain/tokens/read-through.ts';
import { systemClock } from '../../src/system-clock.ts';
import { redisMissing } from '../support/redis.ts';
import { raceWorld } from './world.ts';

test('theft against a lost reply: the next refresh tells the record', { skip: redisMissing }, async (t) => {
  const world = await raceWorld(t);
  const { states, tokens, revocations, writer, revoke, key, generation, rotate, forgetEverything } = world;
  const refresh = makeRefresh({
    states,
    readThrough: makeReadThrough({ states, tokens }),
    endForReuse: makeEndForReuse({ states, revoke }),
    writeBehind: makeWriteBehind({ states, revocations, writer, clock: systemClock }),
    lifetimes: { accessToken: 900, refreshToken: 2_592_000, session: 0 },
    retryWindow: 0,
    clock: systemClock,
    audit: () => undefined,
  });
  const next = await rotate(generation);
  if (next.outcome !== 'issued') throw new Error(next.outcome);
  const { latest } = next.state;
  const present = () =>
    refresh({
      identity: { ...key, generation: latest },
      client: 'home',
      receivedAt: systemClock.monotonic(),
    });

  await states.checkAccess(key, latest);
  t.match(await rotate(generation), { outcome: 'reused' });
  t.equal((await tokens.find(key.tokenId))?.record.revokedAt, null, 'nobody has told the record');
  await t.rejects(present(), { code: 'token_reused' });
  t.not((await tokens.find(key.tokenId))?.record.revokedAt, null);
  t.strictSame(await states.checkAccess(key, latest), { outcome: 'revoked' });
  await forgetEverything();
  await t.rejects(present(), { code: 'invalid_token' });
});
