// suite: e2e
import type { LightMyRequestResponse } from 'fastify';
import { test, type Test } from 'tap';
import { JWT_BEARER } from '../../src/http/auth/token.ts';
import type { Objection } from '../../src/domain/standing.ts';
import { recordOf } from '../attack/target.ts';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { verifyFor } from '../support/audiences.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  pairOf,
  refresh,
  signUp,
  verify,
} from '../support/client.ts';
import { everyOperation, type ValidRequest } from '../support/every-operation.ts';
import { fakeIssuer, SUBJECT } from '../support/fake-issuer.ts';
import { faultProxy, type Fault } from '../support/fault-proxy.ts';
import { withKeys } from '../support/keys.ts';
import { PASSKEYS } from '../support/passkeys.ts';
import { testDatabase } from '../support/postgres.ts';
import { assertProblem, refused, refusedForOAuth, type Answer } from '../support/problem.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, introspect, withRegistry } from '../support/registered-service.ts';
import { askServiceToken, postAsService, serviceToken } from '../support/service-tokens.ts';
import { onAStore } from '../support/stores.ts';
import { until } from '../support/until.ts';

const PASSWORD = 'difference engine';
const unavailable = (t: Test, response: LightMyRequestResponse) => {
  refused(t, response, 503, 'unavailable');
};

/** What answers without Redis: keys, metadata, and accounts as PostgreSQL has them. */
const NEEDS_NO_REDIS: readonly string[] = [
  'getJwks',
  'getMetadata',
  'getOpenIdConfiguration',
  'getPasskeyOptions',
  'createUser',
  'listUsers',
  'getUser',
  'createPasswordReset',
  'inviteUser',
  'getUserEmail',
  'listUserFactors',
  'takeMails',
  'settleMail',
  'reportUses',
  'confirmRevocations',
  'leaveRevocations',
  // Nobody reads the feed, so nobody has to refuse anything.
  'getEnforcement',
  // With the limits of these tests, which are off.
  'requestPasswordReset',
];
/** They write that tokens have ended before they tell the replicas, and their repeat tells them. */
const WRITES_FIRST = [
  'logOut',
  'logOutById',
  'endToken',
  'deleteLongLivedToken',
  'revoke',
  'logOutEverywhere',
  'endUserTokens',
  'removeUserFactors',
];

for (const fault of ['refuse', 'hang', 'vanish'] as const) {
  test(
    `if Redis is away (${fault}), every operation that needs it is 503, and its repeat succeeds`,
    // A closed port refuses as Redis does, on every machine.
    { skip: fault !== 'refuse' && redisMissing },
    async (t) => {
      const { target, away } = await oneWithoutRedis(t, fault);
      const requests = await everyOperation(target);
      const mayWrite = ({ name }: ValidRequest) =>
        WRITES_FIRST.includes(name) || NEEDS_NO_REDIS.includes(name);
      const before = await recordOf(target);
      for (const request of requests.filter((each) => !mayWrite(each))) await assertAway(t, away, request);
      t.strictSame(await recordOf(target), before, 'nothing was written');
      for (const request of requests.filter(mayWrite)) await assertAway(t, away, request);
      await assertStillRefused(t, away, requests);
      for (const request of requests) {
        // It would conflict with what the first one created, or its code is no longer shown.
        if ([...NEEDS_NO_REDIS, 'confirmTotp'].includes(request.name)) continue;
        const { status, body } = await answerOf(target, request);
        t.equal(status, 200, `${request.what}: ${body}`);
      }
    },
  );
}

test('a replica that disagrees with its installation answers every operation 503 and writes nothing', async (t) => {
  let objection: Objection | null = null;
  const standing = { objection: () => objection };
  const target = await buildTestApp(t, {
    env: PASSKEYS,
    override: (options) => ({ ...options, standing }),
  });
  await target.app.listen({ port: 0 });
  const requests = await everyOperation(target);
  const before = await recordOf(target);
  objection = { about: 'ISSUER', problem: 'it differs', action: 'mend it' };
  for (const request of requests) {
    const answer = await answerOf(target, request);
    t.equal(answer.status, 503, request.what);
    t.match(answer.header('retry-after'), /^\d+$/, request.what);
  }
  for (const url of ['/api/auth/verify', '/api/user'])
    unavailable(t, await target.inject({ url, headers: { authorization: 'Bearer nonsense' } }));
  t.strictSame(await recordOf(target), before);
});

