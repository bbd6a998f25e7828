import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { checkDatabase } from '../../../src/doctor/database.ts';
import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, logIn, signUp } from '../../support/client.ts';
import { aConfig, byCheck } from '../../support/doctor.ts';
import { refused } from '../../support/problem.ts';
import { sql } from '../../support/sql.ts';

const unique = () => `x${randomBytes(5).toString('hex')}`;

test('an address is compared by its own rules', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const attempt = (username: string) =>
    call(target, 'POST /api/auth', { payload: { username, password: 'difference engine' } });
  const signUpWith = (email: string) =>
    call(target, 'POST /api/auth/signup', { payload: anAccount({ email }) });
  const found = async (email: string) =>
    (await ask(`GET /api/users?email=${encodeURIComponent(email)}`))
      .json<{ users: { id: number }[] }>()
      .users.map(({ id }) => id);
  const give = (id: number, email: string) => ask(`PATCH /api/users/${id}`, { email });
  /** As 1.0.0 writes an address: it knows of no other column. */
  const giveAsBefore = (id: number, email: string) =>
    sql(databaseUrl, 'UPDATE users SET email = $2 WHERE id = $1', [id, email.trim().toLowerCase()]);

  const diagnosis = async () =>
    byCheck(await checkDatabase(aConfig({ DATABASE_URL: databaseUrl })))['e-mail addresses'];

  await t.test('the spellings of an address are one', async (t) => {
    const [local, domain] = [unique(), unique()];
    const spellings = [
      `${local}é@bücher-${domain}.example`,
      `${local.toUpperCase()}e\u0301@BÜCHER-${domain}.example`,
      `${local}é@bu\u0308cher-${domain}.example`,
      `${local}é@${new URL(`http://bücher-${domain}.example`).host}`,
    ];
    for (const email of spellings) {
      const { user } = await signUp(target, anAccount({ email }));
      for (const other of spellings) {
        refused(t, await signUpWith(other), 400, 'email_taken');
        t.equal((await logIn(target, other)).user.id, user.id);
        t.strictSame(await found(other), [user.id]);
        t.equal((await give(user.id, other)).statusCode, 200, 'its own');
      }
      await ask(`DELETE /api/users/${user.id}`);
      for (const other of spellings) refused(t, await signUpWith(other), 400, 'email_taken');
      await sql(databaseUrl, 'DELETE FROM reserved_names');
    }
  });

  await t.test('what mail servers may keep apart is not folded', async (t) => {
    const [name, host] = [unique(), `${unique()}.example`];
    for (const [one, other] of [
      [`É${name}@${host}`, `é${name}@${host}`],
      [`${name}ſ@${host}`, `${name}s@${host}`],
      [`${name}@faß-${host}`, `${name}@fass-${host}`],
    ] as const) {
      const [first, second] = [
        await signUp(target, anAccount({ email: one })),
        await signUp(target, anAccount({ email: other })),
      ];
      t.strictSame(await found(one), [first.user.id]);
      t.strictSame(await found(other), [second.user.id]);
      t.equal((await logIn(target, one)).user.id, first.user.id);
      t.equal((await logIn(target, other)).user.id, second.user.id);
    }
  });

  await t.test('of two signups with spellings of one address, one succeeds', async (t) => {
    for (let round = 0; round < 5; round++) {
      const domain = unique();
      const answers = await Promise.all(
        [`x@ü-${domain}.example`, `x@${new URL(`http://ü-${domain}.example`).host}`].map(signUpWith),
      );
      t.strictSame(answers.map(({ statusCode }) => statusCode).sort(), [200, 400]);
    }
  });

  await t.test('new addresses are mailboxes; one from before them still logs in', async (t) => {
    const { access_token: token, user } = await signUp(target);
    const host = `${unique()}.example`;
    for (const email of [`<x@${host}>`, `x@a..${host}`, `.x@${host}`, `x@${host}.`, `x@a%41.${host}`]) {
      const payload = { email, current_password: 'difference engine' };
      refused(t, await signUpWith(email), 400, 'validation_failed', ['/email']);
      refused(t, await call(target, 'PATCH /api/user', { token, payload }), 400, 'validation_failed', [
        '/email',
      ]);
      refused(t, await ask('POST /api/users', anAccount({ email })), 400, 'validation_failed', ['/email']);
      refused(t, await give(user.id, email), 400, 'validation_failed', ['/email']);
      await giveAsBefore(user.id, email);
      for (const typed of [email, ` ${email.toUpperCase()} `])
        t.equal((await logIn(target, typed)).user.id, user.id, email);
      t.strictSame(await found(email), [user.id]);
    }
  });

  await t.test('a replica of 1.0.0 changes an address', async (t) => {
    const [before, after] = [`x@ü-${unique()}.example`, `x@ü-${unique()}.example`];
    const { user } = await signUp(target, anAccount({ email: before }));
    await giveAsBefore(user.id, after);
    for (const typed of [after, after.toUpperCase(), `x@${new URL(`http://${after.slice(2)}`).host}`])
      t.equal((await logIn(target, typed)).user.id, user.id, typed);
    t.strictSame(await found(before), [], 'the address before is free');
    t.equal((await signUpWith(before)).statusCode, 200);
  });

  await t.test('two accounts that have one address are named, and log in by username', async (t) => {
    const host = `ü-${unique()}.example`;
    const [one, other] = [anAccount(), anAccount()];
    const ids = [(await signUp(target, one)).user.id, (await signUp(target, other)).user.id] as const;
    const spellings = [`x@${host}`, `x@${new URL(`http://${host}`).host}`] as const;
    await giveAsBefore(ids[0], spellings[0]);
    await giveAsBefore(ids[1], spellings[1]);
    t.match(await diagnosis(), [{ state: 'warn', found: /^2 were written by 1.0.0/ }]);
    for (const email of spellings) {
      refused(t, await attempt(email), 401, 'invalid_credentials');
      refused(t, await signUpWith(email), 400, 'email_taken');
      t.strictSame(await found(email), []);
    }
    for (const { username } of [one, other]) await logIn(target, username);
    const named = `${ids[0]} (${one.username}), ${ids[1]} (${other.username})`;
    t.match(await diagnosis(), [
      { state: 'warn', found: new RegExp(`: ${named.replace(/[()]/g, '\\$&')}$`) },
    ]);
    t.equal((await give(ids[0], `${unique()}@example.com`)).statusCode, 200);
    for (const email of spellings) t.equal((await logIn(target, email)).user.id, ids[1]);
  });

  await t.test('no spelling of a plain address takes it away from its owner', async (t) => {
    const [host, other] = [`e${unique()}.example`, anAccount()];
    const plain = `x@${host}`;
    const [{ user: owner }, { user }] = [
      await signUp(target, anAccount({ email: plain })),
      await signUp(target, other),
    ];
    const spelling = plain.replace('@e', '@ｅ');
    await giveAsBefore(user.id, spelling);
    t.strictSame(await found('x@ü.example'), [], 'a look-up that fills the key');
    for (const email of [plain, plain.toUpperCase(), spelling]) {
      t.equal((await logIn(target, email)).user.id, owner.id);
      t.strictSame(await found(email), [owner.id]);
      refused(t, await signUpWith(email), 400, 'email_taken');
    }
    for (const change of [{ roles: ['a'] }, { disabled: true }, { disabled: false }, { name: 'Other' }])
      t.equal((await ask(`PATCH /api/users/${user.id}`, change)).statusCode, 200, JSON.stringify(change));
    await logIn(target, other.username);
    refused(t, await give(user.id, plain), 400, 'email_taken');
  });

  await t.test('names of deleted accounts are reserved as 1.0.0 knows them too', async (t) => {
    const host = `${unique()}.example`;
    const { user } = await signUp(target, anAccount({ email: `é@${host}` }));
    await ask(`DELETE /api/users/${user.id}`);
    refused(t, await signUpWith(`É@${host}`), 400, 'email_taken');
  });

  await t.test('the address of an account stays its own when another that had it is deleted', async (t) => {
    const owner = anAccount({ email: `x@e${unique()}.example` });
    const [{ user, access_token: token }, twin] = [await signUp(target, owner), await signUp(target)];
    await giveAsBefore(twin.user.id, owner.email.replace('@e', '@ｅ'));
    const verify = () => ask(`PATCH /api/users/${user.id}`, { email: owner.email, email_verified: true });
    t.equal((await verify()).statusCode, 200, 'while both have it');
    await ask(`DELETE /api/users/${twin.user.id}`);
    t.equal((await verify()).statusCode, 200);
    const payload = { email: owner.email, name: 'Ada', current_password: 'difference engine' };
    t.equal((await call(target, 'PATCH /api/user', { token, payload })).statusCode, 200);
  });

  await t.test('an address is marked as verified code point by code point', async (t) => {
    const email = `Ada@${unique()}.example`;
    const { user } = await signUp(target, anAccount({ email }));
    const patch = (body: object) => ask(`PATCH /api/users/${user.id}`, body);
    const verified = async () =>
      (await ask(`GET /api/users/${user.id}`)).json<{ email_verified: boolean }>().email_verified;
    refused(t, await patch({ email_verified: true }), 400, 'validation_failed', ['/email']);
    for (const other of [email.toLowerCase(), email.toUpperCase()])
      refused(t, await patch({ email: other, email_verified: true }), 400, 'validation_failed', ['/email']);
    t.equal(await verified(), false);
    t.equal((await patch({ email: ` ${email} `, email_verified: true })).statusCode, 200);
    t.equal(await verified(), true);
    t.equal((await patch({ name: 'B', email_verified: true })).statusCode, 200, 'a repeat needs no address');
    t.equal(await verified(), true);
    t.equal((await patch({ email: email.toLowerCase() })).statusCode, 200);
    t.equal(await verified(), false, 'another spelling was not proved');
    t.equal((await patch({ email: email.toLowerCase(), email_verified: true })).statusCode, 200);
    t.equal((await patch({ email: `${unique()}@example.com`, email_verified: true })).statusCode, 200);
    t.equal(await verified(), true, 'another address');
    await patch({ email_verified: false });
    t.equal(await verified(), false);
  });
});
