import { buildTestApp } from '../../support/app.ts';
import { call, claimsOf, createLongLived, headerOf, logIn, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
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
    const response = await call(target, ROUTE, {
      token,
      payload: { device: ' Kit\u0000chen\u202e tablet ' },
    });
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
});
