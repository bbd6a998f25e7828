import { test } from 'tap';
import type { VerifiedToken } from '../src/verified-token.ts';
import { invalid, unavailable } from '../src/verifier-error.ts';
import { refusalOf, verifyRequest } from '../src/verify-request.ts';

const AUTH = { userId: 7, sid: 11, tokenType: 'access' } as VerifiedToken;

const aVerifier = (verify: () => Promise<VerifiedToken>) => ({ accept: ['access', 'llt'] as const, verify });

const aRequest = (authorization?: string) =>
  new Request(
    'https://shop.example.com/orders',
    authorization === undefined ? {} : { headers: { authorization } },
  );

test('a good token is returned, and nothing is answered', async (t) => {
  const verified = await verifyRequest(
    aVerifier(() => Promise.resolve(AUTH)),
    aRequest('Bearer abc'),
  );
  t.strictSame(verified, { auth: AUTH });
});

test('a refused request comes with its response, and the service hears why', async (t) => {
  const heard: string[] = [];
  const ids: string[] = [];
  const answer = async (error: Error, authorization?: string) => {
    const verifier = aVerifier(() => Promise.reject(error));
    const { auth, response } = await verifyRequest(verifier, aRequest(authorization), {
      onRefused: ({ reason }, { method, url }, id) => {
        heard.push(`${reason} ${method} ${url}`);
        ids.push(id);
      },
    });
    t.equal(auth, undefined);
    return response ?? Response.error();
  };
  const bad = await answer(invalid('signature', 'secret reason'), 'Bearer abc');
  t.equal(bad.status, 401);
  t.equal(bad.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
  t.equal(bad.headers.get('content-type'), 'application/problem+json');
  t.match(await bad.json(), {
    type: 'urn:latchkey:error:invalid_token',
    code: 'invalid_token',
    status: 401,
    request_id: ids[0],
  });
  const none = await answer(invalid('signature', 'no'));
  t.equal(none.status, 401);
  t.equal(none.headers.get('www-authenticate'), 'Bearer');
  const away = await answer(unavailable('unreachable', 'secret reason'), 'Bearer abc');
  t.equal(away.status, 503);
  t.equal(away.headers.get('retry-after'), '1');
  t.notMatch(await away.text(), /secret/);
  const from = 'GET https://shop.example.com/orders';
  t.strictSame(heard, [`signature ${from}`, `missing ${from}`, `unreachable ${from}`]);
});

test('an error of a token’s exchange becomes the same response, and a fault stays the framework’s', async (t) => {
  const refused = refusalOf(invalid('inactive', 'Latchkey refuses to exchange it'));
  t.equal(refused.status, 401);
  t.equal(refused.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
  t.match(await refused.json(), { code: 'invalid_token', request_id: /./ });
  const away = refusalOf(unavailable('configuration', 'the client has no right'));
  t.equal(away.status, 503);
  t.equal(away.headers.get('retry-after'), '1');
  t.match(await away.json(), { code: 'unavailable' });
  t.throws(() => refusalOf(new RangeError('a fault')), RangeError);
  await t.rejects(
    verifyRequest(
      aVerifier(() => Promise.reject(new RangeError('a fault'))),
      aRequest('Bearer abc'),
    ),
    RangeError,
  );
});
