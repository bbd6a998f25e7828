import { test } from 'tap';
import { managerOf } from '../support/accounts.ts';
import type { TestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import {
  anAccount,
  call,
  createLongLived,
  logIn,
  refresh,
  signUp,
  verifyInScope,
  type Pair,
} from '../support/client.ts';
import { latchkey } from '../support/latchkey.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aReset, redeem } from '../support/resets.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { twoReplicas } from '../support/two-replicas.ts';

/**
 * The deletion of an account against everything that could keep or bring a token or its name: each pair meets at the
 * lock of the user's row, in either order.
 */
interface Scene {
  target: TestApp;
  account: ReturnType<typeof anAccount>;
  pair: Pair;
  reset: string;
  file: string;
  remove: () => Promise<Outcome>;
  change: (changes: object) => Promise<Outcome>;
}

const REFRESH_TOKEN_SECRET = Buffer.alloc(32, 7).toString('base64url');

/** The tokens in an answer. */
type Made = Partial<Record<'access_token' | 'refresh_token' | 'longlived_token' | 'token', string>>;

/** What an act answers: a status, or the exit code of a command. */
interface Outcome {
  status: number;
  made: Made;
}

const outcomeOf = async (asked: ReturnType<typeof call>): Promise<Outcome> => {
  const response = await asked;
  return { status: response.statusCode, made: response.json() };
};

interface Act {
  act: (scene: Scene) => Promise<Outcome>;
  /** The status if it reaches the lock before the deletion, and after it. */
  first: number;
  second: number;
  /** The tokens that a 200 must hold. */
  makes?: readonly (keyof Made)[];
}

const PAIR = ['access_token', 'refresh_token'] as const;

const AGAINST: Record<string, Act> = {
  login: {
    act: ({ target, account: { username, password } }) =>
      outcomeOf(call(target, 'POST /api/auth', { payload: { username, password } })),
    first: 200,
    second: 401,
    makes: PAIR,
  },
  refresh: {
    act: ({ target, pair }) => outcomeOf(refresh(target, pair.refresh_token)),
    // It waits for no lock, so it is answered before the deletion is committed.
    first: 200,
    second: 200,
    makes: PAIR,
  },
  'a long-lived token': {
    act: ({ target, pair }) =>
      outcomeOf(call(target, 'POST /api/auth/llt', { token: pair.access_token, payload: { device: 'x' } })),
    first: 200,
    second: 401,
    makes: ['longlived_token'],
  },
  'a limited token': {
    act: ({ target, pair }) =>
      outcomeOf(
        call(target, 'POST /api/user/tokens', {
          token: pair.access_token,
          payload: { name: 'x', scopes: ['orders:read'] },
        }),
      ),
    first: 200,
    second: 401,
    makes: ['token'],
  },
  'a reset': {
    act: ({ target, reset }) => outcomeOf(redeem(target, reset)),
    first: 200,
    second: 401,
  },
  'a change of the password': {
    act: ({ target, pair }) =>
      outcomeOf(
        call(target, 'POST /api/user/password', {
          token: pair.access_token,
          payload: { current_password: 'difference engine', new_password: 'an analytical engine' },
        }),
      ),
    first: 200,
    second: 401,
  },
  'a change of the name': {
    act: ({ target, pair }) =>
      outcomeOf(call(target, 'PATCH /api/user', { token: pair.access_token, payload: { name: 'B' } })),
    first: 200,
    second: 401,
  },
  'a change by a service': {
    act: ({ change }) => change({ roles: ['admin'], disabled: false }),
    first: 200,
    second: 404,
  },
  'another deletion': { act: ({ remove }) => remove(), first: 200, second: 404 },
  'an import of the same names': {
    act: async ({ target, file }) => {
      const env = { DATABASE_URL: target.databaseUrl, REFRESH_TOKEN_SECRET };
      return { status: (await latchkey(['user', 'import', file], env)).code, made: {} };
    },
    first: 1,
    second: 1,
  },
};

test('a deleted account leaves no token, and no name', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  // The deletion waits for the lock while a command starts.
  const env = { REDIS_URL: url, REDIS_PREFIX: prefix, REFRESH_TOKEN_SECRET, DATABASE_TIMEOUT: '30000' };
  const target = await twoReplicas(t, env);
  const { databaseUrl } = target;
  const ask = managerOf(target, await aRegisteredService(databaseUrl, 'back office', ['users.write']));
  const locks = await aClient(t, databaseUrl);
  const watch = await aClient(t, databaseUrl);

  for (const [name, { act, makes = [], ...expected }] of Object.entries(AGAINST)) {
    for (const isDeletionFirst of [true, false]) {
      await t.test(isDeletionFirst ? `deletion, then ${name}` : `${name}, then deletion`, async (t) => {
        const account = anAccount();
        const pair = await signUp(target, account);
        const { id } = pair.user;
        const { longlived_token: llt } = await createLongLived(target, pair.access_token);
        const other = await logIn(target, account.username);
        const { username, name: display, email } = account;
        const line = { username, name: display, email, password_hash: `$2b$04$${'a'.repeat(53)}` };
        const scene: Scene = {
          target,
          account,
          pair,
          reset: await aReset(databaseUrl, id),
          file: `${t.testdir({ file: `${JSON.stringify(line)}\n` })}/file`,
          remove: () => outcomeOf(ask(`DELETE /api/users/${id}`)),
          change: (changes) => outcomeOf(ask(`PATCH /api/users/${id}`, changes)),
        };
        const [deletion, against] = [begun(scene.remove), begun(() => act(scene))];
        const [first, second] = isDeletionFirst ? [deletion, against] : [against, deletion];
        await locks.query('BEGIN');
        await locks.query(`SELECT id FROM users WHERE id = ${id} FOR NO KEY UPDATE`);
        await first.begin(watch);
        await second.begin(watch, first.isDone() ? 1 : 2);
        await locks.query('COMMIT');
        const [deleted, { status, made }] = [await deletion.result(), await against.result()];
        t.equal(status, isDeletionFirst ? expected.second : expected.first);
        if (status === 200) for (const each of makes) t.type(made[each], 'string', each);
        t.equal(deleted.status, name === 'another deletion' && !isDeletionFirst ? 404 : 200);
        const live = await sql(
          databaseUrl,
          'SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL',
          [id],
        );
        t.strictSame(live, [], 'no token is left');
        const { access_token, longlived_token, token: limited } = made;
        const madeBearers = [access_token, longlived_token, limited].filter((token) => token !== undefined);
        for (const token of [...madeBearers, pair.access_token, other.access_token, llt])
          t.equal((await verifyInScope(target, token)).statusCode, 401);
        // First the token that the act made: a superseded one would end its session as stolen.
        const madeRefresh = made.refresh_token === undefined ? [] : [made.refresh_token];
        for (const token of [...madeRefresh, pair.refresh_token, other.refresh_token])
          t.equal((await refresh(target, token)).statusCode, 401);
        const [row] = await sql<{ row: object }>(
          databaseUrl,
          'SELECT to_jsonb(users) AS row FROM users WHERE id = $1',
          [id],
        );
        t.match(row?.row, { username: `@${id}`, email: `@${id}`, name: '', roles: [], deleted_at: String });
        t.strictSame(await sql(databaseUrl, 'SELECT id FROM users WHERE username = $1', [username]), []);
        t.strictSame(await sql(databaseUrl, 'SELECT 1 FROM known_devices WHERE user_id = $1', [id]), []);
      });
    }
  }
});
