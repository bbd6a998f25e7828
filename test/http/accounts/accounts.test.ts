import { RIGHTS } from '../../../src/domain/rights.ts';
import { ACCOUNT_RIGHTS } from '../../support/account-rights.ts';
import { aManager, managerOf } from '../../support/accounts.ts';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, logIn, refresh, verify } from '../../support/client.ts';
import { onEachLasting } from '../../support/lasting.ts';
import { refused } from '../../support/problem.ts';
import { redeem } from '../../support/resets.ts';
import { aRegisteredService, introspect, withRegistry } from '../../support/registered-service.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

interface Account {
  id: number;
  username: string;
}

interface Page {
  users: Account[];
  next: number | null;
}

const attempt = (target: Parameters<typeof call>[0], username: string, password = 'difference engine') =>
  call(target, 'POST /api/auth', { payload: { username, password } });

onAStore('accounts for services', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, SIGNUP_ENABLED: 'false' } });
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const create = async (account: object = anAccount()) => {
    const response = await ask('POST /api/users', account);
    if (response.statusCode !== 200) throw new Error(response.body);
    return response.json<Account>();
  };

  await t.test('creates an account while signup is off, which the password opens', async (t) => {
    const account = anAccount();
    const response = await ask('POST /api/users', { ...account, roles: ['admin', 'billing:read'] });
    t.equal(response.statusCode, 200, response.body);
    const created = response.json<Account & { created_at: string }>();
    t.strictSame(created, {
      id: created.id,
      username: account.username,
      name: account.name,
      created_at: created.created_at,
      disabled: false,
      email_verified: false,
      email_deliverable: true,
      roles: ['admin', 'billing:read'],
      external_id: null,
      locale: null,
    });
    t.ok(Math.abs(Date.parse(created.created_at) - Date.now()) < 60_000);
    t.notMatch(response.body, account.email);
    t.equal((await logIn(target, account.email)).user.id, created.id);
  });

  await t.test('without a password, only a reset opens it', async (t) => {
    const account = { ...anAccount(), password: undefined };
    const { id } = await create(account);
    for (const tried of ['difference engine', 'undefined', 'null', ''])
      t.not((await attempt(target, account.username, tried)).statusCode, 200);
    const made = await ask(`POST /api/users/${id}/password-reset`);
    t.equal(made.statusCode, 200, made.body);
    const { reset_token, expires_at } = made.json<{ reset_token: string; expires_at: string }>();
    t.ok(Math.abs(Date.parse(expires_at) - Date.now() - 1_800_000) < 60_000);
    t.equal((await redeem(target, reset_token)).statusCode, 200);
    t.equal((await attempt(target, account.username, 'an analytical engine')).statusCode, 200);
    refused(t, await redeem(target, reset_token, 'another long engine'), 401, 'invalid_reset_token');
    t.notMatch(target.log() + JSON.stringify(target.audit()), reset_token);
  });

  await t.test('a later reset token replaces an earlier one', async (t) => {
    const { id } = await create();
    const reset = async () =>
      (await ask(`POST /api/users/${id}/password-reset`)).json<{ reset_token: string }>().reset_token;
    const [first, second] = [await reset(), await reset()];
    refused(t, await redeem(target, first), 401, 'invalid_reset_token');
    t.equal((await redeem(target, second)).statusCode, 200);
  });

  await t.test('creates an account that is disabled, verified, or has a language', async (t) => {
    const account = anAccount();
    const given = { disabled: true, email_verified: true, locale: 'pt-br' };
    const created = (await ask('POST /api/users', { ...account, ...given })).json<Account>();
    t.match(created, { ...given, locale: 'pt-BR' });
    t.strictSame((await ask(`GET /api/users/${created.id}`)).json(), created);
    refused(t, await attempt(target, account.username), 401, 'invalid_credentials');
    t.match((await ask(`PATCH /api/users/${created.id}`, { disabled: false })).json(), { disabled: false });
    t.equal((await attempt(target, account.username)).statusCode, 200);
    for (const [field, value] of Object.entries({ disabled: 'true', email_verified: 1, locale: null }))
      refused(t, await ask('POST /api/users', { ...anAccount(), [field]: value }), 400, 'validation_failed', [
        `/${field}`,
      ]);
  });

  await t.test('keeps the language of an account, which null removes', async (t) => {
    const account = anAccount();
    const { id } = await create(account);
    const patch = (locale: unknown) => ask(`PATCH /api/users/${id}`, { locale });
    const { access_token: token } = await logIn(target, account.username);
    for (const [given, locale] of [
      ['de', 'de'],
      ['ZH-hant-tw', 'zh-Hant-TW'],
      ['x'.repeat(36), null],
      ['en_US', null],
      ['*', null],
      ['', null],
      [5, null],
      [['de'], null],
    ] as const) {
      const response = await patch(given);
      if (locale === null) refused(t, response, 400, 'validation_failed', ['/locale']);
      else t.match(response.json(), { locale });
      if (locale !== null) t.match((await call(target, 'GET /api/user', { token })).json(), { locale });
    }
    t.match((await ask(`GET /api/users?id=${id}`)).json(), { users: [{ locale: 'zh-Hant-TW' }] });
    const events = () => target.audit().filter(({ event }) => event === 'user.changed_by_client');
    t.match(events().at(-1), { details: { fields: 'locale' } });
    const before = events().length;
    t.match((await patch('zh-Hant-TW')).json(), { locale: 'zh-Hant-TW' });
    t.equal(events().length, before, 'a repeat changes nothing');
    t.match((await patch(null)).json(), { locale: null });
    t.match((await call(target, 'GET /api/user', { token })).json(), { locale: null });
  });

  await t.test('refuses what a signup refuses, and says which field', async (t) => {
    const known = anAccount();
    await create(known);
    const post = (fields: object) => ask('POST /api/users', { ...anAccount(), ...fields });
    const bad = { username: 'two words', email: 'none', name: ' ', password: 'short', roles: ['Admin'] };
    const paths = Object.keys(bad).map((name) => `/${name}`);
    refused(t, await post(bad), 400, 'validation_failed', paths);
    refused(t, await post({ password: 'password1' }), 400, 'password_refused', ['/password']);
    refused(t, await post({ username: known.username.replace('u', 'υ') }), 400, 'validation_failed');
    refused(t, await post({ email: known.email }), 400, 'email_taken');
  });

  await t.test('looks an account up by username, e-mail address or id', async (t) => {
    const account = anAccount();
    const created = await create(account);
    for (const query of [
      `username=${account.username.toUpperCase()}`,
      `email=${encodeURIComponent(account.email)}`,
      `id=${created.id}`,
    ]) {
      const response = await ask(`GET /api/users?${query}`);
      t.strictSame(response.json(), { users: [created], next: null }, query);
      t.notMatch(response.body, account.email);
    }
    t.strictSame((await ask(`GET /api/users/${created.id}`)).json(), created);
    for (const query of [
      'username=no-such-name',
      'email=x%40example.com',
      'id=999999',
      'username=a%40b',
      'email=ada',
    ])
      t.strictSame((await ask(`GET /api/users?${query}`)).json(), { users: [], next: null }, query);
    t.notMatch(target.log(), account.email, 'the log holds no e-mail address');
    const wrong =
      'username=a&id=7 username=a&email=b%40c id=7&limit=1 id=7&after=0 id=7&role=a id=7&disabled=true role=A role= disabled=yes limit=0 limit=101 limit=x after=-1 ' +
      'after=x id=0 name=a username=a&username=b';
    for (const query of wrong.split(' '))
      refused(t, await ask(`GET /api/users?${query}`), 400, 'validation_failed');
    refused(t, await ask('GET /api/users?id=9007199254740993'), 400, 'validation_failed');
  });

  await t.test('pages through all accounts in the order of ids', async (t) => {
    for (let i = 0; i < 5; i++) await create();
    const all = (await ask('GET /api/users')).json<Page>();
    t.equal(all.next, null);
    const found: Account[] = [];
    for (let after: number | null = 0, pages = 0; after !== null; pages++) {
      const response = await ask(`GET /api/users?limit=2&after=${after}`);
      const page: Page = response.json();
      t.ok(page.users.length <= 2 && pages < 50);
      found.push(...page.users);
      after = page.next;
    }
    t.strictSame(found, all.users);
    t.strictSame(
      found.map(({ id }) => id),
      [...new Set(found.map(({ id }) => id))].sort((a, b) => a - b),
    );
  });

  await t.test('pages through those with a role, and those that are disabled', async (t) => {
    const role = `role-${anAccount().username}`;
    const accounts = [];
    for (let i = 0; i < 4; i++) accounts.push(await create({ ...anAccount(), roles: ['other', role] }));
    const [first, second, third, fourth] = accounts.map(({ id }) => id);
    await ask(`PATCH /api/users/${second}`, { disabled: true });
    const idsOf = async (query: string) => {
      const { users, next } = (await ask(`GET /api/users?${query}`)).json<Page>();
      return [users.map(({ id }) => id), next];
    };
    t.strictSame(await idsOf(`role=${role}&limit=3`), [[first, second, third], third]);
    t.strictSame(await idsOf(`role=${role}&after=${third}`), [[fourth], null]);
    t.strictSame(await idsOf(`role=${role}&disabled=true`), [[second], null]);
    t.strictSame(await idsOf(`role=${role}&disabled=false`), [[first, third, fourth], null]);
    t.strictSame(await idsOf(`disabled=true&after=${first}&limit=1`), [[second], null]);
    t.strictSame(await idsOf(`role=${role}-of-nobody`), [[], null]);
  });

  await t.test('changes names, and every answer has them at once', async (t) => {
    const account = anAccount();
    const created = await create(account);
    const pair = await logIn(target, account.username);
    await verify(target, pair.access_token);
    const next = anAccount();
    const body = { username: next.username, name: 'Countess', email: next.email };
    const response = await ask(`PATCH /api/users/${created.id}`, body);
    t.equal(response.statusCode, 200, response.body);
    t.strictSame(response.json(), { ...created, username: next.username, name: 'Countess' });
    t.equal((await verify(target, pair.access_token)).headers['x-auth-username'], next.username);
    for (const name of [next.username, next.email]) t.equal((await attempt(target, name)).statusCode, 200);
    for (const name of [account.username, account.email])
      refused(t, await attempt(target, name), 401, 'invalid_credentials');
    const events = () => target.audit().filter(({ event }) => event === 'user.changed_by_client');
    const before = events().length;
    t.strictSame((await ask(`PATCH /api/users/${created.id}`, body)).json(), response.json());
    t.equal(events().length, before, 'a repeat changes nothing');
  });

  await t.test('refuses names that are taken or against the rules', async (t) => {
    const [one, other] = [anAccount(), anAccount()];
    const { id } = await create(one);
    await create(other);
    const patch = (body: object) => ask(`PATCH /api/users/${id}`, body);
    refused(t, await patch({ username: other.username }), 400, 'username_taken');
    refused(t, await patch({ email: other.email }), 400, 'email_taken');
    refused(t, await patch({ username: 'admin' }), 400, 'validation_failed', ['/username']);
    refused(t, await patch({ roles: ['A'] }), 400, 'validation_failed', ['/roles']);
    refused(t, await patch({}), 400, 'validation_failed');
    t.equal((await patch({ username: one.username, email: one.email })).statusCode, 200, 'its own names');
  });

  await t.test('keeps the id of another system, which no two accounts share', async (t) => {
    const external_id = `crm:${anAccount().username}`;
    const { id } = await create({ ...anAccount(), external_id });
    const other = await create();
    const shown = async (path: string) => (await ask(`GET /api/users${path}`)).json<object>();
    t.match(await shown(`/${id}`), { id, external_id });
    t.match(await shown(`?external_id=${encodeURIComponent(external_id)}`), { users: [{ id, external_id }] });
    for (const unknown of [external_id.toUpperCase(), 'none', '', 'a%20b', 'x'.repeat(129)])
      t.strictSame(await shown(`?external_id=${unknown}`), { users: [], next: null }, unknown);
    refused(t, await ask(`GET /api/users?id=${id}&external_id=x`), 400, 'validation_failed', ['query']);

    const known = anAccount();
    await create(known);
    const taken = { ...known, external_id };
    refused(t, await ask('POST /api/users', taken), 400, 'username_taken', [
      '/username',
      '/email',
      '/external_id',
    ]);
    const patch = (body: object) => ask(`PATCH /api/users/${other.id}`, body);
    refused(t, await patch({ external_id }), 400, 'external_id_taken', ['/external_id']);
    for (const wrong of ['', 'x'.repeat(129), 'a b', 'é', 5])
      refused(t, await patch({ external_id: wrong }), 400, 'validation_failed', ['/external_id']);
    const post = { ...anAccount(), external_id: 'a b' };
    refused(t, await ask('POST /api/users', post), 400, 'validation_failed', ['/external_id']);

    t.match((await patch({ external_id: 'X'.repeat(128) })).json(), { external_id: 'X'.repeat(128) });
    t.equal((await ask(`PATCH /api/users/${id}`, { external_id })).statusCode, 200, 'its own');
    t.match((await ask(`PATCH /api/users/${id}`, { external_id: null })).json(), { external_id: null });
    t.match((await patch({ external_id })).json(), { external_id }, 'it is free again');
    const { access_token: token } = await logIn(target, known.email);
    t.notMatch((await call(target, 'GET /api/user', { token })).body, 'external_id', 'not for the owner');
  });

  await t.test('of two services that give one external id at once, one is refused', async (t) => {
    for (const line of ['POST /api/users', 'PATCH'] as const) {
      const external_id = `race-${anAccount().username}`;
      const give = async () =>
        line === 'PATCH'
          ? ask(`PATCH /api/users/${(await create()).id}`, { external_id })
          : ask(line, { ...anAccount(), external_id });
      const answers = await Promise.all(Array.from({ length: 5 }, give));
      t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 1, line);
      for (const answer of answers)
        if (answer.statusCode !== 200) refused(t, answer, 400, 'external_id_taken', ['/external_id']);
    }
  });

  await t.test('each change gets a new version, which orders the copies in Redis', async (t) => {
    const { id } = await create();
    const versionAfter = async (body: object) => {
      await ask(`PATCH /api/users/${id}`, body);
      const [row] = await sql<{ version: number }>(databaseUrl, 'SELECT version FROM users WHERE id = $1', [
        id,
      ]);
      return row?.version;
    };
    const { username } = anAccount();
    t.equal(await versionAfter({ name: 'B' }), 1);
    t.equal(await versionAfter({ username }), 2);
    t.equal(await versionAfter({ roles: ['editor'] }), 3);
    t.equal(await versionAfter({ disabled: true }), 4);
    t.equal(await versionAfter({ locale: 'de' }), 5);
    t.equal(await versionAfter({ disabled: true, locale: 'de' }), 5, 'a repeat');
    t.equal(await versionAfter({ email: anAccount().email, email_verified: true }), 6);
    t.equal(await versionAfter({ external_id: username }), 7);
  });

  await onEachLasting(
    t,
    'disabling ends every token at once, and enabling lets the user log in again',
    async (t, lasting) => {
      const { createLongLived, verify } = lasting;
      const account = anAccount();
      const { id } = await create(account);
      const pair = await logIn(target, account.username);
      const { longlived_token: llt } = await createLongLived(target, pair.access_token);
      const { reset_token } = (await ask(`POST /api/users/${id}/password-reset`)).json<{
        reset_token: string;
      }>();
      const tokens = [pair.access_token, llt];
      for (const token of tokens)
        t.match((await introspect(target, ask.client, token)).json(), { active: true });
      t.match((await ask(`PATCH /api/users/${id}`, { disabled: true })).json(), { disabled: true });
      for (const token of tokens) {
        t.equal((await verify(target, token)).statusCode, 401);
        t.strictSame((await introspect(target, ask.client, token)).json(), { active: false });
      }
      t.equal((await refresh(target, pair.refresh_token)).statusCode, 401);
      refused(t, await attempt(target, account.username), 401, 'invalid_credentials');
      refused(t, await redeem(target, reset_token), 401, 'invalid_reset_token');
      t.match(
        target.audit().findLast(({ event }) => event === 'user.changed_by_client'),
        { details: { disabled: true, fields: 'disabled', token_ids: [Number, Number] } },
      );
      t.match((await ask(`GET /api/users/${id}`)).json(), { disabled: true });
      t.match((await ask(`PATCH /api/users/${id}`, { disabled: false })).json(), { disabled: false });
      t.equal((await verify(target, pair.access_token)).statusCode, 401, 'ended tokens stay ended');
      const again = await logIn(target, account.username);
      t.equal((await verify(target, again.access_token)).statusCode, 200);
      const reasons = await sql(databaseUrl, 'SELECT DISTINCT end_reason FROM tokens WHERE user_id = $1', [
        id,
      ]);
      t.strictSame(
        reasons.filter(({ end_reason: reason }) => reason !== null),
        [{ end_reason: 'admin' }],
      );
    },
  );

  await onEachLasting(t, 'lists and ends the tokens of an account', async (t, { kind, ...lasting }) => {
    const { createLongLived, verify } = lasting;
    const account = anAccount();
    const { id } = await create(account);
    const pair = await logIn(target, account.username);
    const llt = await createLongLived(target, pair.access_token);
    const list = async () =>
      (await ask(`GET /api/users/${id}/tokens`)).json<{ tokens: { id: number; type: string }[] }>().tokens;
    t.match(await list(), [
      { type: 'refresh', current: false },
      { type: kind, id: llt.id, name: 'Kitchen tablet', current: false },
    ]);
    t.strictSame((await ask(`DELETE /api/users/${id}/tokens`)).json(), {
      msg: 'logged out everywhere',
      ended: 2,
    });
    for (const token of [pair.access_token, llt.longlived_token])
      t.equal((await verify(target, token)).statusCode, 401);
    t.strictSame(await list(), []);
    t.match((await ask(`DELETE /api/users/${id}/tokens`)).json(), { ended: 0 }, 'a repeat is safe');
    t.equal((await attempt(target, account.username)).statusCode, 200, 'the user may log in again');
    refused(t, await ask(`DELETE /api/users/${id}/tokens`, { all: true }), 400, 'validation_failed');
  });

  await t.test('an id is a decimal from 1 to 2^53 - 1', async (t) => {
    for (const id of ['0', '01', 'x', '1e3', '9007199254740993', '-1'])
      refused(t, await ask(`GET /api/users/${id}`), 400, 'validation_failed');
  });

  await t.test('each operation needs its right; the refusal changes nothing', async (t) => {
    const account = anAccount();
    const { id } = await create(account);
    for (const [right, lines] of Object.entries(ACCOUNT_RIGHTS(id))) {
      const others = RIGHTS.filter((each) => each !== right);
      const without = managerOf(target, await aRegisteredService(databaseUrl, `all but ${right}`, others));
      for (const [line, body] of lines) {
        const response = await without(line, body);
        refused(t, response, 403, 'right_missing');
        t.ok(response.json<{ detail: string }>().detail.includes(` ${right}.`), line);
        refused(t, await call(target, line, body ? { payload: body } : {}), 401, 'invalid_client');
      }
    }
    t.match((await ask(`GET /api/users/${id}`)).json(), { name: account.name, disabled: false });
  });

  await t.test('a refusal to change an address answers no guess', async (t) => {
    const [account, other] = [anAccount(), anAccount()];
    const { id } = await create(account);
    await create(other);
    const rights = ['users.read', 'users.write'] as const;
    const writer = managerOf(target, await aRegisteredService(databaseUrl, 'writer', rights));
    const addresses = [account.email, account.email.toUpperCase(), other.email, 'new@example.com'];
    const bodies: object[] = [{ email_verified: true }, { email: 'new@example.com', username: 'admin' }];
    for (const email of addresses) bodies.push({ email }, { email, email_verified: true });
    const lines = [`PATCH /api/users/${id}`, 'PATCH /api/users/999999'];
    const asking = lines.flatMap((line) => bodies.map((body) => writer(line, body)));
    const answers = new Set<string>();
    for (const response of await Promise.all(asking)) {
      refused(t, response, 403, 'right_missing');
      answers.add(response.body.replace(/"request_id":"[^"]*"/, ''));
    }
    t.equal(answers.size, 1);
    for (const line of lines)
      refused(t, await writer(line, { email: null }), 400, 'validation_failed', ['/email']);
    t.equal((await writer(`PATCH /api/users/${id}`, { name: 'B', email_verified: false })).statusCode, 200);
    t.equal((await writer('POST /api/users', anAccount())).statusCode, 200, 'a new account');

    await withRegistry(databaseUrl, (registry) => registry.allow('writer', [...rights, 'users.reset']));
    const { statusCode } = await writer(`PATCH /api/users/${id}`, { email: 'new@example.com' });
    t.equal(statusCode, 200, 'at once');
  });
});
