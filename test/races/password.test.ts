import { test } from 'tap';
import { disableAccount } from '../support/accounts.ts';
import type { TestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  refresh,
  signUp,
  verifyInScope,
  type Pair,
} from '../support/client.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aReset, redeem } from '../support/resets.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import { twoReplicas } from '../support/two-replicas.ts';

/**
 * Changes of a password against everything that could keep or bring a token: each pair meets at the lock of the user's
 * row, in either order.
 */
const OLD = 'difference engine';
const NEW = 'an analytical engine';

interface Scene {
  target: TestApp;
  account: ReturnType<typeof anAccount>;
  userId: number;
  /** The session that changes the password. */
  asking: Pair;
  other: Pair;
  reset: string;
}

interface Answer {
  status: number;
  body: string;
}

type Act = (scene: Scene) => Promise<Answer>;

const answer = async (asked: ReturnType<typeof call>): Promise<Answer> => {
  const { statusCode: status, body } = await asked;
  return { status, body };
};

const ACTS = {
  change: ({ target, asking }) =>
    answer(
      call(target, 'POST /api/user/password', {
        token: asking.access_token,
        payload: { current_password: OLD, new_password: NEW, end_long_lived: true },
      }),
    ),
  'change by another session': ({ target, other }) =>
    answer(
      call(target, 'POST /api/user/password', {
        token: other.access_token,
        payload: { current_password: OLD, new_password: `${NEW} 2`, end_long_lived: true },
      }),
    ),
  'change by the same session': ({ target, asking }) =>
    answer(
      call(target, 'POST /api/user/password', {
        token: asking.access_token,
        payload: { current_password: OLD, new_password: `${NEW} 3`, end_long_lived: true },
      }),
    ),
  reset: ({ target, reset }) => answer(redeem(target, reset, `${NEW} 4`)),
  'the same reset': ({ target, reset }) => answer(redeem(target, reset, `${NEW} 5`)),
  'another reset token': async ({ target, userId }) => {
    const token = await aReset(target.databaseUrl, userId);
    return { status: 200, body: token };
  },
  login: ({ target, account }) =>
    answer(call(target, 'POST /api/auth', { payload: { username: account.username, password: OLD } })),
  refresh: ({ target, other }) => answer(refresh(target, other.refresh_token)),
  'a long-lived token': ({ target, other }) =>
    answer(call(target, 'POST /api/auth/llt', { token: other.access_token, payload: { device: 'x' } })),
  'a limited token': ({ target, other }) =>
    answer(
      call(target, 'POST /api/user/tokens', {
        token: other.access_token,
        payload: { name: 'x', scopes: ['orders:read'] },
      }),
    ),
  disable: async ({ target, userId }) => {
    await disableAccount(target.databaseUrl, { id: userId });
    return { status: 200, body: '' };
  },
} satisfies Record<string, Act>;

type Name = keyof typeof ACTS;

/** Whose session is good afterwards, and no other token. `unchanged`: neither took effect on tokens. */
type Left = 'asking' | 'other' | 'none' | 'unchanged';

/** Each pair, with the allowed statuses of both answers, and what is left then, in either order. */
const PAIRS: [one: Name, other: Name, left: Record<string, Left>][] = [
  // A login that was first is ended by the change; a later one is refused.
  ['change', 'login', { '200 200': 'asking', '200 401': 'asking' }],
  ['change', 'refresh', { '200 200': 'asking', '200 401': 'asking' }],
  ['change', 'a long-lived token', { '200 200': 'asking', '200 401': 'asking' }],
  ['change', 'a limited token', { '200 200': 'asking', '200 401': 'asking' }],
  ['change', 'change by another session', { '200 401': 'asking', '401 200': 'other' }],
  ['change', 'change by the same session', { '200 401': 'asking', '401 200': 'asking' }],
  ['change', 'reset', { '200 401': 'asking', '401 200': 'none' }],
  ['change', 'another reset token', { '200 200': 'asking' }],
  ['change', 'disable', { '200 200': 'none', '401 200': 'none' }],
  ['reset', 'login', { '200 200': 'none', '200 401': 'none' }],
  ['reset', 'refresh', { '200 200': 'none', '200 401': 'none' }],
  ['reset', 'a long-lived token', { '200 200': 'none', '200 401': 'none' }],
  ['reset', 'a limited token', { '200 200': 'none', '200 401': 'none' }],
  ['reset', 'the same reset', { '200 401': 'none', '401 200': 'none' }],
  ['reset', 'another reset token', { '200 200': 'none', '401 200': 'unchanged' }],
  ['reset', 'disable', { '200 200': 'none', '401 200': 'none' }],
];

