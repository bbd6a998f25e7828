import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import type { LightMyRequestResponse } from 'fastify';
import { test, type Test } from 'tap';
import type { PublicJwks } from '../../../src/domain/services/assertion.ts';
import { JWT_BEARER } from '../../../src/http/auth/token.ts';
import { buildTestApp } from '../../support/app.ts';
import { exchangeForm } from '../../support/audiences.ts';
import { makeCertificates } from '../../support/certificates.ts';
import { bearer, claimsOf, signUp } from '../../support/client.ts';
import { aMovedClock } from '../../support/clock.ts';
import { DISCOVERY, fakeIssuer, JWKS, SUBJECT } from '../../support/fake-issuer.ts';
import { testFolder } from '../../support/folder.ts';
import { logLines } from '../../support/log-lines.ts';
import { testDatabase } from '../../support/postgres.ts';
import { refusedForOAuth } from '../../support/problem.ts';
import { aRegisteredService, basic, postForm, withRegistry } from '../../support/registered-service.ts';
import { serviceToken } from '../../support/service-tokens.ts';
import { readyService } from '../../support/service.ts';
import { forge } from '../../support/tokens.ts';
import { until } from '../../support/until.ts';
import '../../support/watch-leaks.ts';

const ISSUER = 'https://auth.example';

/** `orders` has an audience that `shop` may call; the issuer's workload opens `shop`. */
async function aWorld(t: Test, env = {}) {
  const pass = aMovedClock(t);
  const target = await buildTestApp(t, { env: { ISSUER, LOG_REQUESTS: 'all', ...env } });
  const { databaseUrl } = target;
  await aRegisteredService(databaseUrl, 'orders', [], 'orders');
  const shop = await aRegisteredService(databaseUrl, 'shop', ['call:orders', 'exchange']);
  const issuer = await fakeIssuer(t, { audience: ISSUER });
  const registry = <Result>(work: Parameters<typeof withRegistry<Result>>[1]) =>
    withRegistry(databaseUrl, work);
  const trust = (name: string, by: string, subject = SUBJECT, jwks: PublicJwks | null = null) =>
    registry((clients) => clients.trust(name, { issuer: by, subject }, jwks));
  await trust('shop', issuer.url);
  /** No request waits for its turn to load the clients. */
  const ask = (assertion: string, other: Record<string, string> = {}, headers = {}) => {
    pass(1000);
    return postForm(target, '/api/auth/token', null, formOf(assertion, other), headers);
  };
  return { target, shop, issuer, registry, trust, ask, pass };
}

/** A parameter that is '' is left out. */
function formOf(assertion: string, other: Record<string, string> = {}): Record<string, string> {
  const form = {
    grant_type: 'client_credentials',
    audience: 'orders',
    client_assertion_type: JWT_BEARER,
    client_assertion: assertion,
    ...other,
  };
  return Object.fromEntries(Object.entries(form).filter(([, value]) => value !== ''));
}

/** The answer tells an attacker nothing: outside production one reason stands for all. */
function unauthenticated(t: Test, response: LightMyRequestResponse, reason = 'assertion'): void {
  refusedForOAuth(t, response, 401, 'invalid_client');
  t.equal(response.json<{ reason: string }>().reason, reason);
}

function invalid(t: Test, response: LightMyRequestResponse, path: string): void {
  refusedForOAuth(t, response, 400, 'validation_failed', [path]);
}

test('a workload gets a token of its client, again and again, and exchanges', async (t) => {
  const { target, shop, issuer, ask } = await aWorld(t);
  const assertion = await issuer.sign();
  for (const other of [{}, { client_id: shop.serviceId }]) {
    const response = await ask(assertion, other);
    t.equal(response.statusCode, 200);
    t.match(claimsOf(response.json<{ access_token: string }>().access_token), {
      aud: 'orders',
      sub: shop.serviceId,
      client_id: shop.serviceId,
      client_version: 1,
    });
  }
  t.equal((await ask(await issuer.sign({ aud: ISSUER }, { typ: 'any' }))).statusCode, 200);
  t.equal((await ask(assertion, { audience: ISSUER })).statusCode, 200);
  refusedForOAuth(t, await ask(assertion, { audience: 'stock' }), 403, 'right_missing');
  t.strictSame(issuer.requests, [`GET ${DISCOVERY}`, `GET ${JWKS}`], 'its keys are known');

  const { access_token: user } = await signUp(target);
  const acting = await ask(assertion, exchangeForm(user, 'orders'));
  t.match(claimsOf(acting.json<{ access_token: string }>().access_token), { act: { sub: shop.serviceId } });
});

test('an exchange needs the right also with an assertion', async (t) => {
  const { target, issuer, registry, ask } = await aWorld(t);
  await registry((clients) => clients.allow('shop', ['call:orders']));
  const { access_token: user } = await signUp(target);
  const response = await ask(await issuer.sign(), exchangeForm(user, 'orders'));
  refusedForOAuth(t, response, 403, 'right_missing');
});

