import { buildTestApp } from '../../support/app.ts';
import { anAccount, claimsOf, headerOf, pairOf, refresh, signUp, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { onAStore } from '../../support/stores.ts';
import { aStoredSession } from '../../support/tokens.ts';

onAStore('refresh', async (t, env) => {
  const target = await buildTestApp(t, { env });

  await t.test('issues the next pair of the session and ends the old access token', async (t) => {
    const first = await signUp(target);
    const response = await refresh(target, first.refresh_token);
    const next = pairOf(response);
    t.strictSame(Object.keys(response.json()).sort(), ['access_token', 'refresh_token', 'user']);
    t.strictSame(next.user, first.user);
    t.equal(response.headers['cache-control'], 'no-store');
    const [old, now] = [claimsOf(first.access_token), claimsOf(next.access_token)];
    t.equal(now.sid, old.sid);
    t.ok(Number(now.gen) > Number(old.gen));
    refused(t, await verify(target, first.access_token), 401, 'invalid_token');
    t.equal((await verify(target, next.access_token)).statusCode, 200);
  });

  await t.test('signs the claims of section 3 of the contract, and no personal data', async (t) => {
    const account = anAccount();
    const pair = await signUp(target, account);
    const auth_time = Math.floor(Date.parse(pair.user.created_at) / 1000);
    const { access_token: access, refresh_token: token } = pairOf(await refresh(target, pair.refresh_token));
    t.match(headerOf(access), { alg: 'ES256', typ: 'at+jwt', kid: /^[\w-]{43}$/ });
    t.match(headerOf(token), { alg: 'HS256', typ: 'rt+jwt', kid: /^[\w-]+$/ });
    for (const [each, ttl, more] of [
      // RFC 9068 asks for it.
      [access, 900, { client_id: 'latchkey', auth_time }],
      [token, 2_592_000, {}],
    ] as const) {
      const claims = claimsOf(each);
      const { sid, gen, iat } = claims as Record<string, number>;
      t.strictSame(claims, {
        iss: 'http://localhost:3000',
        aud: 'latchkey',
        sub: String(pair.user.id),
        sid,
        gen,
        jti: `${sid}.${gen}`,
        iat: Math.floor(Number(gen) / 1e6),
        exp: Number(iat) + ttl,
        ...more,
      });
      t.strictSame(Object.keys(headerOf(each)).sort(), ['alg', 'kid', 'typ']);
    }
  });
});

onAStore('refresh with other lifetimes', async (t, env) => {
  await t.test('ends with SESSION_MAX_AGE, however often it is refreshed', async (t) => {
    const target = await buildTestApp(t, { env: { ...env, SESSION_MAX_AGE: '100' } });
    const pair = await signUp(target);
    const { access_token, refresh_token } = pairOf(await refresh(target, pair.refresh_token));
    const end = Math.floor(Date.parse(pair.user.created_at) / 1000) + 100;
    t.equal(claimsOf(access_token).exp, end);
    t.equal(claimsOf(refresh_token).exp, end);
  });

  await t.test('follows the record if SESSION_MAX_AGE was shortened', async (t) => {
    const before = await buildTestApp(t, { env });
    const latest = (Date.now() - 60_000) * 1000;
    const session = await aStoredSession(before, { latest, first: latest });
    const { keyRing } = before.composition.app;
    const after = await buildTestApp(t, {
      databaseUrl: before.databaseUrl,
      env: { ...env, SESSION_MAX_AGE: '3000' },
      override: (options) => ({ ...options, keyRing }),
    });
    const tokens = [session.mint('access', latest), session.mint('refresh', latest)] as const;
    t.equal((await verify(before, tokens[0])).statusCode, 200);
    refused(t, await verify(after, tokens[0]), 401, 'invalid_token');
    refused(t, await refresh(after, tokens[1]), 401, 'invalid_token');
  });

  await t.test('a shorter REFRESH_TOKEN_TTL holds for open sessions', async (t) => {
    const before = await buildTestApp(t, { env });
    const { keyRing } = before.composition.app;
    const after = await buildTestApp(t, {
      databaseUrl: before.databaseUrl,
      env: { ...env, REFRESH_TOKEN_TTL: '3600' },
      override: (options) => ({ ...options, keyRing }),
    });
    const agedBy = async (seconds: number) => {
      const latest = (Date.now() - seconds * 1000) * 1000;
      return (await aStoredSession(before, { latest, first: latest })).mint('refresh', latest);
    };
    pairOf(await refresh(after, await agedBy(3500)));
    const token = await agedBy(3700);
    refused(t, await refresh(after, token), 401, 'invalid_token');
    pairOf(await refresh(before, token));
  });

  await t.test('follows ACCESS_TOKEN_TTL and REFRESH_TOKEN_TTL', async (t) => {
    const target = await buildTestApp(t, {
      env: { ...env, ACCESS_TOKEN_TTL: '60', REFRESH_TOKEN_TTL: '3600' },
    });
    const pair = pairOf(await refresh(target, (await signUp(target)).refresh_token));
    const [access, token] = [claimsOf(pair.access_token), claimsOf(pair.refresh_token)];
    t.equal(Number(access.exp) - Number(access.iat), 60);
    t.equal(Number(token.exp) - Number(token.iat), 3600);
  });
});
