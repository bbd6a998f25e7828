import { KeyObject } from 'node:crypto';
import { test, type Test } from 'tap';
import type { PublicJwks } from '../../../src/domain/services/assertion.ts';
import { makeIssuerKeys } from '../../../src/infra/issuers/issuer-keys.ts';
import { makeCertificates } from '../../support/certificates.ts';
import { aClock } from '../../support/clock.ts';
import { DISCOVERY, fakeIssuer, JWKS, type FakeIssuer, type Ill } from '../../support/fake-issuer.ts';
import { until } from '../../support/until.ts';
import { testFolder } from '../../support/folder.ts';

const AUDIENCE = 'https://auth.example.com';
const FETCH = [`GET ${DISCOVERY}`, `GET ${JWKS}`];

type Line = Record<string, unknown>;

async function aKeySource(t: Test, fetch: typeof globalThis.fetch = globalThis.fetch, timeout = 5000) {
  const issuer = await fakeIssuer(t, { audience: AUDIENCE });
  const clock = aClock();
  const registered = new Map<string, PublicJwks | null>([[issuer.url, null]]);
  const lines: Line[] = [];
  const log = { warn: (fields: object) => lines.push(fields as Line) };
  const keys = makeIssuerKeys({ registered: () => registered, clock, fetch, log, timeout });
  const keyFor = async (kid: string | undefined, alg = 'ES256', of = issuer.url): Promise<string> => {
    const found = await keys.keyFor(of, { kid, alg });
    return found instanceof KeyObject ? `${found.type} ${String(found.asymmetricKeyType)}` : found;
  };
  return { issuer, clock, registered, lines, keys, keyFor };
}

function kidOf({ published }: FakeIssuer): string {
  return published[0]?.kid ?? '';
}

test('a known key needs no fetch', async (t) => {
  const { issuer, keys, keyFor } = await aKeySource(t);
  await keys.refreshAll();
  t.equal(await keyFor(kidOf(issuer)), 'public ec');
  t.equal(await keyFor(kidOf(issuer), 'ES384'), 'algorithm');
  t.strictSame(issuer.requests, FETCH);
});

test('a new issuer is fetched without waiting for a token, and once', async (t) => {
  const { issuer, registered, keys } = await aKeySource(t);
  registered.set('https://file.invalid', { keys: [] });
  for (let i = 0; i < 3; i++) keys.fetchNew();
  await until(() => issuer.requests.length === FETCH.length);
  keys.fetchNew();
  t.strictSame(issuer.requests, FETCH);
});

test('a token without a kid is of the only key', async (t) => {
  const { issuer, keys, keyFor } = await aKeySource(t);
  await keys.refreshAll();
  t.equal(await keyFor(undefined), 'public ec');
  await issuer.addKey('ES256');
  await keys.refreshAll();
  t.equal(await keyFor(undefined), 'unknown_key');
});

test('nothing is fetched for an issuer that is not registered', async (t) => {
  const { issuer, registered, keys, keyFor } = await aKeySource(t);
  await keys.refreshAll();
  registered.clear();
  await keys.refreshAll();
  t.equal(await keyFor(kidOf(issuer)), 'issuer');
  t.strictSame(issuer.requests, FETCH);
  registered.set(issuer.url, null);
  await issuer.stop();
  t.equal(await keyFor(kidOf(issuer)), 'unavailable', 'its keys were dropped');
});

test('the keys of a file are used alone', async (t) => {
  const { issuer, registered, keys, keyFor } = await aKeySource(t);
  const other = await fakeIssuer(t, { audience: AUDIENCE });
  registered.set(issuer.url, { keys: other.published });
  await keys.refreshAll();
  t.equal(await keyFor(kidOf(other)), 'public ec');
  t.equal(await keyFor(kidOf(issuer)), 'unknown_key');
  t.strictSame([...issuer.requests, ...other.requests], []);
});

test('an unknown kid fetches the keys, at most every 10 s', async (t) => {
  const { issuer, clock, keyFor } = await aKeySource(t);
  const first = kidOf(issuer);
  t.equal(await keyFor(first), 'public ec', 'the first fetch');
  await issuer.rotate();
  clock.pass(9999);
  t.equal(await keyFor(kidOf(issuer)), 'unknown_key');
  t.equal(issuer.requests.length, 2);
  clock.pass(1);
  t.equal(await keyFor(kidOf(issuer)), 'public ec');
  t.equal(await keyFor(first), 'unknown_key', 'the key that was replaced');
  t.equal(issuer.requests.length, 4);
});