/** What is wrong by itself needs no look-up, and gets the answer that it always gets. */
async function assertStillRefused(t: Test, away: TestApp, requests: ValidRequest[]): Promise<void> {
  const valid = (what: string) => {
    const found = requests.find((each) => each.what === what);
    if (!found) throw new Error(`no request ${what}`);
    return found;
  };
  const check = valid('verify by bearerAuth, access');
  t.equal((await answerOf(away, { ...check, path: `${check.path}?audience=orders` })).status, 401);
  refused(t, await verify(away, 'x'), 401, 'invalid_token');
  const introspection = { ...valid('introspect by serviceClient, access'), body: 'token=x' };
  t.match(await answerOf(away, introspection), { status: 200, body: '{"active":false}' });
  const exchange = valid('getToken by serviceClient, access');
  const body = exchange.body?.replace(/subject_token=[^&]*/, 'subject_token=x') ?? null;
  const answer = await answerOf(away, { ...exchange, body });
  assertProblem(t, answer, 400, 'invalid_subject_token', undefined, 'invalid_request');
}

/** A replica that has lost its Redis, beside one with the same keys and records that needs none. */
async function oneWithoutRedis(t: Test, fault: Fault) {
  const { target, folder, secretFile } = await withKeys(t, 'ES256', 0, PASSKEYS);
  const { url, prefix } = fault === 'refuse' ? { url: 'redis://127.0.0.1:1', prefix: 'x' } : testRedis(t);
  const proxy = fault === 'refuse' ? null : await faultProxy(t, url);
  const away = await buildTestApp(t, {
    databaseUrl: target.databaseUrl,
    env: {
      SIGNING_KEYS_DIR: folder,
      REFRESH_TOKEN_SECRET_FILE: secretFile,
      REDIS_URL: proxy?.url ?? url,
      REDIS_PREFIX: prefix,
      REDIS_TIMEOUT: '100',
      ...PASSKEYS,
    },
    storesAnswer: proxy !== null,
  });
  await Promise.all([target, away].map(({ app }) => app.listen({ port: 0 })));
  proxy?.set(fault);
  return { target, away };
}

/** Not by `inject`, which would wait for the end of a stream. */
async function answerOf({ app }: TestApp, { method, path, headers, body }: ValidRequest): Promise<Answer> {
  const response = await fetch(app.listeningOrigin + path, { method, headers, body });
  const isStream = response.headers.get('content-type') === 'text/event-stream';
  if (isStream) await response.body?.cancel();
  return {
    status: response.status,
    header: (name) => response.headers.get(name) ?? undefined,
    body: isStream ? '' : await response.text(),
  };
}

async function assertAway(t: Test, away: TestApp, request: ValidRequest): Promise<void> {
  const answer = await answerOf(away, request);
  t.comment(request.what);
  if (NEEDS_NO_REDIS.includes(request.name)) {
    t.equal(answer.status, 200, answer.body);
    return;
  }
  // RFC 6749, section 5.2, for the operations that OAuth clients call.
  const isForm = request.headers['content-type']?.includes('form') ?? false;
  assertProblem(t, answer, 503, 'unavailable', undefined, isForm ? 'temporarily_unavailable' : undefined);
}

for (const fault of ['refuse', 'hang', 'vanish'] as const) {
  test(`when Redis is back (${fault}), sessions and logins go on`, { skip: redisMissing }, async (t) => {
    const { url, prefix } = testRedis(t);
    const proxy = await faultProxy(t, url);
    const env = { REDIS_URL: proxy.url, REDIS_PREFIX: prefix, REDIS_TIMEOUT: '100' };
    const target = await buildTestApp(t, { env });
    const account = anAccount();
    const pair = await signUp(target, account);
    const token = pair.access_token;
    const { longlived_token: llt } = await createLongLived(target, token);

    proxy.set(fault);
    const { username } = account;
    const login = { payload: { username, password: PASSWORD } };
    unavailable(t, await refresh(target, pair.refresh_token));
    const { ready, checks } = await target.composition.ops.readiness();
    t.equal(ready, true, 'the replica stays ready');
    t.not(checks.sessions, 'ok', 'and names the cause');

    proxy.set('pass');
    await until(async () => (await verify(target, llt)).statusCode === 200);
    // When a hung Redis resumes, it runs the timed-out commands: the refresh took effect, its answer was lost.
    const next = pairOf(await decided(() => refresh(target, pair.refresh_token)));
    t.equal(claimsOf(next.access_token).sid, claimsOf(token).sid, 'the session goes on');
    t.equal((await decided(() => call(target, 'POST /api/auth', login))).statusCode, 200);
  });
}

/** Asks until Redis is back. Any other answer than 503 counts. */
async function decided(asking: () => Promise<LightMyRequestResponse>): Promise<LightMyRequestResponse> {
  let answer = await asking();
  await until(async () => {
    if (answer.statusCode === 503) answer = await asking();
    return answer.statusCode !== 503;
  });
  return answer;
}

