import { test } from 'tap';
import type { TestApp } from '../support/app.ts';
import { call } from '../support/client.ts';
import {
  aShiftedClock,
  aVictim,
  effectsOn,
  ENDINGS_ENVIRONMENT,
  liveTokens,
  RECORDED_ENDINGS,
  type Victim,
} from '../support/endings.ts';
import { aClient, begun } from '../support/begun.ts';
import { FACTOR_PASSWORD } from '../support/own-factors.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { twoReplicas } from '../support/two-replicas.ts';

/**
 * Every changing operation against every ending, in either order, stopped at either lock of the operation. No operation
 * may take effect after the ending was answered, even if its own checks passed before.
 */
const OPERATIONS: Record<string, (target: TestApp, victim: Victim) => ReturnType<typeof call>> = {
  'creating a long-lived token': (target, { caller }) =>
    call(target, 'POST /api/auth/llt', { token: caller.access_token, payload: { device: 'of a thief' } }),
  'creating a limited token': (target, { caller }) =>
    call(target, 'POST /api/user/tokens', {
      token: caller.access_token,
      payload: { name: 'of a thief', scopes: ['orders:read'] },
    }),
  'ending another session': (target, { caller, otherId }) =>
    call(target, `DELETE /api/auth/${otherId}`, { token: caller.access_token }),
  'ending a long-lived token': (target, { caller, llt }) =>
    call(target, `DELETE /api/auth/llt/${llt.id}`, { token: caller.access_token }),
  'ending all other tokens': (target, { caller }) =>
    call(target, 'DELETE /api/user/tokens?keep=current', { token: caller.access_token }),
  'changing the names': (target, { caller, username }) =>
    call(target, 'PATCH /api/user', {
      token: caller.access_token,
      payload: {
        username,
        name: 'A thief',
        email: `${username}@thief.example`,
        current_password: 'difference engine',
      },
    }),
  'changing the password': (target, { caller }) =>
    call(target, 'POST /api/user/password', {
      token: caller.access_token,
      payload: { current_password: 'difference engine', new_password: 'of a thief, and long' },
    }),
  'setting up an app': (target, { caller }) =>
    call(target, 'POST /api/user/factors/totp', { token: caller.access_token, payload: FACTOR_PASSWORD }),
};

/** They change the account, and no token. */
const CHANGES_NO_TOKEN = ['changing the names', 'setting up an app'];

/** The row that is locked while both begin: it stops the operation before its first lock, or before its second. */
const LOCKS: Record<string, (victim: Victim) => string> = {
  'the user': ({ userId }) => `SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`,
  "the caller's token": ({ callerId }) => `SELECT id FROM tokens WHERE id = ${callerId} FOR NO KEY UPDATE`,
};

const ENDS_SESSIONS = ['ending another session', 'ending all other tokens', 'changing the password'];

/** Endings of every token. They also end a token that the operation added before them. */
const OF_ALL = ['log out everywhere', 'disabling the user'];

for (const [lock, statement] of Object.entries(LOCKS)) {
  test(`operations and endings that meet at the lock of ${lock}`, { skip: redisMissing }, async (t) => {
    const { url, prefix } = testRedis(t);
    const env = { ...ENDINGS_ENVIRONMENT, REDIS_URL: url, REDIS_PREFIX: prefix };
    const clock = aShiftedClock();
    const target = await twoReplicas(t, env);
    const locks = await aClient(t, target.databaseUrl);
    const watch = await aClient(t, target.databaseUrl);

    for (const [operation, ask] of Object.entries(OPERATIONS)) {
      for (const [ending, end] of Object.entries(RECORDED_ENDINGS)) {
        for (const first of ['ending', 'operation'] as const) {
          await t.test(`${operation} and ${ending}, ${first} first`, async (t) => {
            const victim = await aVictim(target);
            const before = await liveTokens(target, victim);
            const ended = begun(() => end(target, victim, clock));
            const asked = begun(() => ask(target, victim));
            await locks.query('BEGIN');
            await locks.query(statement(victim));
            const [one, other] = first === 'ending' ? [ended, asked] : [asked, ended];
            // Each waits at the lock or is done: an ending that needs no such lock is answered now.
            await one.begin(watch);
            await other.begin(watch, one.isDone() ? 1 : 2);
            const wasEndedBefore = ended.isDone();
            await locks.query('COMMIT');
            const hasEnded = await ended.result().then(
              () => true,
              () => false,
            );
            const { statusCode, body } = await asked.result();
            const [, row] = await effectsOn(target, victim);
            if (operation === 'changing the names')
              t.equal((row as { name: string }).name === 'A thief', statusCode === 200, 'as it was answered');

            const live = await liveTokens(target, victim);
            t.ok([200, 401].includes(statusCode), body);
            if (!hasEnded) {
              t.equal(statusCode, 200, 'the operation has ended the session that was to end its caller');
              t.ok(live.includes(victim.callerId));
              return;
            }
            if (wasEndedBefore) t.equal(statusCode, 401, 'no effect after the ending was answered');
            // If the operation ended a session, the login has room and replaces none.
            const hasMadeRoom =
              statusCode === 200 && ending === 'replacement' && ENDS_SESSIONS.includes(operation);
            if (!hasMadeRoom) t.notOk(live.includes(victim.callerId), 'the ending took effect');
            const isNew = (id: number) => !before.includes(id);
            if (ending !== 'replacement' && (statusCode === 401 || OF_ALL.includes(ending)))
              t.notOk(live.some(isNew), 'no added token is live');
            if (OF_ALL.includes(ending)) t.strictSame(live, []);
            else if (statusCode === 401)
              t.strictSame(
                before.filter((id) => !live.includes(id)),
                [victim.callerId],
                'nothing else was ended',
              );
            else if (!CHANGES_NO_TOKEN.includes(operation)) t.notSame(live, before, 'it took effect');
          });
        }
      }
    }
  });
}
