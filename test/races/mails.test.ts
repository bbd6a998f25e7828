import { test } from 'tap';
import { aManager } from '../support/accounts.ts';
import type { TestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import { anAccount, call, signUp, type Pair } from '../support/client.ts';
import { aMailer, requestReset, verifyEmail, wantReset, type Mail } from '../support/mails.ts';
import { aReset, redeem } from '../support/resets.ts';
import { sql } from '../support/sql.ts';
import { twoReplicas } from '../support/two-replicas.ts';

/**
 * Taking mails and redeeming their tokens against what withdraws them: each pair meets at the lock of the user's row, in
 * either order.
 */
const PASSWORD = 'difference engine';

interface Scene {
  target: TestApp;
  account: ReturnType<typeof anAccount>;
  pair: Pair;
  /** Its token proves the address that the account has at first. */
  mail: Mail;
  byService: Awaited<ReturnType<typeof aManager>>;
}

type Act = (scene: Scene) => Promise<number>;

const statusOf = async (asked: ReturnType<typeof call>) => (await asked).statusCode;

const ACTS = {
  verify: ({ target, mail }) => statusOf(verifyEmail(target, mail.token)),
  'the same token': ({ target, mail }) => statusOf(verifyEmail(target, mail.token)),
  'a new address': ({ target, account, pair }) =>
    statusOf(
      call(target, 'PATCH /api/user', {
        token: pair.access_token,
        payload: { email: `new.${account.email}`, current_password: PASSWORD },
      }),
    ),
  disable: ({ byService, pair }) =>
    statusOf(byService(`PATCH /api/users/${pair.user.id}`, { disabled: true })),
  delete: ({ byService, pair }) => statusOf(byService(`DELETE /api/users/${pair.user.id}`)),
  // As a replica of 1.0.0 does it, which knows nothing of mails.
  'a new address by 1.0.0': async ({ target, account, pair }) => {
    await sql(target.databaseUrl, 'UPDATE users SET email = $1, email_verified_at = NULL WHERE id = $2', [
      `new.${account.email}`,
      pair.user.id,
    ]);
    return 200;
  },
  'a new password by 1.0.0': async ({ target, pair }) => {
    await sql(target.databaseUrl, 'UPDATE users SET password_version = password_version + 1 WHERE id = $1', [
      pair.user.id,
    ]);
    return 200;
  },
} satisfies Record<string, Act>;

/** What an act against a redemption leaves: statuses of both by who was first, and whether the address is proved. */
const AGAINST_VERIFY: [
  other: keyof typeof ACTS,
  first: [number, number],
  second: [number, number],
  proved: [boolean, boolean],
][] = [
  ['the same token', [200, 401], [401, 200], [true, true]],
  ['a new address', [200, 200], [401, 200], [false, false]],
  ['a new address by 1.0.0', [200, 200], [401, 200], [false, false]],
  ['disable', [200, 200], [401, 200], [true, false]],
  ['delete', [200, 200], [401, 200], [false, false]],
];

/** @returns what the two acts answer, `one` being first at the lock or not. */
async function inOrder<One, Other>(
  { locks, watch }: Record<'locks' | 'watch', Awaited<ReturnType<typeof aClient>>>,
  userId: number,
  isOneFirst: boolean,
  one: () => Promise<One>,
  other: () => Promise<Other>,
): Promise<[One, Other]> {
  const [ofOne, ofOther] = [begun(one), begun(other)];
  const [first, second] = isOneFirst ? [ofOne, ofOther] : [ofOther, ofOne];
  await locks.query('BEGIN');
  await locks.query(`SELECT id FROM users WHERE id = ${userId} FOR NO KEY UPDATE`);
  await first.begin(watch);
  await second.begin(watch, first.isDone() ? 1 : 2);
  await locks.query('COMMIT');
  return [await ofOne.result(), await ofOther.result()];
}

test('mails and what withdraws them', async (t) => {
  const target = await twoReplicas(t, { EMAIL_VERIFICATION: 'true', DATABASE_TIMEOUT: '30000' });
  const { databaseUrl } = target;
  const clients = { locks: await aClient(t, databaseUrl), watch: await aClient(t, databaseUrl) };
  const [mailer, second] = [await aMailer(target), await aMailer(target, 'second mailer')];
  const byService = await aManager(databaseUrl, target, ['users.write']);

  async function aScene(): Promise<Scene> {
    const account = anAccount();
    const pair = await signUp(target, account);
    const [mail, ...others] = await mailer.take();
    if (mail?.user.id !== pair.user.id || others.length > 0) throw new Error('not this account’s mail');
    await mailer.settle(mail.id);
    return { target, account, pair, mail, byService };
  }

  for (const [other, first, later, proved] of AGAINST_VERIFY) {
    for (const isVerifyFirst of [true, false]) {
      const order = isVerifyFirst ? `verify, then ${other}` : `${other}, then verify`;
      await t.test(order, async (t) => {
        const scene = await aScene();
        const { id } = scene.pair.user;
        const answers = await inOrder(
          clients,
          id,
          isVerifyFirst,
          () => ACTS.verify(scene),
          () => ACTS[other](scene),
        );
        t.strictSame(answers, isVerifyFirst ? first : later);
        const [row] = await sql<{ proved: boolean }>(
          databaseUrl,
          `SELECT email_verified_at IS NOT NULL AS proved FROM users WHERE id = ${id}`,
        );
        t.equal(row?.proved, proved[isVerifyFirst ? 0 : 1]);
        t.strictSame(await sql(databaseUrl, `SELECT 1 FROM email_verifications WHERE user_id = ${id}`), []);
        t.equal(await ACTS.verify(scene), 401, 'the token is used up');
        for (const { id: left } of await mailer.take()) await mailer.settle(left);
      });
    }
  }

  await t.test('two mailers never have one mail at the same time', async (t) => {
    const ids: number[] = [];
    for (let i = 0; i < 40; i++) ids.push((await signUp(target)).user.id);
    const taken: Mail[] = [];
    while (taken.length < ids.length) {
      const rounds = await Promise.all([mailer.take(7), second.take(7), mailer.take(3), second.take(3)]);
      const now = rounds.flat();
      t.ok(now.length > 0, 'someone gets some');
      if (now.length === 0) return;
      taken.push(...now);
    }
    t.strictSame(
      taken.map(({ user }) => user.id).sort((a, b) => a - b),
      ids,
    );
    for (const { id, token } of taken) {
      t.equal((await verifyEmail(target, token)).statusCode, 200, 'each token is the account’s newest');
      await mailer.settle(id);
    }
  });

  await t.test('a mail of a locked account waits, and holds up no other', async (t) => {
    const [locked, other] = [await signUp(target), await signUp(target)];
    await clients.locks.query('BEGIN');
    await clients.locks.query(`SELECT id FROM users WHERE id = ${locked.user.id} FOR NO KEY UPDATE`);
    t.strictSame(
      (await mailer.take()).map(({ user }) => user.id),
      [other.user.id],
    );
    await clients.locks.query('COMMIT');
    t.strictSame(
      (await mailer.take()).map(({ user }) => user.id),
      [locked.user.id],
    );
  });

  for (const act of [
    'a new address',
    'a new address by 1.0.0',
    'a new password by 1.0.0',
    'disable',
    'delete',
  ] as const) {
    await t.test(`taking, then ${act}: the token is void`, async (t) => {
      const scene = await aScene();
      const { account, pair } = scene;
      await wantReset(target, account.username);
      await call(target, 'POST /api/user/email-verification', { token: pair.access_token });
      const mails = await mailer.take();
      t.equal(mails.length, 2);
      await ACTS[act](scene);
      for (const { kind, token } of mails) {
        const redeemed = kind === 'password_reset' ? redeem(target, token) : verifyEmail(target, token);
        const isKept = kind === 'email_verification' && act === 'a new password by 1.0.0';
        t.equal((await redeemed).statusCode, isKept ? 200 : 401, kind);
      }
      const now = await sql<{ kind: string }>(
        databaseUrl,
        `SELECT kind FROM wanted_mails WHERE user_id = ${pair.user.id} AND settled_at IS NULL ORDER BY kind`,
      );
      const expected = {
        'a new address': ['email_verification', 'password_reset'],
        'a new address by 1.0.0': ['password_reset'],
        'a new password by 1.0.0': ['password_reset'],
        disable: [],
        delete: [],
      };
      t.strictSame(
        now.map(({ kind }) => kind),
        expected[act],
      );
      for (const { id } of await mailer.take()) await mailer.settle(id);
      for (const { id } of mails) await mailer.settle(id);
    });
  }

  await t.test('taking while the address changes: the mail goes to the new address, later', async (t) => {
    const scene = await aScene();
    await call(target, 'POST /api/user/email-verification', { token: scene.pair.access_token });
    await clients.locks.query('BEGIN');
    await clients.locks.query(`SELECT id FROM users WHERE id = ${scene.pair.user.id} FOR NO KEY UPDATE`);
    const change = begun(() => ACTS['a new address'](scene));
    await change.begin(clients.watch);
    t.strictSame(await mailer.take(), [], 'it waits for no lock');
    await clients.locks.query('COMMIT');
    t.equal(await change.result(), 200);
    const mails = await mailer.take();
    t.match(mails, [{ email: `new.${scene.account.email}` }]);
    for (const { id } of mails) await mailer.settle(id);
  });

  await t.test('of a mailed reset token and one that was handed out, one is redeemed', async (t) => {
    for (const isMailedFirst of [true, false]) {
      const { account, pair } = await aScene();
      const { id } = pair.user;
      const handedOut = await aReset(databaseUrl, id);
      await wantReset(target, account.username);
      const [mail] = await mailer.take();
      const answers = await inOrder(
        clients,
        id,
        isMailedFirst,
        () => statusOf(redeem(target, mail?.token ?? '')),
        () => statusOf(redeem(target, handedOut)),
      );
      t.strictSame(answers, isMailedFirst ? [200, 401] : [401, 200]);
      await mailer.settle(mail?.id ?? 0);
    }
  });

  await t.test('two signups with one address want one mail', async (t) => {
    const { email } = anAccount();
    const answers = await Promise.all(
      [1, 2].map(() => call(target, 'POST /api/auth/signup', { payload: { ...anAccount(), email } })),
    );
    t.strictSame(answers.map(({ statusCode }) => statusCode).sort(), [200, 400]);
    const mails = await mailer.take();
    t.match(mails, [{ email }]);
    t.equal(mails.length, 1);
    for (const { id } of mails) await mailer.settle(id);
  });

  await t.test('100 requests at once want one mail', async (t) => {
    const { account } = await aScene();
    const { resetRequests } = target.composition.app.useCases;
    const names = Array.from({ length: 100 }, (_, i) => (i % 2 === 0 ? account.username : account.email));
    await Promise.all(names.map((name) => requestReset(target, name)));
    await Promise.all([resetRequests.work(), resetRequests.work(), resetRequests.work()]);
    t.match(await mailer.take(), [{ kind: 'password_reset', user: { username: account.username } }]);
    t.strictSame(await second.take(), []);
  });
});