test(
  'if Redis is down, limited logins and sign-ups return 503, never 429',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const proxy = await faultProxy(t, url);
    const limits = { RATE_LIMIT_LOGIN: '5/60', RATE_LIMIT_SIGNUP: '5/60' };
    const target = await buildTestApp(t, { env: { ...limits, REDIS_URL: proxy.url, REDIS_PREFIX: prefix } });
    proxy.set('refuse');
    for (let i = 0; i < 8; i++) {
      unavailable(t, await call(target, 'POST /api/auth', { payload: { username: 'x', password: 'x' } }));
      unavailable(t, await call(target, 'POST /api/auth/signup', { payload: anAccount() }));
    }
  },
);

onAStore('if PostgreSQL is down', async (t, env) => {
  for (const fault of ['refuse', 'hang', 'vanish'] satisfies Fault[]) {
    await t.test(`(${fault}) sessions in use continue, and everything else is 503`, async (t) => {
      const { url } = await testDatabase(t);
      const proxy = await faultProxy(t, url);
      const settings = { ...env, DATABASE_TIMEOUT: '300', REFRESH_RETRY_WINDOW: '0' };
      const target = await buildTestApp(t, { databaseUrl: proxy.url, env: settings });
      const account = anAccount();
      const pair = await signUp(target, account);
      const { longlived_token: llt } = await createLongLived(target, pair.access_token);

      proxy.set(fault);
      for (const each of [pair.access_token, llt]) t.equal((await verify(target, each)).statusCode, 200);
      const next = pairOf(await refresh(target, pair.refresh_token));
      const token = next.access_token;
      t.equal((await verify(target, token)).statusCode, 200);

      const { username } = account;
      unavailable(t, await call(target, 'POST /api/auth', { payload: { username, password: PASSWORD } }));
      unavailable(
        t,
        await call(target, 'POST /api/auth', { payload: { username: 'unknown', password: 'x' } }),
      );
      unavailable(t, await call(target, 'POST /api/auth/signup', { payload: anAccount() }));
      unavailable(t, await call(target, 'POST /api/auth/llt', { token, payload: { device: 'x' } }));
      unavailable(t, await call(target, 'DELETE /api/auth', { token }));
      unavailable(t, await call(target, 'DELETE /api/auth/999', { token }));
      unavailable(t, await call(target, 'DELETE /api/auth/llt/999', { token }));
      unavailable(t, await call(target, 'GET /api/user', { token }));
      for (const line of ['GET', 'DELETE'])
        unavailable(t, await call(target, `${line} /api/user/tokens`, { token }));
      t.equal((await verify(target, token)).statusCode, 200, 'the logout has not happened');

      proxy.set('pass');
      await until(async () => (await call(target, 'GET /api/user', { token })).statusCode === 200);
      t.equal((await call(target, 'DELETE /api/auth', { token })).statusCode, 200);
      refused(t, await verify(target, token), 401, 'invalid_token');
    });
  }
});

for (const fault of ['refuse', 'hang', 'vanish'] as const) {
  test(
    `if both stores are down (${fault}), services get tokens, and their tokens are checked`,
    { skip: redisMissing },
    async (t) => {
      const redis = testRedis(t);
      const [database, sessions] = [
        await faultProxy(t, (await testDatabase(t)).url),
        await faultProxy(t, redis.url),
      ];
      const ISSUER = 'https://auth.example';
      const env = { ISSUER, REDIS_URL: sessions.url, REDIS_PREFIX: redis.prefix, DATABASE_TIMEOUT: '300' };
      const target = await buildTestApp(t, { databaseUrl: database.url, env });
      const orders = await aRegisteredService(database.url, 'orders', ['introspect'], 'orders');
      const shop = await aRegisteredService(database.url, 'shop', ['introspect', 'call:orders']);
      const issuer = await fakeIssuer(t, { audience: ISSUER });
      await withRegistry(database.url, (clients) =>
        clients.trust('shop', { issuer: issuer.url, subject: SUBJECT }, null),
      );
      const assertion = {
        client_assertion_type: JWT_BEARER,
        client_assertion: await issuer.sign(),
      };
      const check = async () => {
        const own = await serviceToken(target, null, ISSUER, assertion);
        for (const token of [
          await serviceToken(target, shop),
          await serviceToken(target, null, 'orders', assertion),
        ]) {
          t.strictSame(await verifyFor(target, token), [200, 200, 200, 200]);
          t.match((await introspect(target, orders, token)).json(), { active: true, sub: shop.serviceId });
        }
        const byToken = await postAsService(target, '/api/auth/introspect', own, { token: own });
        t.equal(byToken.statusCode, 200);
      };
      await check();
      for (const proxy of [database, sessions]) proxy.set(fault);
      await issuer.stop();
      await check();
      const rotated = await askServiceToken(target, { ...shop, secret: 'lks_new' });
      refusedForOAuth(t, rotated, 503, 'unavailable');
      for (const proxy of [database, sessions]) proxy.set('pass');
    },
  );
}
