import { Redis } from 'ioredis';
import type { Environment } from '../../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { audienceClients, exchanged } from '../../support/audiences.ts';
import {
  call,
  claimsOf,
  createLimited,
  createLongLived,
  headerOf,
  pairOf,
  refresh,
  signUp,
} from '../../support/client.ts';
import { aRegisteredService, introspect } from '../../support/registered-service.ts';
import { deleteKeys } from '../../support/redis.ts';
import { serviceToken } from '../../support/service-tokens.ts';
import { onEachStore } from '../../support/stores.ts';
import { aStoredSession, forge } from '../../support/tokens.ts';

const AMR = ['pwd', 'otp', 'mfa'];

/** What a token says of the login that opened its session. */
function proofOf(token: string) {
  const { auth_time, acr, amr } = claimsOf(token);
  return { auth_time, acr, amr };
}

/** The token as a release with another kind of factor would have signed it. */
function asSignedLater({ composition }: TestApp, token: string, claims: object): string {
  const { signing, refresh } = composition.app.keyRing.current();
  const key = headerOf(token).alg === 'HS256' ? refresh[0]?.secret : signing[0]?.privateKey;
  return forge(headerOf(token), { ...claimsOf(token), ...claims }, key ?? '');
}

/** Without Redis, nothing is forgotten while the service runs. */
async function emptyRedis({ REDIS_URL: url, REDIS_PREFIX: prefix = '' }: Environment): Promise<void> {
  if (url === undefined) return;
  const redis = new Redis(url);
  await deleteKeys(redis, prefix);
  await redis.quit();
}

onEachStore('what a token says of its login', async (t, env) => {
  const target = await buildTestApp(t, { env });
  const { gateway, orders } = await audienceClients(target.databaseUrl);
  const plain = await signUp(target);
  const latest = (Date.now() - 60_000) * 1000;
  const session = await aStoredSession(target, { latest, first: latest }, { acr: 'mfa' });
  const ofPlain = { auth_time: Math.floor(Date.parse(plain.user.created_at) / 1000) };
  const ofSession = proofOf(session.mint('access', latest));

  await t.test('survives a refresh, its retry and a rebuild', async (t) => {
    t.match(ofSession, { auth_time: Number, acr: 'mfa', amr: AMR });
    let token = session.mint('refresh', latest);
    // The first one is a rebuild too, in either store.
    for (const emptied of [false, true]) {
      if (emptied) await emptyRedis(env);
      const pair = pairOf(await refresh(target, token));
      const repeated = pairOf(await refresh(target, token));
      t.strictSame(claimsOf(repeated.access_token), claimsOf(pair.access_token), 'a retry');
      for (const each of [pair, repeated]) {
        t.strictSame(proofOf(each.access_token), ofSession);
        t.strictSame(proofOf(each.refresh_token), { auth_time: undefined, acr: undefined, amr: AMR });
      }
      token = pair.refresh_token;
    }

    const next = pairOf(await refresh(target, plain.refresh_token));
    t.strictSame(proofOf(plain.access_token), proofOf(next.access_token));
    t.match(claimsOf(next.access_token), ofPlain);
    for (const each of [plain, next])
      t.strictSame(proofOf(each.refresh_token), { auth_time: undefined, acr: undefined, amr: undefined });
  });

  await t.test('is passed on by an exchange, and shown by introspection', async (t) => {
    const access = session.mint('access', Date.now() * 1000);
    const token = await exchanged(target, access);
    t.strictSame(proofOf(token), ofSession);
    t.match((await introspect(target, gateway, access)).json(), { active: true, ...ofSession });
    t.match((await introspect(target, orders, token)).json(), { active: true, ...ofSession });
  });

  await t.test('is a second factor too, if a later release has signed it', async (t) => {
    const later = { acr: 'phrh', amr: ['hwk', 'user', 'mfa'] };
    const opened = (Date.now() - 60_000) * 1000;
    const kept = await aStoredSession(target, { latest: opened, first: opened }, { acr: 'mfa' });
    const access = asSignedLater(target, kept.mint('access', opened), later);
    const demanding = await call(target, 'GET /api/auth/verify?demand_acr=mfa', { token: access });
    t.equal(demanding.statusCode, 200);
    t.match((await introspect(target, gateway, access)).json(), { active: true, ...later });
    t.match(proofOf(await exchanged(target, access)), { acr: 'mfa', amr: AMR });
    const token = asSignedLater(target, kept.mint('refresh', opened), { amr: later.amr });
    t.match(proofOf(pairOf(await refresh(target, token)).access_token), { acr: 'mfa', amr: AMR });
  });

  await t.test('is nothing in tokens that outlive the login or have none', async (t) => {
    const shop = await aRegisteredService(target.databaseUrl, 'shop', ['call:orders']);
    const access = session.mint('access', Date.now() * 1000);
    for (const token of [
      (await createLongLived(target, access)).longlived_token,
      (await createLimited(target, access)).token,
      await serviceToken(target, shop),
    ])
      t.strictSame(proofOf(token), { auth_time: undefined, acr: undefined, amr: undefined });
  });
});
