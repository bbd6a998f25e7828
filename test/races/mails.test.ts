import { test } from 'tap';
import { aManager } from '../support/accounts.ts';
import type { TestApp } from '../support/app.ts';
import { aClient, begun } from '../support/begun.ts';
import { anAccount, call, signUp, type Pair } from '../support/client.ts';
import { MAIL_KINDS } from '../../src/domain/mail-kinds.ts';
import {
  aMailer,
  changeEmail,
  requestReset,
  verifyEmail,
  wantReset,
  type Mail,
} from '../support/mails.ts';
import { aMailedReset, aReset, redeem } from '../support/resets.ts';
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
  /** Proves the pending address, if the scene has one. */
  proof: string;
  byService: Awaited<ReturnType<typeof aManager>>;
}

type Act = (scene: Scene) => Promise<number>;

const statusOf = async (asked: ReturnType<typeof call>) => (await asked).statusCode;

/** Asks for another address. */
function askFor({ target, pair }: Pick<Scene, 'target' | 'pair'>, email: string): Promise<number> {
  const payload = { email, current_password: PASSWORD };
  return statusOf(call(target, 'PATCH /api/user', { token: pair.access_token, payload }));
}

const ACTS = {
  verify: ({ target, mail }) => statusOf(verifyEmail(target, mail.token)),
  'the same token': ({ target, mail }) => statusOf(verifyEmail(target, mail.token)),
  prove: ({ target, pair, proof }) => statusOf(changeEmail(target, pair.access_token, proof)),
  'the same proof': ({ target, pair, proof }) => statusOf(changeEmail(target, pair.access_token, proof)),
  'a wish for another address': (scene) => askFor(scene, `other.${scene.account.email}`),
  'a wish for the first address': (scene) => askFor(scene, scene.account.email),
  'a new password': ({ target, pair }) =>
    statusOf(
      call(target, 'POST /api/user/password', {
        token: pair.access_token,
        payload: { current_password: PASSWORD, new_password: 'an analytical engine' },
      }),
    ),
  'a mailed reset': async ({ target, pair }) =>
    statusOf(redeem(target, await aMailedReset(target.databaseUrl, pair.user.id))),
  'a new address by a service': ({ byService, account, pair }) =>
    statusOf(byService(`PATCH /api/users/${pair.user.id}`, { email: `new.${account.email}` })),
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

type Both<Value> = [proofFirst: Value, otherFirst: Value];

/** An act against a proof of the address in force: statuses of both, whether it is proved, and what a repeat answers. */
const AGAINST_VERIFY: [
  other: keyof typeof ACTS,
  statuses: Both<[proof: number, other: number]>,
  proved: Both<boolean>,
  repeat: Both<number>,
][] = [
  ['the same token', [[200, 200], [200, 200]], [true, true], [200, 200]],
  ['a wish for another address', [[200, 200], [200, 200]], [true, true], [200, 200]],
  ['a new password', [[200, 200], [200, 200]], [true, true], [200, 200]],
  ['a new address by a service', [[200, 200], [401, 200]], [false, false], [401, 401]],
  ['a new address by 1.0.0', [[200, 200], [401, 200]], [false, false], [401, 401]],
  ['disable', [[200, 200], [401, 200]], [true, false], [401, 401]],
  ['delete', [[200, 200], [401, 200]], [false, false], [401, 401]],
];

type Addresses = [inForce: string | null, pending: string | null];

/** The same against a proof of the pending address `next.…`, and which addresses the account has then, by their prefixes. */
const AGAINST_PROOF: [
  other: keyof typeof ACTS,
  statuses: Both<[proof: number, other: number]>,
  addresses: Both<Addresses>,
  repeat: Both<number>,
][] = [
  ['the same proof', [[200, 200], [200, 200]], [['next.', null], ['next.', null]], [200, 200]],
  ['a wish for another address', [[200, 200], [401, 200]], [['next.', 'other.'], ['', 'other.']], [200, 401]],
  ['a wish for the first address', [[200, 200], [401, 200]], [['next.', ''], ['', null]], [200, 401]],
  ['a new password', [[200, 200], [401, 200]], [['next.', null], ['', null]], [200, 401]],
  ['a mailed reset', [[200, 401], [401, 200]], [['next.', null], ['', null]], [200, 401]],
  ['a new address by a service', [[200, 200], [401, 200]], [['new.', null], ['new.', null]], [401, 401]],
  ['a new address by 1.0.0', [[200, 200], [401, 200]], [['new.', null], ['new.', null]], [401, 401]],
  ['a new password by 1.0.0', [[200, 200], [401, 200]], [['next.', null], ['', null]], [200, 401]],
  ['disable', [[200, 200], [401, 200]], [['next.', null], ['', null]], [401, 401]],
  ['delete', [[200, 200], [401, 200]], [[null, null], [null, null]], [401, 401]],
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
  const byService = await aManager(databaseUrl, target, ['users.write', 'users.reset']);

  async function aScene(): Promise<Scene> {
    const account = anAccount();
    const pair = await signUp(target, account);
    const [mail, ...others] = await mailer.take();
    if (mail?.user.id !== pair.user.id || others.length > 0) throw new Error('not this account’s mail');
    await mailer.settle(mail.id);
    return { target, account, pair, mail, proof: '', byService };
  }

  /** The address in force is verified, and `next.…` is pending. */
  async function aSceneOfTwo(): Promise<Scene> {
    const scene = await aScene();
    await ACTS.verify(scene);
    await askFor(scene, `next.${scene.account.email}`);
    const [mail] = await mailer.take(1, ['email_change']);
    if (mail?.email !== `next.${scene.account.email}`) throw new Error('no mail to the pending address');
    await mailer.settle(mail.id);
    return { ...scene, proof: mail.token };
  }

  async function settleAll(): Promise<void> {
    for (const { id } of await mailer.take(100, MAIL_KINDS)) await mailer.settle(id);
  }

  for (const [other, statuses, proved, repeat] of AGAINST_VERIFY) {
    for (const at of [0, 1] as const) {
      const order = at === 0 ? `verify, then ${other}` : `${other}, then verify`;
      await t.test(order, async (t) => {
        const scene = await aScene();
        const { id } = scene.pair.user;
        const verify = () => ACTS.verify(scene);
        const answers = await inOrder(clients, id, at === 0, verify, () => ACTS[other](scene));
        t.strictSame(answers, statuses[at]);
        const [row] = await sql<{ proved: boolean }>(
          databaseUrl,
          `SELECT email_verified_at IS NOT NULL AS proved FROM users WHERE id = ${id}`,
        );
        t.equal(row?.proved, proved[at]);
        const left = await sql<{ used: boolean }>(
          databaseUrl,
          `SELECT used_at IS NOT NULL AS used FROM mailed_tokens
           WHERE user_id = ${id} AND kind = 'email_verification'`,
        );
        t.strictSame(left, repeat[at] === 200 ? [{ used: true }] : [], 'no token is left but one for a repeat');
        t.equal(await verify(), repeat[at], 'the repeat');
        await settleAll();
      });
    }
  }

  for (const [other, statuses, addresses, repeat] of AGAINST_PROOF) {
    for (const at of [0, 1] as const) {
      const order = at === 0 ? `prove, then ${other}` : `${other}, then prove`;
      await t.test(order, async (t) => {
        const scene = await aSceneOfTwo();
        const { id } = scene.pair.user;
        const prove = () => ACTS.prove(scene);
        const answers = await inOrder(clients, id, at === 0, prove, () => ACTS[other](scene));
        t.strictSame(answers, statuses[at]);
        const [row] = await sql<{ email: string; pending: string | null; tokens: number }>(
          databaseUrl,
          `SELECT coalesce(email_given, email) AS email, pending_email AS pending,
             (SELECT count(*)::int FROM mailed_tokens WHERE user_id = users.id AND used_at IS NULL) AS tokens
           FROM users WHERE id = ${id}`,
        );
        const [inForce, pending] = addresses[at].map((prefix) =>
          prefix === null ? null : `${prefix}${scene.account.email}`,
        );
        t.strictSame(row, { email: inForce ?? `@${id}`, pending, tokens: 0 });
        t.equal(await prove(), repeat[at], 'the repeat');
        await settleAll();
      });
    }
  }

  await t.test('of two accounts that prove one address, one gets it', async (t) => {
    for (const local of ['ada.shared', 'zoë.shared']) {
      const scenes = [await aScene(), await aScene()];
      const proofs: string[] = [];
      for (const [i, scene] of scenes.entries()) {
        // Another spelling is the same address.
        t.equal(await askFor(scene, `${local}@${i === 0 ? 'example.com' : 'EXAMPLE.com'}`), 200);
        const [mail] = await mailer.take(1, ['email_change']);
        proofs.push(mail?.token ?? '');
        await mailer.settle(mail?.id ?? 0);
      }
      const answers = await Promise.all(
        scenes.map((scene, i) => changeEmail(target, scene.pair.access_token, proofs[i] ?? '')),
      );
      t.strictSame(answers.map(({ statusCode }) => statusCode).sort(), [200, 400]);
      t.match(answers.find(({ statusCode }) => statusCode === 400)?.json(), { code: 'email_taken' });
      const winner = answers.findIndex(({ statusCode }) => statusCode === 200);
      const [lost, won] = [scenes[1 - winner], scenes[winner]];
      if (!lost || !won) throw new Error('no winner');
      // It goes back: the address it leaves was proved, so it stays its own.
      t.equal(await statusOf(byService(`PATCH /api/users/${won.pair.user.id}`, { email: won.account.email })), 200);
      t.equal(await ACTS.prove({ ...lost, proof: proofs[1 - winner] ?? '' }), 400, 'reserved for the other');
      await settleAll();
    }
  });

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
      t.equal((await verifyEmail(target, token)).statusCode, 200, 'each token is good');
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

  await t.test('a mail that is taken again leaves its tokens good, the newest 8 of the account', async (t) => {
    const { account, pair } = await aScene();
    const tokens: string[] = [];
    for (let i = 0; i < 9; i++) {
      // A mail has six tries.
      if (i % 6 === 0) await wantReset(target, account.username);
      const [mail] = await mailer.take();
      tokens.push(mail?.token ?? '');
      // It is hidden for at most 32 minutes.
      await sql(
        databaseUrl,
        `UPDATE wanted_mails SET wanted_at = now() - interval '34 minutes', taken_at = now() - interval '33 minutes'
         WHERE user_id = ${pair.user.id} AND settled_at IS NULL`,
      );
    }
    const statuses: number[] = [];
    for (const token of tokens.slice(0, 3)) statuses.push(await statusOf(redeem(target, token)));
    t.strictSame(statuses, [401, 200, 401], 'the ninth-newest is void, and one that is used voids the others');
    await settleAll();
  });

  for (const act of [
    'a new address by a service',
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
        'a new address by a service': ['email_verification', 'password_reset'],
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
    const change = begun(() => ACTS['a new address by a service'](scene));
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
