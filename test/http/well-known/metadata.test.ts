import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call } from '../../support/client.ts';
import { KEYS, withKeys } from '../../support/keys.ts';
import { until } from '../../support/until.ts';

const OAUTH = '/.well-known/oauth-authorization-server';
const OPENID = '/.well-known/openid-configuration';

test('the metadata name every endpoint below the issuer', async (t) => {
  const target = await buildTestApp(t, { env: { ISSUER: 'https://auth.example' } });
  for (const path of [OAUTH, OPENID]) {
    const response = await call(target, `GET ${path}`);
    t.match(response.headers, { 'cache-control': 'public, max-age=300', 'access-control-allow-origin': '*' });
    t.strictSame(response.json(), {
      issuer: 'https://auth.example',
      jwks_uri: 'https://auth.example/.well-known/jwks.json',
      introspection_endpoint: 'https://auth.example/api/auth/introspect',
      introspection_endpoint_auth_methods_supported: ['client_secret_basic'],
      revocation_endpoint: 'https://auth.example/api/auth/revoke',
      revocation_endpoint_auth_methods_supported: ['client_secret_basic'],
      token_endpoint: 'https://auth.example/api/auth/token',
      token_endpoint_auth_methods_supported: ['client_secret_basic', 'private_key_jwt'],
      token_endpoint_auth_signing_alg_values_supported:
        'ES256 ES384 ES512 RS256 RS384 RS512 PS256 PS384 PS512 EdDSA'.split(' '),
      response_types_supported: ['none'],
      grant_types_supported: ['urn:ietf:params:oauth:grant-type:token-exchange', 'client_credentials'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['ES256'],
      acr_values_supported: ['phr', 'mfa'],
      latchkey_verify_endpoint: 'https://auth.example/api/auth/verify',
      latchkey_revocations_endpoint: 'https://auth.example/api/auth/revocations',
    });
    const headers = { 'if-none-match': String(response.headers.etag) };
    t.equal((await call(target, `GET ${path}`, { headers })).statusCode, 304);
    t.equal((await call(target, `HEAD ${path}`)).statusCode, 200);
    t.equal((await call(target, `GET ${path}/other`)).statusCode, 404);
  }
});

test('with a path in the issuer, they are also at the path that each document derives from it', async (t) => {
  const target = await buildTestApp(t, { env: { ISSUER: 'https://example.com/auth/' } });
  for (const path of [OAUTH, `${OAUTH}/auth`, OPENID, `/auth${OPENID}`]) {
    t.match((await call(target, `GET ${path}`)).json(), {
      issuer: 'https://example.com/auth/',
      jwks_uri: 'https://example.com/auth/.well-known/jwks.json',
    });
  }
});

test('each algorithm of the loaded keys is named once, as soon as a key is there', async (t) => {
  const { target, folder } = await withKeys(t, 'ES256', 600);
  const named = async () =>
    (await call(target, `GET ${OPENID}`)).json<Record<string, string[]>>()
      .id_token_signing_alg_values_supported;
  t.strictSame(await named(), ['ES256']);
  writeFileSync(join(folder, '0002.pem'), KEYS.ES256());
  writeFileSync(join(folder, '0003.pem'), KEYS.RS256());
  await until(async () => (await target.composition.app.keyRing.reload()).signing.length === 3);
  t.strictSame((await named())?.sort(), ['ES256', 'RS256']);
});
