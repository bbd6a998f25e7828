import { test } from 'tap';
import { aManager } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, logIn, refresh, signUp } from '../../support/client.ts';
import { aFactor } from '../../support/factors.ts';
import { onAStoreWithEachLasting } from '../../support/lasting.ts';
import { latchkey } from '../../support/latchkey.ts';
import { wantReset } from '../../support/mails.ts';
import { refused } from '../../support/problem.ts';
import { redeem } from '../../support/resets.ts';
import { introspect } from '../../support/registered-service.ts';
import { sql } from '../../support/sql.ts';

onAStoreWithEachLasting('deleting an account', async (t, env, { kind, createLongLived, verify }) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const account = anAccount();
  const pair = await signUp(target, account);
  const { id } = pair.user;
  const other = await logIn(target, account.email);
  const { longlived_token: llt } = await createLongLived(target, pair.access_token);
  const { reset_token: reset } = (await ask(`POST /api/users/${id}/password-reset`)).json<{
    reset_token: string;
  }>();
  await ask(`PATCH /api/users/${id}`, {
    roles: ['admin'],
    email: account.email,
    email_verified: true,
    external_id: account.username,
    locale: 'de',
  });
  await aFactor(target, pair);
  await wantReset(target, account.username);
  const tokens = [pair.access_token, other.access_token, llt];
  for (const token of tokens) t.match((await introspect(target, ask.client, token)).json(), { active: true });

  // Without what says that a token ended, and what write-behind adds.
  const tokenRows = async () => {
    const rows = await sql<{ row: { scopes: string | null } }>(
      databaseUrl,
      `SELECT to_jsonb(tokens) - ARRAY['revoked_at', 'end_reason', 'pending', 'settled_at', 'last_used_at', 'confirmed'] AS row
       FROM tokens WHERE user_id = $1 ORDER BY id`,
      [id],
    );
    return rows.map(({ row }) => row);
  };
  const tokensBefore = await tokenRows();
  const limited = kind === 'limited' ? { scopes: 'orders:read', audience: 'latchkey' } : { scopes: null };
  t.match(tokensBefore, [{ name: String }, {}, { name: 'Kitchen tablet', ...limited }]);

  const response = await ask(`DELETE /api/users/${id}`);
  t.equal(response.statusCode, 200, response.body);
  t.strictSame(response.json(), { msg: 'deleted' });

  await t.test('ends every token', async (t) => {
    for (const token of tokens) {
      t.equal((await verify(target, token)).statusCode, 401);
      t.strictSame((await introspect(target, ask.client, token)).json(), { active: false });
    }
    for (const { refresh_token } of [pair, other])
      t.equal((await refresh(target, refresh_token)).statusCode, 401);
    refused(t, await redeem(target, reset), 401, 'invalid_reset_token');
  });

  await t.test('no operation knows the account any more', async (t) => {
    for (const line of [
      `GET /api/users/${id}`,
      `DELETE /api/users/${id}`,
      `GET /api/users/${id}/tokens`,
      `DELETE /api/users/${id}/tokens`,
      `POST /api/users/${id}/password-reset`,
    ])
      refused(t, await ask(line), 404, 'user_unknown');
    refused(t, await ask(`PATCH /api/users/${id}`, { disabled: false }), 404, 'user_unknown');
    for (const query of [`id=${id}`, `username=${account.username}`, `email=${account.email}`, ''])
      t.strictSame((await ask(`GET /api/users?${query}`)).json(), { users: [], next: null }, query);
    for (const name of [account.username, account.email, `@${id}`])
      refused(
        t,
        await call(target, 'POST /api/auth', { payload: { username: name, password: account.password } }),
        401,
        'invalid_credentials',
      );
    for (const words of [['show'], ['disable'], ['enable'], ['reset'], ['tokens']])
      t.match(await latchkey(['user', ...words, '--id', String(id)], { DATABASE_URL: databaseUrl }), {
        code: 1,
      });
    t.match(await latchkey(['user', 'export'], { DATABASE_URL: databaseUrl }), { code: 0, stdout: '' });
  });

  await t.test(
    'erases names, e-mail address, hash, roles and known devices, and keeps the token rows',
    async (t) => {
      const [row] = await sql<{ row: Record<string, unknown> }>(
        databaseUrl,
        'SELECT to_jsonb(users) AS row FROM users WHERE id = $1',
        [id],
      );
      const now = ['created_at', 'disabled_at', 'deleted_at', 'changed_at', 'version', 'pending'];
      const names = ['username', 'username_skeleton', 'email'];
      t.strictSame(
        { ...row?.row, ...Object.fromEntries(now.map((name) => [name, typeof row?.row[name]])) },
        {
          id,
          name: '',
          password_hash: '\\x',
          password_version: 1,
          roles: [],
          external_id: null,
          imported_hash: null,
          imported_cost: null,
          email_verified_at: null,
          email_given: null,
          email_key: null,
          enabled_at: null,
          factor_since: null,
          passkey_handle: null,
          pending_email: null,
          pending_key: null,
          locale: null,
          undeliverable_at: null,
          ...Object.fromEntries(names.map((name) => [name, `@${id}`])),
          created_at: 'string',
          disabled_at: 'string',
          deleted_at: 'string',
          changed_at: 'string',
          version: 'number',
          pending: 'boolean',
        },
      );
      const TABLES = 'known_devices password_resets mailed_tokens wanted_mails factors recovery_codes';
      for (const table of TABLES.split(' '))
        t.strictSame(await sql(databaseUrl, `SELECT 1 FROM ${table} WHERE user_id = $1`, [id]), [], table);
      t.strictSame(
        await tokenRows(),
        tokensBefore.map((token) => ({ ...token, name: '', client: '', scopes: token.scopes && '' })),
        'without the names of devices and the scopes',
      );
      const reserved = await sql<{ name_hash: string }>(databaseUrl, 'SELECT name_hash FROM reserved_names');
      t.equal(reserved.length, 2);
      for (const { name_hash: hash } of reserved) t.match(hash, /^[\w-]{43}$/);
    },
  );

  await t.test('no other account gets the names meanwhile', async (t) => {
    const signup = (names: object) =>
      call(target, 'POST /api/auth/signup', { payload: { ...anAccount(), ...names } });
    const { username, email } = account;
    refused(t, await signup({ username }), 400, 'username_taken');
    refused(t, await signup({ username: username.replace('l', '1') }), 400, 'username_taken');
    refused(t, await signup({ email: email.toUpperCase() }), 400, 'email_taken');
    refused(t, await ask('POST /api/users', { ...anAccount(), username }), 400, 'username_taken');
    const { access_token: token, user } = await signUp(target);
    refused(t, await ask(`PATCH /api/users/${user.id}`, { email }), 400, 'email_taken');
    const body = { username, current_password: 'difference engine' };
    refused(t, await call(target, 'PATCH /api/user', { token, payload: body }), 400, 'username_taken');
  });

  await t.test('after DELETED_NAME_GRACE the names are free', async (t) => {
    await sql(databaseUrl, "UPDATE reserved_names SET until = now() - interval '1 second'");
    const heir = await signUp(target, account);
    t.not(heir.user.id, id);
    t.equal((await verify(target, heir.access_token)).headers['x-auth-username'], account.username);
  });
});

