import { buildTestApp, type TestApp } from '../../support/app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLimited,
  createLongLived,
  headerOf,
  signUp,
  verifyInScope,
} from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, basic } from '../../support/registered-service.ts';
import { countRows, sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';

const ROUTE = 'POST /api/user/tokens';
const DAY = 86_400;

const create = (target: TestApp, token: string | undefined, body: object = {}) => {
  const payload = { name: 'Orders report', scopes: ['orders:read'], ...body };
  return call(target, ROUTE, { token, payload });
};

onAStore('limited tokens', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { databaseUrl } = target;
  await aRegisteredService(databaseUrl, 'orders', [], 'orders');
  const owner = await signUp(target);
  const { access_token: token } = owner;

  await t.test(
    'are created with scopes, an expiry and an audience of their own, and shown this once',
    async (t) => {
      const scopes = ['orders:read', 'billing'];
      const response = await create(target, token, {
        name: ' Orders\u202e report ',
        scopes,
        expires_in: 3600,
      });
      t.equal(response.statusCode, 200, response.body);
      const body = response.json<{ id: number; token: string; expires_at: string }>();
      t.strictSame(Object.keys(body).sort(), ['expires_at', 'id', 'token']);
      t.equal(response.headers['cache-control'], 'no-store');
      t.strictSame(headerOf(body.token), { alg: 'ES256', typ: 'limited+jwt', kid: headerOf(token).kid });
      const { iat, ...claims } = claimsOf(body.token);
      const exp = Number(iat) + 3600;
      t.strictSame(claims, {
        iss: 'http://localhost:3000',
        aud: 'latchkey#limited',
        sub: String(owner.user.id),
        sid: body.id,
        jti: String(body.id),
        exp,
        scope: 'orders:read billing',
      });
      t.equal(body.expires_at, new Date(exp * 1000).toISOString());
      t.notMatch(JSON.stringify(target.audit()), body.token);
      const rows = await sql(databaseUrl, 'SELECT name FROM tokens WHERE id = $1', [body.id]);
      t.strictSame(rows, [{ name: 'Orders report' }], 'without invisible characters');
      const forOrders = await createLimited(target, token, scopes, { audience: 'orders' });
      t.match(claimsOf(forOrders.token), { aud: 'orders#limited' });
    },
  );

  await t.test('are good for 90 days, for AUDIENCE, if nothing else is asked for', async (t) => {
    for (const audience of [undefined, 'latchkey']) {
      const { token: limited } = await createLimited(target, token, ['a'], { audience });
      const { iat, exp, aud } = claimsOf(limited);
      t.strictSame([Number(exp) - Number(iat), aud], [90 * DAY, 'latchkey#limited']);
    }
  });

  await t.test('are in the lists of their owner and of services, with their last use', async (t) => {
    const user = await signUp(target);
    const { id, token: limited, expires_at } = await createLimited(target, user.access_token, ['b', 'a']);
    const desk = await aRegisteredService(databaseUrl, 'desk', ['users.read']);
    const by = basic(desk);
    const lists = async () => {
      const answers = await Promise.all([
        call(target, 'GET /api/user', { token: user.access_token }),
        call(target, 'GET /api/user/tokens', { token: user.access_token }),
        call(target, `GET /api/users/${user.user.id}/tokens`, { headers: by }),
      ]);
      for (const { body } of answers) t.notMatch(body, limited);
      return answers.map((answer) =>
        answer.json<{ tokens: { id: number }[] }>().tokens.find((each) => each.id === id),
      );
    };
    const expected = {
      type: 'limited',
      name: 'Kitchen tablet',
      scopes: ['b', 'a'],
      audience: 'latchkey',
      expires_at,
      created_by: claimsOf(user.access_token).sid,
      last_used_at: null,
      current: false,
    };
    for (const listed of await lists()) t.match(listed, expected);
    await verifyInScope(target, limited, 'a');
    for (const listed of await lists()) t.match(listed, { ...expected, last_used_at: String });

    const other = await createLongLived(target, user.access_token);
    await call(target, `DELETE /api/auth/${id}`, { token: user.access_token });
    const { tokens, ended } = (await call(target, 'GET /api/user/tokens', { token: user.access_token })).json<
      Record<'tokens' | 'ended', object[]>
    >();
    t.match(tokens, [
      { type: 'refresh', scopes: null, audience: null },
      { id: other.id, type: 'llt', scopes: null, audience: null },
    ]);
    t.match(ended, [{ id, type: 'limited', scopes: ['b', 'a'], audience: 'latchkey', reason: 'logout' }]);
  });

  await t.test('need a name, scopes, a lifetime and an audience that are within the bounds', async (t) => {
    const before = await countRows(databaseUrl);
    for (const [path, body] of [
      ['/name', { name: ' ' }],
      ['/scopes', { scopes: ['a', 'a'] }],
      ['/expires_in', { expires_in: 59 }],
    ] as const)
      refused(t, await create(target, token, body), 400, 'validation_failed', [path]);
    refused(t, await create(target, token, { audience: 'stock' }), 400, 'invalid_target');
    t.strictSame(await countRows(databaseUrl), before);
  });

  await t.test('have a beginning that is the same for all keys of an algorithm', async (t) => {
    const beginning = Buffer.from('{"alg":"ES256","typ":"limited+jwt","kid":"').toString('base64url');
    t.equal(beginning.length, 56);
    t.ok((await createLimited(target, token)).token.startsWith(beginning));
  });
});