test('an assertion that is not good for this client opens nothing, and the answer does not say why', async (t) => {
  const { target, issuer, registry, trust, pass } = await aWorld(t);
  const other = await aRegisteredService(target.databaseUrl, 'other', ['call:orders']);
  await trust('other', issuer.url, 'another');
  await aRegisteredService(target.databaseUrl, 'former');
  await trust('former', issuer.url, 'disabled');
  await registry((clients) => clients.disable('former'));
  const stranger = await fakeIssuer(t, { audience: ISSUER });
  const own = await generateKeyPair('ES256');
  const [{ kid = '' } = {}] = issuer.published;
  const claims = claimsOf(await issuer.sign());
  const cases: [cause: string, assertion: () => Promise<string> | string, client?: string][] = [
    ['issuer', () => stranger.sign()],
    ['client_id', () => issuer.sign(), other.serviceId],
    ['disabled', () => issuer.sign({ sub: 'disabled' })],
    ['algorithm', () => forge({ alg: 'none', kid }, claims)],
    ['signature', () => issuer.sign({}, { alg: 'ES256', kid }, own.privateKey)],
    ['expired', () => issuer.sign({ exp: Math.floor(Date.now() / 1000) - 40 })],
  ];
  for (const [cause, assertion, client_id = ''] of cases) {
    const before = await countOf(target, cause);
    const form = { ...formOf('x', { client_id }), client_assertion: await assertion() };
    pass(1000);
    unauthenticated(t, await postForm(target, '/api/auth/token', null, form));
    t.equal(await countOf(target, cause), before + 1, cause);
    t.match(lastCause(target), { reason: cause, todo: /\w/ });
  }
  t.strictSame(stranger.requests, [], 'no key is fetched from where a token says');
});

async function countOf(
  { composition }: Pick<Awaited<ReturnType<typeof buildTestApp>>, 'composition'>,
  cause: string,
) {
  const metrics = await composition.ops.metrics();
  return Number(new RegExp(`latchkey_client_assertions_total{outcome="${cause}"} (\\d+)`).exec(metrics)?.[1]);
}

function lastCause({ log }: { log: () => string }): Record<string, unknown> | undefined {
  return logLines(log()).findLast(({ msg }) => msg === "a client's assertion was refused");
}

test('a request authenticates in exactly one way, and is understood', async (t) => {
  const { target, shop, issuer, ask } = await aWorld(t);
  const assertion = await issuer.sign();
  const { access_token: user } = await signUp(target);
  for (const { secret } of [shop, { secret: 'lks_wrong' }])
    invalid(t, await ask(assertion, {}, basic({ ...shop, secret })), '/client_assertion');
  for (const token of [user, await serviceToken(target, shop, ISSUER)])
    invalid(t, await ask(assertion, {}, bearer(token)), '/client_assertion');
  invalid(t, await ask(assertion, exchangeForm(user, 'orders'), bearer(user)), '/client_assertion');
  invalid(t, await ask(assertion, { client_assertion_type: '' }), '/client_assertion_type');
  const saml = 'urn:ietf:params:oauth:client-assertion-type:saml2-bearer';
  invalid(t, await ask(assertion, { client_assertion_type: saml }), '/client_assertion_type');
  invalid(t, await ask(''), '/client_assertion');
  invalid(t, await ask(assertion, { audience: '' }), '/audience');
  const text = new URLSearchParams(formOf(assertion)).toString();
  for (const twice of [
    'client_assertion=x',
    `client_assertion_type=${JWT_BEARER}`,
    'audience=x',
    'client_id=x&client_id=x',
  ])
    invalid(t, await postForm(target, '/api/auth/token', null, `${text}&${twice}`), '');
  const large = await ask(await issuer.sign({ more: 'x'.repeat(17 * 1024) }));
  refusedForOAuth(t, large, 413, 'body_too_large');
});

test('a secret goes by HTTP Basic alone, and with no other client’s id', async (t) => {
  const { target, shop } = await aWorld(t);
  const form = { grant_type: 'client_credentials', audience: 'orders' };
  const post = (by: typeof shop | null, more: Record<string, string>, headers = {}) =>
    postForm(target, '/api/auth/token', by, { ...form, ...more }, headers);
  t.equal((await post(shop, { client_id: shop.serviceId })).statusCode, 200);
  unauthenticated(t, await post(shop, { client_id: 'lkc_other' }), 'client_id');
  const ofOther = { client_id: 'lkc_other', ...exchangeForm((await signUp(target)).access_token, 'orders') };
  unauthenticated(
    t,
    await post(null, ofOther, bearer(await serviceToken(target, shop, ISSUER))),
    'client_id',
  );
  for (const by of [shop, { ...shop, secret: 'lks_wrong' }, null])
    invalid(t, await post(by, { client_id: shop.serviceId, client_secret: shop.secret }), '/client_secret');
  for (const grant_type of ['password', ''])
    refusedForOAuth(t, await post(null, { grant_type }, bearer('x')), 401, 'invalid_token');
});

