import { rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { exchangeForm } from '../support/audiences.ts';
import { bearer, claimsOf, headerOf, type Pair } from '../support/client.ts';
import { KEYS } from '../support/keys.ts';
import { logInOver, logOutOver, refreshOver, signUpOver } from '../support/over-http.ts';
import { answersIn, exchange } from '../support/raw.ts';
import { aRegisteredService, basic, type TestService } from '../support/registered-service.ts';
import { onEachStore } from '../support/stores.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';
import {
  asDer,
  beyondHeaders,
  broken,
  malleated,
  neverIssued,
  signerOf,
  typeConfusion,
  withoutOurKey,
  type Forgeries,
} from './forgeries.ts';
import { bodyOf, headersOf, inParallel, operationsWith, type Attacked } from './operations.ts';
import { aTarget, assertStillGood, recordOf, type Target } from './target.ts';

/** How many operations get each forgery. All operations read tokens in one place, so they share the forgeries. */
const SHARE = 2;

/**
 * Sends forgeries to the operations of this scheme. @returns those that were not refused with 401. An exchange takes the
 * bearer as its subject too, and answers 400 (RFC 8693, section 2.2.2).
 */
async function presentEverywhere(
  target: Target,
  scheme: string,
  forgeries: Forgeries,
  share = SHARE,
): Promise<string[]> {
  const taken: string[] = [];
  const operations = operationsWith(scheme);
  const attempts = Object.entries(forgeries).flatMap(([what, token], i) =>
    operations
      .filter((_, j) => share === Infinity || (j + i * share) % operations.length < share)
      .map((operation) => ({ what, token, operation })),
  );
  await inParallel(attempts, async ({ what, token, operation }) => {
    const status = await present(target, withSubject(operation, token), { authorization: `Bearer ${token}` });
    if (!isRefusal(operation, status)) taken.push(`${what}: ${operation.name} answers ${status}`);
  });
  return taken;
}

function isRefusal({ name }: Attacked, status: number): boolean {
  return status === 401 || (name === 'getToken' && status === 400);
}

function withSubject(operation: Attacked, token: string): Attacked {
  if (operation.name !== 'getToken') return operation;
  return { ...operation, body: { ...operation.body, subject_token: token } };
}

async function present(...request: Parameters<typeof answerOf>): Promise<number> {
  return (await answerOf(...request)).status;
}

async function answerOf({ url }: Target, operation: Attacked, headers: Record<string, string>) {
  const { method, path } = operation;
  const body = method === 'GET' ? undefined : bodyOf(operation);
  const response = await fetch(url + path, {
    method,
    headers: { ...(body !== undefined && headersOf(operation)), ...headers },
    ...(body !== undefined && { body }),
  });
  return { status: response.status, text: await response.text() };
}

/** Where a registered service may submit a token that it was given, and how it learns that the token is not good. */
const PLACES: { path: string; form: (token: string) => Record<string, string>; refusal: RegExp }[] = [
  { path: 'introspect', form: (token) => ({ token }), refusal: /^200 \{"active":false\}$/ },
  { path: 'revoke', form: (token) => ({ token }), refusal: /^200 $/ },
  {
    path: 'token',
    form: (token) => exchangeForm(token, 'orders'),
    refusal: /^400 .*"invalid_subject_token"/,
  },
];

/** Submits each forgery at one of the places. @returns those that had an effect. */
async function submitEverywhere(
  target: Target,
  forgeries: Forgeries,
  { places = PLACES, by = target.client }: { places?: typeof PLACES; by?: TestService } = {},
): Promise<string[]> {
  const taken: string[] = [];
  const attempts = Object.entries(forgeries).flatMap(([what, token], i) => {
    const place = places[i % places.length];
    return place ? [{ what, token, ...place }] : [];
  });
  await inParallel(attempts, async ({ what, token, path, form, refusal }) => {
    const response = await fetch(`${target.url}/api/auth/${path}`, {
      method: 'POST',
      headers: basic(by),
      body: new URLSearchParams(form(token)),
    });
    const answer = `${response.status} ${await response.text()}`;
    if (!refusal.test(answer)) taken.push(`${what}: ${path} answers ${answer}`);
  });
  return taken;
}

/** Every operation refuses every forgery, and no row changes. */
async function assertRefused(
  t: Test,
  target: Target,
  forgeries: Record<'access' | 'refresh', Forgeries>,
): Promise<void> {
  const before = await recordOf(target);
  t.ok(
    Object.keys(forgeries.access).length > 5 && Object.keys(forgeries.refresh).length > 5,
    'there are forgeries',
  );
  t.strictSame(await presentEverywhere(target, 'bearerAuth', forgeries.access), []);
  t.strictSame(await presentEverywhere(target, 'bearerRefreshToken', forgeries.refresh), []);
  for (const each of Object.values(forgeries)) t.strictSame(await submitEverywhere(target, each), []);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
  await assertStillGood(t, target);
}

test('every operation refuses a token that our key did not sign', async (t) => {
  const fetched: string[] = [];
  const server = createServer((request, response) => {
    fetched.push(request.url ?? '');
    response.end('{"keys":[]}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.close());
  const keyServer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target = await aTarget(t);
  const { pair, llt, pem } = target;
  const forged = (token: string) => withoutOurKey({ token, pem, keyServer });
  await assertRefused(t, target, {
    access: { ...named('llt', forged(llt.longlived_token)), ...forged(pair.access_token) },
    refresh: forged(pair.refresh_token),
  });
  t.strictSame(fetched, [], 'no key was fetched from a URL in a token');
});

test('every operation refuses a truncated, oversized or malformed token', async (t) => {
  const target = await aTarget(t);
  const { pair, llt } = target;
  for (const place of PLACES)
    for (const token of [pair.access_token, pair.refresh_token, llt.longlived_token])
      t.strictSame(await submitEverywhere(target, beyondHeaders(token), { places: [place] }), []);
  await assertRefused(t, target, {
    access: {
      ...broken(pair.access_token),
      ...named('llt', broken(llt.longlived_token)),
      'a DER signature': asDer(pair.access_token),
    },
    refresh: broken(pair.refresh_token),
  });
});

test('every operation refuses claims that we never issue, even with a valid signature', async (t) => {
  const target = await aTarget(t);
  const { pair, llt, pem, refreshSecret } = target;
  const [key, secret] = [signerOf(pem), signerOf(Buffer.from(refreshSecret, 'base64url'))];
  const [header, claims] = [headerOf(pair.access_token), claimsOf(pair.access_token)];
  t.equal(
    await present(target, verify(), bearer(key(header, claims))),
    200,
    'the forger signs as the service does',
  );
  const exchanging = operationsWith('bearerAuth').find(({ name }) => name === 'getToken');
  const good = pair.access_token;
  t.equal(exchanging && (await present(target, withSubject(exchanging, good), bearer(good))), 200);
  await assertRefused(t, target, {
    access: {
      ...neverIssued(pair.access_token, key),
      ...named('llt', neverIssued(llt.longlived_token, key)),
    },
    refresh: neverIssued(pair.refresh_token, secret),
  });
});

onEachStore('every operation refuses a token of another owner or session', async (t, env) => {
  const target = await aTarget(t, env);
  const { url, pair, llt, pem, refreshSecret } = target;
  const other = await signUpOver(url);
  const swapped = (token: string, from: string, key: string | Buffer) => {
    const { sub, sid, gen, jti } = claimsOf(from);
    const sign = (changes: object) => signerOf(key)(headerOf(token), { ...claimsOf(token), ...changes });
    return {
      'another owner': sign({ sub }),
      'another session': sign({
        sid,
        jti: gen === undefined ? jti : `${String(sid)}.${String(claimsOf(token).gen)}`,
      }),
      'a session that does not exist': sign({
        sid: 999_999,
        jti: gen === undefined ? '999999' : `999999.${Number(gen)}`,
      }),
    };
  };
  const before = await recordOf(target);
  const access = {
    ...swapped(pair.access_token, other.access_token, pem),
    ...named('llt', swapped(llt.longlived_token, other.access_token, pem)),
  };
  t.strictSame(await presentEverywhere(target, 'bearerAuth', access, Infinity), []);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
  const refresh = swapped(pair.refresh_token, other.refresh_token, Buffer.from(refreshSecret, 'base64url'));
  t.strictSame(await presentEverywhere(target, 'bearerRefreshToken', refresh), []);
  await assertStillGood(t, target);
});

test('no operation takes a token of one type for another type', async (t) => {
  const target = await aTarget(t);
  const { pair, llt, pem, refreshSecret } = target;
  const tokens = { access: pair.access_token, refresh: pair.refresh_token, llt: llt.longlived_token };
  const signers = { key: signerOf(pem), secret: signerOf(Buffer.from(refreshSecret, 'base64url')) };
  const before = await recordOf(target);
  const { access, refresh } = typeConfusion(tokens, signers);
  t.strictSame(await presentEverywhere(target, 'bearerAuth', access), []);
  t.strictSame(await presentEverywhere(target, 'bearerRefreshToken', refresh), []);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
  await assertStillGood(t, target);
});

/** What a long-lived token may do. Every other operation is for a person with a session. */
const FOR_LONG_LIVED: Record<string, number> = {
  verify: 200,
  verifyInScope: 200,
  getProfile: 200,
  listTokens: 200,
  listFactors: 200,
  // It is no token for another audience, and no subject.
  verifyForAudience: 401,
  verifyInScopeForAudience: 401,
  getToken: 400,
};

test('a long-lived token reads, and ends nothing but itself', async (t) => {
  const target = await aTarget(t);
  const { pair, llt } = target;
  const token = llt.longlived_token;
  const before = await recordOf(target);
  for (const operation of operationsWith('bearerAuth')) {
    // Without an id it ends the presented token.
    if (operation.name === 'logOut') continue;
    const { status, text } = await answerOf(target, withSubject(operation, token), bearer(token));
    t.equal(status, FOR_LONG_LIVED[operation.name] ?? 403, `${operation.name}: ${text}`);
    if (status === 403) t.match(text, '"code":"token_not_allowed"');
  }
  t.equal(pair.user.id, 1, 'the operations with an id named a session and an account that exist');
  t.strictSame(await recordOf(target), before, 'nothing was changed');
  await assertStillGood(t, target);
});

test('every operation refuses a token that has ended, or a refresh token, whatever the body', async (t) => {
  const target = await aTarget(t);
  const { url, client, account } = target;
  // The first session of its user goes on, which it could end.
  const out = (await (await logInOver(url, account.username, account.password)).json()) as Pair;
  const [superseded, disabled] = [await signUpOver(url), await signUpOver(url)];
  t.equal(await logOutOver(url, out.access_token), 200);
  t.equal((await refreshOver(url, superseded.refresh_token)).status, 200);
  const disabling = await fetch(`${url}/api/users/${disabled.user.id}`, {
    method: 'PATCH',
    headers: { ...basic(client), 'content-type': 'application/json' },
    body: '{"disabled":true}',
  });
  t.equal(disabling.status, 200);
  const before = await recordOf(target);
  const taken: string[] = [];
  const tokens = {
    out: out.access_token,
    superseded: superseded.access_token,
    disabled: disabled.access_token,
    refresh: target.pair.refresh_token,
  };
  for (const [what, token] of Object.entries(tokens))
    for (const operation of operationsWith('bearerAuth')) {
      // It may be the repeat of a logout whose answer was lost.
      if (operation.name === 'logOut' && what !== 'refresh') continue;
      const isJson = operation.contentType === 'application/json';
      const nonsense = { ...operation, ...(isJson && { body: { nonsense: 1 } }) };
      for (const each of [withSubject(operation, token), withSubject(nonsense, token)]) {
        const status = await present(target, each, bearer(token));
        if (!isRefusal(operation, status)) taken.push(`${what}: ${operation.name} answers ${status}`);
      }
    }
  t.strictSame(taken, []);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
});

test('no check for an audience accepts a forged token, or one of another kind', async (t) => {
  const target = await aTarget(t);
  const { url, pair, llt, pem } = target;
  const shop = await aRegisteredService(target.databaseUrl, 'shop', ['introspect'], 'shop');
  const exchange = await fetch(`${url}/api/auth/token`, {
    method: 'POST',
    headers: bearer(pair.access_token),
    body: new URLSearchParams(exchangeForm(pair.access_token, 'shop')),
  });
  const { access_token: token } = (await exchange.json()) as { access_token: string };
  const key = signerOf(pem);
  const [header, claims, own] = [headerOf(token), claimsOf(token), claimsOf(pair.access_token)];
  const checks = ['/api/auth/verify?audience=shop', '/api/auth/audiences/shop/verify'];
  const ask = async (path: string, each: string) =>
    (await fetch(url + path, { headers: bearer(each) })).status;
  for (const path of checks) t.equal(await ask(path, key(header, claims)), 200, 'the forger signs as we do');

  const forgeries: Forgeries = {
    ...withoutOurKey({ token, pem, keyServer: 'http://127.0.0.1:1' }),
    ...broken(token),
    ...neverIssued(token, key),
    'an access token': pair.access_token,
    'a refresh token': pair.refresh_token,
    'a long-lived token': llt.longlived_token,
    // As of a service whose AUDIENCE was `shop` once.
    'an access token for that audience': key(header, { ...own, aud: 'shop' }),
    'a list of audiences': key(header, { ...claims, aud: ['shop'] }),
    'AUDIENCE too': key(header, { ...claims, aud: ['shop', 'latchkey'] }),
    'an audience that becomes text': key(header, { ...claims, aud: { toString: 'shop' } }),
    'no expiry': key(header, { ...claims, exp: undefined }),
    expired: key(header, { ...claims, exp: Math.floor(Date.now() / 1000) - 6 }),
    'the typ of a long-lived token': key({ ...header, typ: 'llt+jwt' }, claims),
  };
  const taken: string[] = [];
  await inParallel(Object.entries(forgeries), async ([what, forged]) => {
    for (const path of [...checks, '/api/auth/verify', '/api/user']) {
      const isGood = !path.includes('shop') && [pair.access_token, llt.longlived_token].includes(forged);
      const status = await ask(path, forged);
      if (status !== (isGood ? 200 : 401)) taken.push(`${what}: ${path} answers ${status}`);
    }
  });
  t.strictSame(taken, []);
  const [introspection] = PLACES;
  const places = introspection ? [introspection] : [];
  t.strictSame(await submitEverywhere(target, forgeries, { places, by: shop }), []);
  const swapped = key(header, { ...claims, aud: 'latchkey' });
  for (const path of [...checks, '/api/auth/verify', '/api/user'])
    t.equal(await ask(path, swapped), 401, path);
  await assertStillGood(t, target);
});

test('every operation refuses an expired token', async (t) => {
  const target = await aTarget(t);
  const { pair, llt, pem, refreshSecret } = target;
  const expired = (token: string, key: string | Buffer) =>
    Object.fromEntries(
      [-1e15, -1, 0, 1, Math.floor(Date.now() / 1000) - 6].map((exp) => [
        `exp ${exp}`,
        signerOf(key)(headerOf(token), { ...claimsOf(token), exp }),
      ]),
    );
  const before = await recordOf(target);
  const access = { ...expired(pair.access_token, pem), ...named('llt', expired(llt.longlived_token, pem)) };
  t.strictSame(await presentEverywhere(target, 'bearerAuth', access), []);
  const refresh = expired(pair.refresh_token, Buffer.from(refreshSecret, 'base64url'));
  t.strictSame(await presentEverywhere(target, 'bearerRefreshToken', refresh), []);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
});

test('every operation refuses a token of a retired key', async (t) => {
  const target = await aTarget(t);
  const { pair, llt, keyFolder, composition } = target;
  writeFileSync(join(keyFolder, '0002.pem'), KEYS.ES256());
  rmSync(join(keyFolder, '0001.pem'));
  const { keyRing } = composition.app;
  const old = headerOf(pair.access_token).kid;
  await until(async () => (await keyRing.reload()).signing.every(({ kid }) => kid !== old));
  const forgeries = { 'an access token': pair.access_token, 'a long-lived token': llt.longlived_token };
  const before = await recordOf(target);
  t.strictSame(await presentEverywhere(target, 'bearerAuth', forgeries), []);
  t.strictSame(await submitEverywhere(target, forgeries), []);
  t.strictSame(await recordOf(target), before, 'nothing was changed');
});

onEachStore(
  'a good token with another encoding of its signature is the same token, and ends with it',
  async (t, env) => {
    const target = await aTarget(t, env);
    const { pair, url } = target;
    const [header = '', payload = '', signature = ''] = pair.access_token.split('.');
    // The holder of a token can change its bytes in this way, and gains nothing: no decision depends on the bytes.
    const other = malleated(pair.access_token);
    t.not(other, pair.access_token);
    t.equal(await present(target, verify(), bearer(other)), 200, 'the other signature that ECDSA allows');
    const padded = `${header}.${payload}.${signature}==`;
    t.equal(await present(target, verify(), bearer(padded)), 401, 'only base64url without padding is valid');

    const { status } = await fetch(`${url}/api/auth`, {
      method: 'DELETE',
      headers: bearer(pair.access_token),
    });
    t.equal(status, 200);
    for (const token of [pair.access_token, other, padded])
      t.equal(await present(target, verify(), bearer(token)), 401);
  },
);

test('a token is read only from a single Authorization header', async (t) => {
  const target = await aTarget(t);
  const { url, pair } = target;
  const token = pair.access_token;
  const elsewhere: Record<string, string>[] = [
    { cookie: `access_token=${token}; token=${token}; Authorization=Bearer ${token}` },
    { 'proxy-authorization': `Bearer ${token}` },
    { 'x-authorization': `Bearer ${token}`, 'x-access-token': token, 'x-auth-token': token },
    { 'x-forwarded-authorization': `Bearer ${token}`, 'x-original-authorization': `Bearer ${token}` },
    { 'x-auth-user': String(pair.user.id), 'x-auth-session': '1', 'x-auth-token-type': 'access' },
    { 'sec-websocket-protocol': `bearer, ${token}` },
    ...[
      token,
      `Token ${token}`,
      `JWT ${token}`,
      `Bearer${token}`,
      `Bearer: ${token}`,
      `Bearer=${token}`,
      `Bearer "${token}"`,
      `Bearer ${token} x`,
      `Bearer x, Bearer ${token}`,
      `Bearer x Bearer ${token}`,
      `Basic ${token}`,
      `DPoP ${token}`,
      `Bearers ${token}`,
      `xBearer ${token}`,
      `Bearer\u00a0${token}`,
      `Basic ${Buffer.from(`x:${token}`).toString('base64')}`,
      `Bearer token="${token}"`,
      'Bearer',
      'Bearer ',
    ].map((authorization) => ({ authorization })),
  ];
  const taken: string[] = [];
  for (const scheme of ['bearerAuth', 'bearerRefreshToken']) {
    for (const operation of operationsWith(scheme)) {
      for (const headers of elsewhere) {
        const status = await present(target, operation, headers);
        if (!isRefusal(operation, status))
          taken.push(`${operation.name}: ${JSON.stringify(headers)} answers ${status}`);
      }
      for (const name of ['access_token', 'token', 'authorization', 'bearer', 'refresh_token']) {
        const path = `${operation.path}?${name}=${token}`;
        const status = await present(target, { ...operation, path }, {});
        if (status !== 401) taken.push(`${operation.name}: in the query as ${name}: answered ${status}`);
      }
      if (operation.method === 'GET') continue;
      const contentType = operation.contentType ?? 'application/json';
      const body = { access_token: token, refresh_token: pair.refresh_token, token };
      const withTokens = { ...operation, contentType, body };
      const response = await fetch(url + operation.path, {
        method: operation.method,
        headers: headersOf(withTokens),
        body: bodyOf(withTokens) ?? null,
      });
      if (!isRefusal(operation, response.status))
        taken.push(`${operation.name}: in the body: answered ${response.status}`);
    }
  }
  t.strictSame(taken, []);
  await assertStillGood(t, target);
});

test('only the first of two Authorization headers counts, and they are never joined', async (t) => {
  const { url, pair } = await aTarget(t);
  const ask = async (...credentials: string[]) => {
    const lines = credentials.map((each) => `Authorization: ${each}\r\n`).join('');
    const [answer] = answersIn(
      await exchange(url, `GET /api/user HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines}\r\n`),
    );
    return answer?.status;
  };
  const good = `Bearer ${pair.access_token}`;
  t.equal(await ask(good, 'Bearer x'), 200);
  t.equal(await ask('Bearer x', good), 401);
  t.equal(await ask('Basic eDp4', good), 401);
  t.equal(await ask('', good), 401);
  t.equal(await ask(pair.access_token.slice(0, 50), pair.access_token.slice(50)), 401);
});

function verify(): Attacked {
  const found = operationsWith('bearerAuth').find(({ name }) => name === 'verify');
  if (!found) throw new Error('no verify operation found');
  return found;
}

function named(prefix: string, forgeries: Forgeries): Forgeries {
  return Object.fromEntries(Object.entries(forgeries).map(([what, token]) => [`${prefix}: ${what}`, token]));
}
