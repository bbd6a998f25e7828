import { anAccount, call, claimsOf, pairOf, signUp, verify, type Target } from '../../support/client.ts';
import { buildTestApp } from '../../support/app.ts';
import { refused } from '../../support/problem.ts';
import { countRows, sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'POST /api/auth/signup';

onAStore('signup', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const attempt = (payload: unknown, headers = {}) => call(target, ROUTE, { payload, headers });

  await t.test('opens an account and its first session', async (t) => {
    const account = anAccount({ name: '  Ada Lovelace ' });
    const response = await attempt({ ...account, device: 'Tablet\u202e\u200b ' });
    const pair = pairOf(response);
    t.strictSame(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user']);
    t.strictSame(Object.keys(pair.user).sort(), ['created_at', 'id', 'name', 'roles', 'username']);
    t.match(pair.user, { username: account.username, name: 'Ada Lovelace' });
    t.ok(Number.isSafeInteger(pair.user.id) && pair.user.id > 0);
    t.match(pair.user.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
    t.equal(response.headers['cache-control'], 'no-store');
    t.match(response.headers['content-type'], /^application\/json/);
    t.equal((await verify(target, pair.access_token)).statusCode, 200);
    const profile = await call(target, 'GET /api/user', { token: pair.access_token });
    t.match(profile.json(), { tokens: [{ name: 'Tablet' }] }, 'without invisible characters');
  });

  await t.test('keeps the language that the client prefers, and shows it to its user alone', async (t) => {
    for (const [header, locale] of [
      ['pt-br,en;q=0.5', 'pt-BR'],
      ['*', null],
      ['en_US', null],
      ['de, '.repeat(2048), 'de'],
      ['x'.repeat(8192), null],
      [undefined, null],
    ] as const) {
      const response = await attempt(anAccount(), header === undefined ? {} : { 'accept-language': header });
      const { access_token: token, user } = pairOf(response);
      t.notOk('locale' in user);
      t.notOk('locale' in claimsOf(token));
      t.match((await call(target, 'GET /api/user', { token })).json(), { locale }, String(header).slice(0, 40));
    }
  });

  await t.test('stores neither the password nor a token', async (t) => {
    const account = anAccount({ password: 'to be found nowhere' });
    const pair = await signUp(target, account);
    const [row] = await sql<{ text: string }>(
      target.databaseUrl,
      `SELECT concat(to_jsonb(u), encode(password_hash, 'escape'), to_jsonb(s)) AS text
       FROM users u JOIN tokens s ON s.user_id = u.id WHERE u.id = ${pair.user.id}`,
    );
    t.ok(row?.text.includes(account.email), 'the row was read');
    const signatures = [pair.access_token, pair.refresh_token].map((token) => token.split('.')[2] ?? token);
    for (const secret of [account.password, ...signatures])
      t.notOk(row?.text.includes(secret), 'a secret is in the record');
  });

  await t.test('names all that is taken, also to those that lost a race', async (t) => {
    const first = anAccount();
    await signUp(target, first);
    refused(t, await attempt(first), 400, 'username_taken', ['/username', '/email']);
    const both = anAccount();
    const answers = await Promise.all(Array.from({ length: 20 }, () => attempt(both)));
    t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 1);
    for (const answer of answers)
      if (answer.statusCode !== 200) refused(t, answer, 400, 'username_taken', ['/username', '/email']);
    const { username, email } = anAccount();
    await Promise.all([attempt(anAccount({ username })), attempt(anAccount({ email }))]);
    refused(t, await attempt(anAccount({ username, email })), 400, 'username_taken', ['/username', '/email']);
  });

  await t.test('refuses common passwords and the owner’s own name or address', async (t) => {
    const account = anAccount({ name: 'Ada Augusta Lovelace' });
    const guesses = ['password1', 'PASSWORD1', '123456789', account.username, account.username.toUpperCase()];
    for (const password of [...guesses, account.name, ` ${account.name.toLowerCase()} `, account.email]) {
      const response = await attempt({ ...account, password });
      refused(t, response, 400, 'password_refused', ['/password']);
      t.notMatch(response.body, password);
    }
  });

  await t.test('has no composition rules', async (t) => {
    for (const password of ['correct horse battery staple', 'Überfluß', 'a b c d e f', '🐎🐢🐇🦊🐝🐙🦔🐌']) {
      t.equal((await attempt(anAccount({ password }))).statusCode, 200);
    }
  });
});

onAStore('signup with other settings', async (t, env) => {
  await t.test('is refused if it is turned off', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, SIGNUP_ENABLED: 'false' } });
    refused(t, await call(target, ROUTE, { payload: anAccount() }), 403, 'signup_disabled');
    t.strictSame(await countRows(target.databaseUrl), { users: 0, tokens: 0 });
  });

  await t.test('refuses the names in RESERVED_USERNAMES', async (t) => {
    const reserving = (names: object) => buildTestApp(t, { env: { ...env, ...names } });
    const attempt = async (target: Target, username: string) =>
      call(target, ROUTE, { payload: anAccount({ username }) });
    const byDefault = await reserving({});
    for (const username of ['admin', 'ROOT', 'ｓupport', 'adm\u0131n'])
      refused(t, await attempt(byDefault, username), 400, 'validation_failed', ['/username']);
    const own = await reserving({ RESERVED_USERNAMES: 'Postmaster, Владелец' });
    for (const username of ['postmaster', 'владелец'])
      refused(t, await attempt(own, username), 400, 'validation_failed', ['/username']);
    for (const target of [own, await reserving({ RESERVED_USERNAMES: 'none' })])
      t.equal((await attempt(target, 'admin')).statusCode, 200);
  });

  await t.test('follows PASSWORD_MIN_LENGTH', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, PASSWORD_MIN_LENGTH: '12' } });
    const short = await call(target, ROUTE, { payload: anAccount({ password: 'eleven char' }) });
    refused(t, short, 400, 'validation_failed', ['/password']);
    const { access_token: token } = await signUp(target, anAccount({ password: 'twelve chars' }));
    t.equal(claimsOf(token).aud, 'latchkey');
  });
});
