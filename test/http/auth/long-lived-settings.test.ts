import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, claimsOf, createLongLived, logIn, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, introspect } from '../../support/registered-service.ts';
import { countRows, sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { aStoredSession } from '../../support/tokens.ts';

const ROUTE = 'POST /api/auth/llt';
const HOUR = 3_600_000;

interface Listed {
  tokens: { id: number; type: string; expires_at: string | null; created_by: number | null }[];
  ended: { id: number; reason: string; ended_at: string; created_by: number | null }[];
}

const create = (target: TestApp, token: string, device: unknown = 'x') =>
  call(target, ROUTE, { token, payload: { device } });

onAStore('LLT_MAX_AGE', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, LLT_MAX_AGE: '3600', MAX_LLT_PER_USER: '1' } });
  const { access_token: token } = await signUp(target);
  const session = Number(claimsOf(token).sid);
  const list = async () => (await call(target, 'GET /api/user/tokens', { token })).json<Listed>();
  const { id, longlived_token: llt } = await createLongLived(target, token);

  await t.test('fixes the expiry at creation, in the token and in the record', async (t) => {
    const { iat, exp } = claimsOf(llt) as { iat: number; exp: number };
    t.equal(exp, iat + 3600);
    const expires_at = new Date(exp * 1000).toISOString();
    const [, listed] = (await list()).tokens;
    t.match(listed, { id, type: 'llt', expires_at, created_by: session });
    t.equal((await verify(target, llt)).statusCode, 200);
    const client = await aRegisteredService(target.databaseUrl);
    t.match((await introspect(target, client, llt)).json(), { active: true, token_use: 'llt', exp });
    const [row] = await sql<{ created_at: Date; expires_at: Date }>(
      target.databaseUrl,
      'SELECT created_at, expires_at FROM tokens WHERE id = $1',
      [id],
    );
    t.equal(row?.expires_at.getTime(), exp * 1000);
    t.equal(Math.floor((row?.created_at.getTime() ?? 0) / 1000), iat);
  });

  await t.test('an expired one leaves the list, makes room, and its reason is expired', async (t) => {
    refused(t, await create(target, token), 400, 'too_many_tokens');
    const at = new Date(Date.now() - HOUR);
    await sql(target.databaseUrl, 'UPDATE tokens SET expires_at = $1 WHERE id = $2', [at, id]);
    const next = await createLongLived(target, token);
    const { tokens, ended } = await list();
    t.strictSame(
      tokens.map((listed) => listed.id),
      [session, next.id],
    );
    const profile = (await call(target, 'GET /api/user', { token })).json<Listed>();
    t.strictSame(profile.tokens, tokens);
    t.match(ended, [{ id, reason: 'expired', ended_at: at.toISOString(), created_by: session }]);
    t.equal(ended.length, 1);
    refused(t, await create(target, token), 400, 'too_many_tokens');
  });
});

onAStore('LLT_LOGIN_MAX_AGE', async (t, env) => {
  // The stored session was opened an hour ago.
  const aged = async (maxAge: string) => {
    const target = await buildTestApp(t, { env: { ...env, LLT_LOGIN_MAX_AGE: maxAge } });
    const latest = (Date.now() - 1000) * 1000;
    const session = await aStoredSession(target, { latest, first: latest });
    return { target, token: session.mint('access', latest) };
  };
  await t.test('refuses a session whose login is older', async (t) => {
    const { target, token } = await aged('3590');
    t.equal((await verify(target, token)).statusCode, 200);
    const before = await countRows(target.databaseUrl);
    refused(t, await create(target, token), 403, 'login_too_old');
    t.strictSame(await countRows(target.databaseUrl), before);
    const account = anAccount();
    t.equal((await create(target, (await signUp(target, account)).access_token)).statusCode, 200, 'a signup');
    const { access_token } = await logIn(target, account.username);
    t.equal((await create(target, access_token)).statusCode, 200, 'and a login are recent enough');
  });
});
