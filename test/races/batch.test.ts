import { setTimeout as sleep } from 'node:timers/promises';
import { test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { makeRevokeTokens, OF_TOKEN } from '../../src/domain/tokens/revoke.ts';
import { makeAccountStore } from '../../src/infra/postgres/account-store.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { someQueues } from '../support/bounded-queues.ts';
import { withClient } from '../support/postgres.ts';
import { redisMissing } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import { raceWorld } from './world.ts';
import { ROOM } from '../support/token.ts';

const skip = { skip: redisMissing };
type World = Awaited<ReturnType<typeof raceWorld>>;
const EVERYTHING = { reason: 'logout', usedSince: -1, caller: null, keepsCaller: false } as const;

/** What ends all tokens of a user. */
const ENDS_ALL = {
  'log out everywhere': ({ tokens, key }: World) =>
    tokens.revokeAll(key.userId, { ...EVERYTHING, at: Date.now() }),
  'the deletion of the account': async ({ postgres, key }: World) => {
    const accounts = makeAccountStore(postgres, () => []);
    const deleted = await accounts.delete({ id: key.userId }, Date.now(), { grace: 0, hashes: () => [] });
    return deleted ?? { ended: [] };
  },
};

for (const [name, endAll] of Object.entries(ENDS_ALL))
  for (const size of [1, 2, 500])
    test(`a batch of ${size} against ${name}, a theft and the purge: each ends once`, skip, async (t) => {
      const world = await raceWorld(t);
      const { tokens, revocations, tokenStates, url, key, writer } = world;
      const { userId } = key;
      const ids = (
        await sql<{ id: string }>(
          url,
          `INSERT INTO tokens (user_id, type, name, created_at, latest, parent, first)
         SELECT $1, 'session', 'x', now(), 9e12, 0, 9e12 FROM generate_series(1, $2) RETURNING id`,
          [userId, size],
        )
      ).map(({ id }) => Number(id));
      const replicas = [1, 2].map(() =>
        makeRevokeTokens({
          ...someQueues(),
          tokenStates,
          tokens,
          revocations,
          // It stands still: on a busy machine no request is to take a connection of its own.
          clock: { ...systemClock, monotonic: () => 0 },
          endOfTick: () => new Promise((resolve) => setImmediate(resolve)),
          pause: sleep,
        }),
      );
      const ended: number[] = [];
      const refused: unknown[] = [];
      const logouts = replicas.flatMap(({ revoke, revokeByCaller }) =>
        ids.flatMap((id, i) => [
          // Of a service, which has no share to keep to.
          revoke(userId, id, 'session', () => ended.push(id), 'service'),
          ...(i < OF_TOKEN
            ? [
                revokeByCaller(key, ids[(i + 1) % size] ?? 0, undefined, () =>
                  ended.push(ids[(i + 1) % size] ?? 0),
                ),
              ]
            : []),
        ]),
      );
      const others = [
        endAll(world).then((all) => {
          ended.push(...all.ended.map(({ id }) => id));
        }),
        tokens.revokeForReuse(userId, ids[0] ?? 0, Date.now(), undefined),
        writer.saveStates(ids.map((tokenId) => ({ userId, tokenId, state: initialState(9e12 + 5, 'home') }))),
        sql(url, 'DELETE FROM tokens WHERE id = $1 AND revoked_at IS NOT NULL', [ids[1] ?? 0]),
      ];
      for (const outcome of await Promise.allSettled(logouts))
        if (outcome.status === 'rejected') refused.push(outcome.reason);
      await Promise.all(others);
      for (const { settled } of replicas) await settled();

      for (const reason of refused)
        t.match(reason, { code: 'invalid_token' }, 'the caller has ended meanwhile');
      t.equal(new Set(ended).size, ended.length, 'no end is told twice');
      const left = await sql(url, 'SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL', [
        userId,
      ]);
      t.strictSame(left, []);
    });

test('a row that is locked for long keeps its own request waiting, and no other', skip, async (t) => {
  const { url, key, tokens, revoke, isRevoked } = await raceWorld(t);
  const state = initialState(9e12, 'home');
  const added = await tokens.addSession(key.userId, { name: 'x', createdAt: Date.now(), state }, ROOM);
  const free = { userId: key.userId, tokenId: added?.id ?? 0 };
  await withClient(url, async (client) => {
    await client.query('BEGIN');
    await client.query('SELECT FROM tokens WHERE id = $1 FOR UPDATE', [key.tokenId]);
    const waiting = revoke(key.userId, key.tokenId);
    t.equal(await revoke(free.userId, free.tokenId), true);
    t.equal(await isRevoked(free), true);
    t.equal(await isRevoked(), false);
    await client.query('COMMIT');
    t.equal(await waiting, true);
    t.equal(await isRevoked(), true);
  });
});

test('a caller that is disabled in the same moment ends nothing', skip, async (t) => {
  const { url, key, tokens, revokeByCaller } = await raceWorld(t);
  const state = initialState(9e12, 'home');
  const session = { name: 'x', createdAt: Date.now(), state };
  const added = await tokens.addSession(key.userId, session, ROOM);
  await withClient(url, async (client) => {
    await client.query('BEGIN');
    await client.query('UPDATE users SET disabled_at = now() WHERE id = $1', [key.userId]);
    const refused = t.rejects(revokeByCaller(key, added?.id ?? 0), {
      code: 'invalid_token',
      reason: 'disabled',
    });
    await client.query('SELECT pg_sleep(0.1)');
    await client.query('COMMIT');
    await refused;
  });
  t.match(await tokens.find(added?.id ?? 0), { record: { revokedAt: null } });
});
