import { createPublicKey, verify as verifySignature } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { call, headerOf, signUp } from '../../support/client.ts';
import { KEYS, withKeys } from '../../support/keys.ts';
import { refused } from '../../support/problem.ts';
import { until } from '../../support/until.ts';

const PATH = '/.well-known/jwks.json';

test('the JWKS holds all public keys, those not signing yet too, and nothing private', async (t) => {
  const { target, folder } = await withKeys(t, 'ES256', 600);
  writeFileSync(join(folder, '0002.pem'), KEYS.EdDSA());
  writeFileSync(join(folder, '0003.pem'), KEYS.RS256());
  await until(async () => (await target.composition.app.keyRing.reload()).signing.length === 3);
  const response = await call(target, `GET ${PATH}`);
  const { keys } = response.json<{ keys: Record<string, string>[] }>();
  t.strictSame(
    keys.map((key) => Object.keys(key).sort()),
    [
      ['alg', 'crv', 'kid', 'kty', 'use', 'x', 'y'],
      ['alg', 'e', 'kid', 'kty', 'n', 'use'],
      ['alg', 'crv', 'kid', 'kty', 'use', 'x'],
    ],
  );
  t.match(keys, [
    { alg: 'ES256', kty: 'EC', crv: 'P-256', use: 'sig' },
    { alg: 'RS256', kty: 'RSA', use: 'sig' },
    { alg: 'EdDSA', kty: 'OKP', crv: 'Ed25519', use: 'sig' },
  ]);
  for (const key of keys) t.equal(createPublicKey({ key, format: 'jwk' }).type, 'public');

  const { access_token: token } = await signUp(target);
  const [signer] = keys;
  t.equal(headerOf(token).kid, signer?.kid, 'the older key signs');
  const [header, claims, signature = ''] = token.split('.');
  const key = {
    key: createPublicKey({ key: signer ?? {}, format: 'jwk' }),
    dsaEncoding: 'ieee-p1363' as const,
  };
  t.ok(
    verifySignature('sha256', Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url')),
  );
});

test('it can be cached, and an unchanged one is 304', async (t) => {
  const { target, folder } = await withKeys(t, 'ES256', 600);
  const first = await call(target, `GET ${PATH}`);
  t.match(first.headers, {
    'cache-control': 'public, max-age=300',
    'access-control-allow-origin': '*',
    'content-type': /^application\/json/,
    etag: /^"[\w-]{43}"$/,
  });
  const etag = String(first.headers.etag);
  const ask = (tags: string) => call(target, `GET ${PATH}`, { headers: { 'if-none-match': tags } });
  for (const tags of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    const { statusCode, body, headers } = await ask(tags);
    t.match(
      { statusCode, body, headers },
      { statusCode: 304, body: '', headers: { etag, 'cache-control': /300/ } },
    );
  }
  t.equal((await ask('"other"')).statusCode, 200);
  t.match(await call(target, `HEAD ${PATH}`), { statusCode: 200, headers: { etag } });
  refused(t, await call(target, `POST ${PATH}`), 405, 'method_not_allowed');

  writeFileSync(join(folder, '0002.pem'), KEYS.ES256());
  await until(async () => (await target.composition.app.keyRing.reload()).signing.length === 2);
  const changed = await ask(etag);
  t.equal(changed.statusCode, 200);
  t.not(changed.headers.etag, etag);
});
