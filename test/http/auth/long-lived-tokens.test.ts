import { buildTestApp } from '../../support/app.ts';
import {
  call,
  claimsOf,
  createLongLived,
  headerOf,
  logIn,
  refresh,
  signUp,
  verify,
} from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { disableUser } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'POST /api/auth/llt';
const DELETE = 'DELETE /api/auth/llt';

onAStore('long-lived tokens', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const owner = await signUp(target);
  const { access_token: token } = owner;
  const session = Number(claimsOf(token).sid);
  const create = () => createLongLived(target, token);

  await t.test('are created for a device and shown this once', async (t) => {
    const response = await call(target, ROUTE, { token, payload: { device: ' Kitchen tablet ' } });
    t.equal(response.statusCode, 200);
    const body = response.json<{ id: number; longlived_token: string }>();
    t.strictSame(Object.keys(body).sort(), ['id', 'longlived_token']);
    t.equal(response.headers['cache-control'], 'no-store');
    t.match(headerOf(body.longlived_token), { alg: 'ES256', typ: 'llt+jwt', kid: headerOf(token).kid });
    const { iat, ...claims } = claimsOf(body.longlived_token);
    t.type(iat, 'number');
    const sub = String(owner.user.id);
    t.strictSame(
      claims,
      { iss: 'http://localhost:3000', aud: 'latchkey', sub, sid: body.id, jti: String(body.id) },
      'no generation, no expiry, no personal data',
    );
    t.equal((await verify(target, body.longlived_token)).statusCode, 200);
    const profile = await call(target, 'GET /api/user', { token });
    t.notMatch(profile.body, body.longlived_token);
    t.match(profile.json(), { tokens: [{ id: session }, { id: body.id, name: 'Kitchen tablet' }] });
  });

  await t.test('are not created for a user disabled after login', async (t) => {
    const gone = await signUp(target);
    await disableUser(target.databaseUrl, gone.user.username);
    const response = await call(target, ROUTE, { token: gone.access_token, payload: { device: 'x' } });
    refused(t, response, 401, 'invalid_token');
  });

  await t.test('lose invisible characters in the name of their device', async (t) => {
    const headers = { 'user-agent': 'curl/8.5.0' };
    for (const device of ['Kit\u0000chen\u202e', '\u200b'])
      t.equal((await call(target, ROUTE, { token, payload: { device }, headers })).statusCode, 200);
    const { tokens } = (await call(target, 'GET /api/user', { token })).json<{
      tokens: { name: string }[];
    }>();
    const names = tokens.map(({ name }) => name);
    t.ok(names.includes('Kitchen') && names.includes('curl/8.5.0'), names.join());
  });

  await t.test('need a device whose name is within the bounds', async (t) => {
    for (const device of ['', ' ', 'x'.repeat(129), '\ud800']) {
      const response = await call(target, ROUTE, { token, payload: { device } });
      refused(t, response, 400, 'validation_failed', ['/device']);
    }
    refused(t, await call(target, ROUTE, { token }), 400, 'malformed_json');
  });

  await t.test('may not create or revoke other tokens, nor the session that created them', async (t) => {
    const { longlived_token: llt } = await create();
    const other = await create();
    const body = { payload: { device: 'x' } };
    refused(t, await call(target, ROUTE, { token: llt, ...body }), 403, 'token_not_allowed');
    for (const id of [other.id, session, 999_999]) {
      refused(t, await call(target, `${DELETE}/${id}`, { token: llt }), 403, 'token_not_allowed');
    }
    refused(t, await refresh(target, llt), 401, 'invalid_token');
    t.equal((await verify(target, other.longlived_token)).statusCode, 200);
    t.equal(
      (await call(target, 'GET /api/user', { token: llt })).statusCode,
      200,
      'other routes accept them',
    );
  });

  await t.test('are deleted by id, and a repeat gets the same answer', async (t) => {
    const { id, longlived_token: llt } = await create();
    const headers = { 'content-type': 'application/json' };
    for (const options of [{}, { headers }, { headers, payload: '{}' }]) {
      const response = await call(target, `${DELETE}/${id}`, { token, ...options });
      t.equal(response.statusCode, 200, response.body);
      t.strictSame(Object.keys(response.json()), ['msg']);
      refused(t, await verify(target, llt), 401, 'invalid_token');
    }
  });

  await t.test('may delete themselves, and a repeat gets the same answer', async (t) => {
    const { id, longlived_token: llt } = await create();
    for (let i = 0; i < 2; i++) {
      t.equal((await call(target, `${DELETE}/${id}`, { token: llt })).statusCode, 200);
      refused(t, await verify(target, llt), 401, 'invalid_token');
    }
  });

  await t.test('are not found by the id of a session, of another user’s token, or of none', async (t) => {
    const stranger = await signUp(target);
    const theirs = await createLongLived(target, stranger.access_token);
    const second = await logIn(target, owner.user.username);
    const ids = [session, Number(claimsOf(second.access_token).sid), theirs.id, Number.MAX_SAFE_INTEGER];
    for (const id of ids) {
      refused(t, await call(target, `${DELETE}/${id}`, { token }), 401, 'token_unknown');
    }
    for (const good of [token, second.access_token, theirs.longlived_token]) {
      t.equal((await verify(target, good)).statusCode, 200);
    }
  });

  await t.test('are not deleted by a malformed request', async (t) => {
    const { id, longlived_token: llt } = await create();
    for (const text of [
      '0',
      '-1',
      '1.0',
      '0x10',
      '1e1',
      'x',
      '%20',
      '',
      '9007199254740992',
      '1'.repeat(300),
    ]) {
      refused(t, await call(target, `${DELETE}/${text}`, { token }), 400, 'validation_failed');
    }
    for (const query of ['id=1', 'force=1', `id=${id}`]) {
      refused(t, await call(target, `${DELETE}/${id}?${query}`, { token }), 400, 'validation_failed');
    }
    const headers = { 'content-type': 'application/json' };
    const withBody = await call(target, `${DELETE}/${id}`, { token, headers, payload: '{"id":1}' });
    refused(t, withBody, 400, 'validation_failed');
    t.equal((await verify(target, llt)).statusCode, 200);
  });

  await t.test('outlive the session that created them', async (t) => {
    const pair = await logIn(target, owner.user.username);
    const { longlived_token: llt } = await createLongLived(target, pair.access_token);
    await call(target, 'DELETE /api/auth', { token: pair.access_token });
    t.equal((await verify(target, llt)).statusCode, 200);
  });
});

onAStore('the number of long-lived tokens', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, MAX_LLT_PER_USER: '3' } });
  const make = (token: string) => call(target, ROUTE, { token, payload: { device: 'x' } });

  await t.test('is bounded, and deleting one makes room', async (t) => {
    const { access_token: token } = await signUp(target);
    const { id } = await createLongLived(target, token);
    for (let i = 0; i < 2; i++) t.equal((await make(token)).statusCode, 200);
    refused(t, await make(token), 400, 'too_many_tokens');
    await call(target, `${DELETE}/${id}`, { token });
    t.equal((await make(token)).statusCode, 200);
    refused(t, await make(token), 400, 'too_many_tokens');
    t.equal((await make((await signUp(target)).access_token)).statusCode, 200, 'for each user');
  });

  await t.test('is bounded when they race', async (t) => {
    const { access_token: token } = await signUp(target);
    const answers = await Promise.all(Array.from({ length: 10 }, () => make(token)));
    t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 3);
    for (const answer of answers) if (answer.statusCode !== 200) refused(t, answer, 400, 'too_many_tokens');
  });
});