test('a replica of an earlier release that deletes an account erases its second factor', async (t) => {
  const target = await buildTestApp(t);
  await aFactor(target, await signUp(target));
  await sql(target.databaseUrl, 'UPDATE users SET deleted_at = now()');
  const [row] = await sql(
    target.databaseUrl,
    `SELECT (SELECT count(*)::int FROM factors) AS factors, (SELECT count(*)::int FROM recovery_codes) AS codes,
      factor_since FROM users`,
  );
  t.strictSame(row, { factors: 0, codes: 0, factor_since: null });
});

test('purge removes a deleted account after its last token, and names that are free again', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const { user } = await signUp(target);
  await signUp(target);
  await ask(`DELETE /api/users/${user.id}`);
  const users = () => sql<{ id: string }>(databaseUrl, 'SELECT id FROM users WHERE id = $1', [user.id]);
  const purge = () => latchkey(['purge'], { DATABASE_URL: databaseUrl });
  t.match(await purge(), { code: 0 });
  t.equal((await users()).length, 1, 'the rows of its tokens are there');
  t.equal((await sql(databaseUrl, 'SELECT 1 FROM reserved_names')).length, 2);
  await sql(
    databaseUrl,
    `UPDATE tokens SET revoked_at = now() - interval '90 days', pending = false WHERE user_id = $1`,
    [user.id],
  );
  await sql(databaseUrl, `UPDATE reserved_names SET until = now()`);
  t.match(await purge(), { code: 0, stdout: /purged 1 records/ });
  t.equal((await users()).length, 1, 'snapshots of the feed still name it');
  await sql(
    databaseUrl,
    "UPDATE users SET deleted_at = now() - interval '31 days' WHERE deleted_at IS NOT NULL",
  );
  t.match(await purge(), { code: 0 });
  t.strictSame(await users(), []);
  t.strictSame(await sql(databaseUrl, 'SELECT 1 FROM reserved_names'), []);
  t.equal((await sql(databaseUrl, 'SELECT 1 FROM users')).length, 1, 'other accounts stay');
});