test('concurrent calls share a fetch', async (t) => {
  const { issuer, keys, keyFor } = await aKeySource(t);
  const calls = [keyFor('unknown'), keys.refreshAll(), keyFor('other'), keyFor(kidOf(issuer))];
  t.strictSame(await Promise.all(calls), ['unknown_key', undefined, 'unknown_key', 'public ec']);
  t.strictSame(issuer.requests, FETCH);
});

test('known keys stay while the issuer is away; whether an unknown one is bad is not known', async (t) => {
  const { issuer, clock, keys, keyFor, lines } = await aKeySource(t);
  await keys.refreshAll();
  const known = kidOf(issuer);
  await issuer.stop();
  await issuer.rotate();
  t.equal(await keyFor(kidOf(issuer)), 'unknown_key', 'the last fetch worked');
  clock.pass(86_400_000);
  await keys.refreshAll();
  t.equal(await keyFor(known), 'public ec');
  t.equal(await keyFor(kidOf(issuer)), 'unavailable');
  t.match(lines, [{ issuer: issuer.url, code: 'ECONNREFUSED', todo: /that the server runs/, failing: 1 }]);
  await issuer.start();
  t.equal(await keyFor(kidOf(issuer)), 'unavailable', 'within 10 s');
  clock.pass(10_000);
  t.equal(await keyFor(kidOf(issuer)), 'public ec');
});

const ILL: [Ill, string, RegExp][] = [
  ...[DISCOVERY, JWKS].flatMap((path): [Ill, string, RegExp][] => [
    ['silence', path, /did not answer in time/],
    ['redirect', path, /its status is 302/],
    ['500', path, /its status is 500/],
    ['1 MB', path, /it is larger than 262144 bytes/],
    ['no JSON', path, /it is no JSON/],
  ]),
  ['another document', DISCOVERY, /its issuer is "http:.*\/"/],
  ['another document', JWKS, /it is no key set/],
];

for (const [ill, path, reason] of ILL) {
  test(`an issuer that answers ${path} with ${ill} is away`, async (t) => {
    const { issuer, clock, keyFor, lines } = await aKeySource(t, fetch, ill === 'silence' ? 200 : 5000);
    issuer.ill.set(path, ill);
    t.equal(await keyFor(kidOf(issuer)), 'unavailable');
    t.match(lines, [{ issuer: issuer.url, reason, todo: /./ }]);
    t.strictSame(issuer.requests, FETCH.slice(0, path === DISCOVERY ? 1 : 2));
    issuer.ill.clear();
    clock.pass(10_000);
    t.equal(await keyFor(kidOf(issuer)), 'public ec');
  });
}

test('an https issuer cannot send us to http', async (t) => {
  const asked: string[] = [];
  const answer = (url: unknown) => {
    asked.push(String(url));
    return Promise.resolve(
      Response.json({ issuer: 'https://iss.example.com', jwks_uri: 'http://127.0.0.1/keys' }),
    );
  };
  const { registered, keyFor, lines } = await aKeySource(t, answer);
  registered.set('https://iss.example.com', null);
  t.equal(await keyFor('a', 'ES256', 'https://iss.example.com'), 'unavailable');
  t.strictSame(asked, [`https://iss.example.com${DISCOVERY}`]);
  t.match(lines, [{ reason: /its jwks_uri is "http:\/\/127.0.0.1\/keys"/ }]);
});

test('an issuer whose certificate is not trusted is away', async (t) => {
  const tls = makeCertificates(testFolder(t), 'issuer');
  const secured = await fakeIssuer(t, { audience: AUDIENCE, tls });
  const { registered, keyFor, lines } = await aKeySource(t);
  registered.set(secured.url, null);
  t.equal(await keyFor(kidOf(secured), 'ES256', secured.url), 'unavailable');
  t.strictSame(secured.requests, []);
  t.match(lines, [{ code: /CERT|SIGNATURE/, todo: /NODE_EXTRA_CA_CERTS must hold the CA/ }]);
});

test('an issuer that is no URL needs a file', async (t) => {
  const { registered, keyFor, lines } = await aKeySource(t);
  registered.set('orders', null);
  t.equal(await keyFor('a', 'ES256', 'orders'), 'unavailable');
  t.match(lines, [{ issuer: 'orders', code: 'url', todo: /--jwks FILE/ }]);
});

test('failed fetches leave at most one line a second', async (t) => {
  const { issuer, registered, clock, keys, lines } = await aKeySource(t);
  await issuer.stop();
  registered.set('http://127.0.0.1:1', null);
  await keys.refreshAll();
  t.equal(lines.length, 1);
  clock.pass(1000);
  await keys.refreshAll();
  t.equal(lines.length, 2);
  t.match(lines[1], { failing: 2 });
});