test('a changed password leaves no token of before', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await twoReplicas(t, { REDIS_URL: url, REDIS_PREFIX: prefix });
  const locks = await aClient(t, target.databaseUrl);
  const watch = await aClient(t, target.databaseUrl);

  for (const [one, other, outcomes] of PAIRS) {
    for (const isOneFirst of [true, false]) {
      const order = isOneFirst ? `${one}, then ${other}` : `${other}, then ${one}`;
      await t.test(order, async (t) => {
        const account = anAccount();
        const asking = await signUp(target, account);
        const scene: Scene = {
          target,
          account,
          userId: asking.user.id,
          asking,
          other: await logIn(target, account.username),
          reset: await aReset(target.databaseUrl, asking.user.id),
        };
        const { longlived_token: llt } = await createLongLived(target, asking.access_token);
        const [ofOne, ofOther] = [begun(() => ACTS[one](scene)), begun(() => ACTS[other](scene))];
        const [first, second] = isOneFirst ? [ofOne, ofOther] : [ofOther, ofOne];
        await locks.query('BEGIN');
        await locks.query(`SELECT id FROM users WHERE id = ${scene.userId} FOR NO KEY UPDATE`);
        await first.begin(watch);
        await second.begin(watch, first.isDone() ? 1 : 2);
        await locks.query('COMMIT');
        const [answered, otherAnswered] = [await ofOne.result(), await ofOther.result()];
        const outcome = `${answered.status} ${otherAnswered.status}`;
        const left = outcomes[outcome];
        if (!left) {
          t.fail(`${outcome}: ${answered.body} ${otherAnswered.body}`);
          return;
        }
        const kept = { asking, other: scene.other, none: null, unchanged: null }[left];
        const live = await sql<{ id: string }>(
          target.databaseUrl,
          `SELECT id FROM tokens WHERE user_id = ${scene.userId} AND revoked_at IS NULL`,
        );
        if (left === 'unchanged') {
          t.equal(live.length, 3);
          return;
        }
        t.strictSame(
          live.map(({ id }) => Number(id)),
          kept ? [claimsOf(kept.access_token).sid] : [],
        );
        // An operator's command leaves the tombstones to the sweep.
        if (other === 'disable') target.composition.start();
        const isGood = async (token: string) => (await verifyInScope(target, token)).statusCode === 200;
        const pairs: Issued[] = [asking, scene.other, tokensIn(otherAnswered)];
        const tokens = pairs
          .filter((pair) => pair !== kept)
          .flatMap((pair) => pair.access_token ?? pair.longlived_token ?? pair.token ?? []);
        for (const token of [...tokens, llt]) {
          if (other === 'disable') await until(async () => !(await isGood(token)));
          else t.notOk(await isGood(token));
        }
        if (kept) t.ok(await isGood(kept.access_token));
        const payload = { username: account.username, password: OLD };
        const late = await call(target, 'POST /api/auth', { payload });
        t.equal(late.statusCode, 401, 'the old password opens nothing');
      });
    }
  }
});

type Issued = Partial<Pair> & { longlived_token?: string; token?: string };

function tokensIn({ body }: Answer): Issued {
  return body.startsWith('{') ? (JSON.parse(body) as Issued) : {};
}
