import fastify from 'fastify';
import { test } from 'tap';
import type { RegisteredServices } from '../../../src/domain/services/authenticate.ts';
import type { ServiceIdentity } from '../../../src/domain/services/registered-service.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { registerErrorHandler } from '../../../src/http/error-handler.ts';
import {
  makeServiceCredentials,
  makeServiceHooks,
  serviceOf,
} from '../../../src/http/plugins/authenticate-service.ts';

/** A route behind the hook that returns the service. `tried` lists the credentials that reached the domain. */
function aRoute(
  authenticate: RegisteredServices['authenticate'],
  refusalOf: RegisteredServices['refusalOf'] = () => null,
) {
  const tried: [string, string][] = [];
  const app = fastify();
  registerErrorHandler(app);
  app.decorateRequest('serviceClient', null);
  app.decorateRequest('errorCode', null);
  const services: Pick<RegisteredServices, 'authenticate' | 'authenticateToken' | 'refusalOf'> = {
    authenticate: (serviceId, secret, right) => {
      tried.push([serviceId, secret]);
      return authenticate(serviceId, secret, right);
    },
    authenticateToken: ({ serviceId }) => Promise.resolve(identity(serviceId)),
    refusalOf,
  };
  const codec = { verifyFor: () => Promise.resolve('signature' as const) };
  const credentials = makeServiceCredentials({ services, codec, issuer: 'https://auth.example' });
  const hooks = makeServiceHooks(credentials, services)('users.read');
  app.get('/', { ...hooks }, (request) => serviceOf(request));
  app.get('/open', (request) => serviceOf(request));
  const get = (authorization?: string, url = '/') =>
    app.inject({ url, headers: authorization === undefined ? {} : { authorization } });
  return { tried, get };
}

const identity = (serviceId: string): ServiceIdentity => ({
  serviceId,
  name: 'billing',
  audience: null,
  proof: { by: 'secret', secretHash: new Uint8Array() },
});
const anyone = (serviceId: string) => Promise.resolve(identity(serviceId));
const BAD_SECRET = new AuthError('invalid_client', { reason: 'secret' });
const NO_RIGHT = new AuthError('right_missing', { right: 'users.read' });
const basic = (text: string | Buffer) => `Basic ${Buffer.from(text as string).toString('base64')}`;

test('id and secret come from Basic, each form-encoded', async (t) => {
  const { tried, get } = aRoute(anyone);
  const response = await get(basic('lkc_a:lks_b'));
  t.equal(response.statusCode, 200);
  t.match(response.json(), { serviceId: 'lkc_a', name: 'billing' });
  for (const header of [
    basic('lkc%5Fa:lks%5Fb'),
    basic('lkc_a:lks_b').replace('Basic ', 'bAsIc   '),
    `${basic('lkc_a:lks_b')}  `,
    basic('a:b+c%3A:d'),
    basic('日%C3%A9:b').replace(/=+$/, ''),
    basic('a:'),
  ])
    await get(header);
  t.strictSame(tried, [
    ['lkc_a', 'lks_b'],
    ['lkc_a', 'lks_b'],
    ['lkc_a', 'lks_b'],
    ['lkc_a', 'lks_b'],
    ['a', 'b c::d'],
    ['日é', 'b'],
    ['a', ''],
  ]);
});

test('the same header is decoded and hashed once, while its secret is good', async (t) => {
  let refusal: ReturnType<RegisteredServices['refusalOf']> = null;
  const { tried, get } = aRoute(anyone, () => refusal);
  const header = basic('lkc_a:lks_b');
  for (let i = 0; i < 3; i++) t.match((await get(header)).json(), { serviceId: 'lkc_a' });
  t.equal(tried.length, 1);
  await get(basic('lkc_a:lks_c'));
  t.equal(tried.length, 2, 'another secret');
  for (const reason of [BAD_SECRET, NO_RIGHT]) {
    refusal = reason;
    await get(header);
  }
  t.equal(tried.length, 4, 'a secret that is no longer good, and a right that was taken away');
});

test('a header that was refused is checked again', async (t) => {
  const { tried, get } = aRoute(() => Promise.reject(new AuthError('invalid_client', { reason: 'unknown' })));
  for (let i = 0; i < 2; i++) t.equal((await get(basic('lkc_a:lks_b'))).statusCode, 401);
  t.equal(tried.length, 2);
});

test('any other header is invalid_client, without a look-up', async (t) => {
  const { tried, get } = aRoute(anyone);
  for (const header of [
    undefined,
    '',
    'Basic',
    'Basic ',
    'Basic  ',
    'Bearer',
    'Bearer a b',
    basic('lkc_a:lks_b').replace('Basic ', ''),
    `${basic('lkc_a:lks_b')}, ${basic('lkc_a:lks_b')}`,
    basic('no colon'),
    basic('a:%zz'),
    basic('%:b'),
    basic(Buffer.from([0xff, 0x3a, 0x61])),
    'Basic bGtjX2E6bGtzX2I=*',
    'Basic bGtj X2E6bGtzX2I=',
    'Basic =',
    `Basic ${'A'.repeat(10_000)}`,
  ]) {
    const response = await get(header);
    t.equal(response.statusCode, 401, header ?? 'none');
    t.equal(response.headers['www-authenticate'], 'Basic realm="latchkey", charset="UTF-8"');
    t.match(response.json(), { code: 'invalid_client' });
  }
  t.strictSame(tried, []);
});

test('the domain’s refusal is the answer, without the secret', async (t) => {
  for (const [code, status] of [
    ['invalid_client', 401],
    ['unavailable', 503],
  ] as const) {
    const { get } = aRoute(() => Promise.reject(new AuthError(code)));
    const response = await get(basic('lkc_a:lks_hunter2'));
    t.equal(response.statusCode, status);
    t.match(response.json(), { code });
    t.notMatch(JSON.stringify([response.body, response.headers]), /hunter2|lkc_a/);
  }
});

test('a service deleted while its body arrives is refused', async (t) => {
  const { get } = aRoute(anyone, () => new AuthError('invalid_client', { reason: 'unknown' }));
  const response = await get(basic('lkc_a:lks_b'));
  t.equal(response.statusCode, 401);
  t.match(response.json(), { code: 'invalid_client' });
});

test('a service without the right is refused, which names it, also after its body has arrived', async (t) => {
  const refusing = () => Promise.reject(NO_RIGHT);
  for (const { get } of [aRoute(refusing), aRoute(anyone, () => NO_RIGHT)]) {
    const response = await get(basic('lkc_a:lks_b'));
    t.equal(response.statusCode, 403);
    t.equal(response.headers['www-authenticate'], undefined);
    t.match(response.json(), { code: 'right_missing', detail: /\busers\.read\b/ });
  }
});

test('a route that forgot its hook refuses every client', async (t) => {
  const { get } = aRoute(anyone);
  t.equal((await get(basic('lkc_a:lks_b'), '/open')).statusCode, 401);
});