onAStore('settings of limited tokens', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const account = anAccount();
  const { access_token: token } = await signUp(target, account);
  const { token: limited } = await createLimited(target, token);
  const { longlived_token: llt } = await createLongLived(target, token);
  const withSettings = (settings: Record<string, string>) =>
    buildTestApp(t, {
      env: { ...env, ...settings },
      override: (options) => ({ ...options, keyRing: target.composition.app.keyRing }),
      databaseUrl: target.databaseUrl,
    });

  await t.test('LIMITED_TOKENS_ENABLED, which follows LLT_ENABLED', async (t) => {
    for (const [settings, status] of [
      [{ LIMITED_TOKENS_ENABLED: 'false' }, 403],
      [{ LLT_ENABLED: 'false' }, 403],
      [{ LLT_ENABLED: 'false', LIMITED_TOKENS_ENABLED: 'true' }, 200],
    ] as const) {
      const off = await withSettings(settings);
      if (status === 200) t.equal((await create(off, token)).statusCode, 200);
      else {
        refused(t, await create(off, token), 403, 'llt_disabled');
        refused(t, await create(off, token, { scopes: [] }), 403, 'llt_disabled');
        refused(t, await create(off, llt), 403, 'token_not_allowed');
      }
      t.equal((await verifyInScope(off, limited)).statusCode, 200, 'existing ones stay good');
    }
  });

  await t.test('LIMITED_TOKEN_MAX_AGE and LLT_MAX_AGE, of which the lesser counts', async (t) => {
    for (const settings of [{ LIMITED_TOKEN_MAX_AGE: '120', LLT_MAX_AGE: '3600' }, { LLT_MAX_AGE: '120' }]) {
      const short = await withSettings(settings);
      const { iat, exp } = claimsOf((await createLimited(short, token)).token);
      t.equal(Number(exp) - Number(iat), 120);
      const longer = await create(short, token, { expires_in: 121 });
      refused(t, longer, 400, 'validation_failed', ['/expires_in']);
    }
  });

  await t.test('RATE_LIMIT_LLT counts both kinds', async (t) => {
    const rare = await withSettings({ RATE_LIMIT_LLT: '2/3600' });
    const { access_token: other } = await signUp(rare);
    await createLongLived(rare, other);
    await createLimited(rare, other);
    refused(t, await create(rare, other), 429, 'rate_limited');
  });
});