test('keys of a file, which a later one replaces: a client’s own key, too', async (t) => {
  const { target, shop, trust, ask, registry } = await aWorld(t);
  target.composition.start();
  const { serviceId } = shop;
  const aKey = async (kid: string) => {
    const { publicKey, privateKey } = await generateKeyPair('EdDSA', { extractable: true });
    const assertion = new SignJWT({ iss: serviceId, sub: serviceId, aud: ISSUER })
      .setProtectedHeader({ alg: 'EdDSA', kid })
      .setExpirationTime(Math.floor(Date.now() / 1000) + 600);
    return {
      jwks: { keys: [{ ...(await exportJWK(publicKey)), kid }] },
      assertion: await assertion.sign(privateKey),
    };
  };
  const [first, second] = [await aKey('1'), await aKey('2')];
  await trust('shop', serviceId, serviceId, first.jwks);
  t.equal((await ask(first.assertion)).statusCode, 200);
  unauthenticated(t, await ask(second.assertion));
  await trust('shop', serviceId, serviceId, second.jwks);
  await until(async () => (await ask(second.assertion)).statusCode === 200);
  unauthenticated(t, await ask(first.assertion));
  await registry((clients) => clients.untrust('shop', { issuer: serviceId, subject: serviceId }));
  await until(async () => (await ask(second.assertion)).statusCode === 401);
});

test('requests with known keys do not wait for an issuer that is silent', async (t) => {
  const { issuer, ask, pass } = await aWorld(t);
  const known = await issuer.sign();
  t.equal((await ask(known)).statusCode, 200);
  issuer.ill.set(DISCOVERY, 'silence');
  pass(10_000);
  const before = issuer.requests.length;
  let isAnswered = false;
  const waiting = ask(await issuer.sign({}, { kid: 'unknown' })).then((response) => {
    isAnswered = true;
    return response;
  });
  await until(() => issuer.requests.length > before);
  t.equal((await ask(known)).statusCode, 200);
  t.notOk(isAnswered);
  refusedForOAuth(t, await waiting, 503, 'unavailable');
});

/** In a process: SIGUSR2 moves its monotonic clock, which spaces the fetches of keys, by an hour. */
const MOVED_BY_SIGNAL = `const now = performance.now.bind(performance);
let shift = 0;
performance.now = () => now() + shift;
process.on('SIGUSR2', () => (shift += 3_600_000));`;

test('Kubernetes’ issuer over TLS: its keys rotate, it is away, and a replica starts meanwhile', async (t) => {
  const tls = makeCertificates(testFolder(t), 'issuer');
  const issuer = await fakeIssuer(t, { audience: ISSUER, tls });
  const { url: DATABASE_URL } = await testDatabase(t);
  await aRegisteredService(DATABASE_URL, 'shop');
  await withRegistry(DATABASE_URL, (clients) =>
    clients.trust('shop', { issuer: issuer.url, subject: SUBJECT }, null),
  );
  const NODE_OPTIONS = `--import=data:text/javascript,${encodeURIComponent(MOVED_BY_SIGNAL)}`;
  const env = { DATABASE_URL, ISSUER, NODE_EXTRA_CA_CERTS: tls.caFile, NODE_OPTIONS };
  const ask = async (url: string, assertion: string) => {
    const body = new URLSearchParams(formOf(assertion, { audience: ISSUER }));
    return (await fetch(`${url}/api/auth/token`, { method: 'POST', body })).status;
  };
  const aReplica = (settings: Record<string, string> = env) => readyService(t, settings);
  const old = await issuer.sign();
  const first = await aReplica();
  t.equal(await ask(first.url, old), 200);
  await issuer.rotate();
  const next = await issuer.sign();
  first.process.kill('SIGUSR2');
  await until(async () => (await ask(first.url, next)) === 200);
  t.equal(await ask(first.url, old), 401);

  await issuer.stop();
  const unknown = await issuer.sign({}, { kid: 'unknown' });
  t.equal(await ask(first.url, unknown), 401, 'the last fetch worked');
  first.process.kill('SIGUSR2');
  await until(async () => (await ask(first.url, unknown)) === 503);
  t.equal(await ask(first.url, next), 200, 'known keys stay');
  await first.stop();

  const second = await aReplica();
  t.equal(await ask(second.url, next), 503, 'its keys are not known yet');
  await issuer.start();
  second.process.kill('SIGUSR2');
  await until(async () => (await ask(second.url, next)) === 200);
  await second.stop();
  const third = await aReplica({ ...env, NODE_EXTRA_CA_CERTS: '' });
  t.equal(await ask(third.url, await issuer.sign()), 503, 'without its CA');
});
