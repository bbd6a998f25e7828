import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call } from '../../support/client.ts';

const PATH = '/.well-known/oauth-authorization-server';

test('the metadata name every endpoint below the issuer', async (t) => {
  const target = await buildTestApp(t, { env: { ISSUER: 'https://auth.example' } });
  const response = await call(target, `GET ${PATH}`);
  t.match(response.headers, { 'cache-control': 'public, max-age=300', 'access-control-allow-origin': '*' });
  t.strictSame(response.json(), {
    issuer: 'https://auth.example',
    jwks_uri: 'https://auth.example/.well-known/jwks.json',
    introspection_endpoint: 'https://auth.example/api/auth/introspect',
    introspection_endpoint_auth_methods_supported: ['client_secret_basic'],
    revocation_endpoint: 'https://auth.example/api/auth/revoke',
    revocation_endpoint_auth_methods_supported: ['client_secret_basic'],
    token_endpoint: 'https://auth.example/api/auth/exchange',
    token_endpoint_auth_methods_supported: ['client_secret_basic'],
    response_types_supported: ['none'],
    grant_types_supported: ['urn:ietf:params:oauth:grant-type:token-exchange'],
    latchkey_verify_endpoint: 'https://auth.example/api/auth/verify',
    latchkey_revocations_endpoint: 'https://auth.example/api/auth/revocations',
  });
  const headers = { 'if-none-match': String(response.headers.etag) };
  t.equal((await call(target, `GET ${PATH}`, { headers })).statusCode, 304);
  t.equal((await call(target, `HEAD ${PATH}`)).statusCode, 200);
  t.equal((await call(target, `GET ${PATH}/other`)).statusCode, 404);
});

test('with a path in the issuer, they are also at RFC 8414’s path for it', async (t) => {
  const target = await buildTestApp(t, { env: { ISSUER: 'https://example.com/auth/' } });
  for (const path of [PATH, `${PATH}/auth`]) {
    t.match((await call(target, `GET ${path}`)).json(), {
      issuer: 'https://example.com/auth/',
      jwks_uri: 'https://example.com/auth/.well-known/jwks.json',
    });
  }
});
