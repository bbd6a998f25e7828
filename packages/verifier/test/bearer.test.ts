import { test } from 'tap';
import { authenticate, authOf } from '../src/bearer.ts';
import type { VerifiedToken } from '../src/verified-token.ts';
import { invalid, unavailable } from '../src/verifier-error.ts';

const AUTH = { userId: 7, sid: 11, tokenType: 'access' } as VerifiedToken;

interface Problem {
  request_id: string;
}

function verifying(error?: Error) {
  const tokens: string[] = [];
  const verify = (token: string) => {
    tokens.push(token);
    return error ? Promise.reject(error) : Promise.resolve(AUTH);
  };
  return { verify, tokens };
}

test('takes the token from the Authorization header, as RFC 6750 writes it', async (t) => {
  for (const header of ['Bearer abc', 'bearer abc', 'BEARER   abc ']) {
    const verifier = verifying();
    t.strictSame(await authenticate(verifier, header), { auth: AUTH });
    t.strictSame(verifier.tokens, ['abc']);
  }
});

test('a missing token gets a bare challenge, a malformed one gets the reason', async (t) => {
  const headers: [header: string | undefined, challenge: string, code: string][] = [
    [undefined, 'Bearer', 'token_missing'],
    ['', 'Bearer', 'token_missing'],
    ['Basic abc', 'Bearer', 'token_missing'],
    ['Bearer', 'Bearer', 'token_missing'],
    ['Bearer ', 'Bearer', 'token_missing'],
    ['Bearer a b', 'Bearer error="invalid_token"', 'invalid_token'],
  ];
  for (const [header, challenge, code] of headers) {
    const verifier = verifying();
    const outcome = await authenticate(verifier, header);
    t.match(
      outcome,
      { refusal: { status: 401, headers: { 'www-authenticate': challenge } } },
      String(header),
    );
    t.match(JSON.parse('refusal' in outcome ? outcome.refusal.body : '{}'), { code, status: 401 });
    t.strictSame(verifier.tokens, []);
  }
});

test('an invalid token is 401 with its reason, an undecidable one 503 with Retry-After', async (t) => {
  const headers = { 'content-type': 'application/problem+json', 'cache-control': 'no-store' };
  const bad = await authenticate(verifying(invalid('signature', 'secret reason')), 'Bearer abc');
  t.match(bad, {
    refusal: { status: 401, headers: { ...headers, 'www-authenticate': 'Bearer error="invalid_token"' } },
  });
  const away = await authenticate(verifying(unavailable('unreachable', 'secret reason')), 'Bearer abc');
  t.match(away, { refusal: { status: 503, headers: { ...headers, 'retry-after': '1' } } });
  if (!('refusal' in bad) || !('refusal' in away)) throw new Error('not refused');
  t.notOk('www-authenticate' in away.refusal.headers);
  t.strictSame(JSON.parse(bad.refusal.body), {
    type: 'urn:latchkey:error:invalid_token',
    title: 'Invalid token',
    status: 401,
    detail: 'The token is not good (any more).',
    code: 'invalid_token',
    request_id: (JSON.parse(bad.refusal.body) as Problem).request_id,
  });
  t.match(JSON.parse(away.refusal.body), {
    type: 'urn:latchkey:error:unavailable',
    status: 503,
    code: 'unavailable',
  });
});

test('a problem names the request, as a listener hears it', async (t) => {
  const heard: string[] = [];
  const idOf = async (given?: unknown) => {
    const note = (_error: unknown, requestId: string) => heard.push(requestId);
    const outcome = await authenticate(verifying(), '', note, undefined, given);
    return 'refusal' in outcome ? (JSON.parse(outcome.refusal.body) as Problem).request_id : undefined;
  };
  for (const given of ['a', '3f0c-1', 'x'.repeat(64)]) t.equal(await idOf(given), given);
  const made = [undefined, null, '', 'x'.repeat(65), 'a b', 'é', '"', ['a'], 7];
  for (const given of made) t.match(await idOf(given), /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
  t.equal(new Set(heard).size, 3 + made.length, 'a new one each time');
});

test('an internal fault is not a 401', async (t) => {
  await t.rejects(authenticate(verifying(new RangeError('a fault')), 'Bearer abc'), RangeError);
});

test('a route without a verifier fails closed', (t) => {
  t.equal(authOf({ auth: AUTH }), AUTH);
  for (const request of [{}, { auth: null }, { auth: undefined }])
    t.throws(() => authOf(request), /no verifier/);
  t.end();
});

test('a service’s token is for those who pass a verifier that accepts it', (t) => {
  const auth = { tokenType: 'service', clientId: 'lkc_shop' };
  t.throws(() => authOf({ auth }), /token of type service: call authOf\(request, verifier\)/);
  t.throws(() => authOf({ auth }, { accept: ['access', 'llt'] }), /type service/);
  t.equal(authOf({ auth }, { accept: ['access', 'service'] }), auth);
  t.throws(() => authOf({ auth: AUTH }, { accept: ['service'] }), /type access/);
  t.end();
});

test('tells the service why a request was refused, also one without a token', async (t) => {
  const heard: string[] = [];
  const note = ({ reason }: { reason: string }) => heard.push(reason);
  await authenticate(verifying(), 'Bearer abc', note);
  t.strictSame(heard, []);
  await authenticate(verifying(), 'Basic abc', note);
  await authenticate(verifying(invalid('audience', 'no')), 'Bearer abc', note);
  await authenticate(verifying(unavailable('configuration', 'no')), 'Bearer abc', note);
  await authenticate(verifying(), 'Bearer a b', note);
  t.strictSame(heard, ['missing', 'audience', 'configuration', 'malformed']);
});

test('a log that fails changes no answer, and ends no process', async (t) => {
  const failed = () => {
    throw new Error('the log is full');
  };
  const rejecting = (): unknown => Promise.reject(new Error('the log is full'));
  for (const onRefused of [failed, rejecting])
    t.match(await authenticate(verifying(), '', onRefused), { refusal: { status: 401 } });
});
