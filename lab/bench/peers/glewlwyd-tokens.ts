import { generateKeyPairSync } from 'node:crypto';
import { basic } from '../../../test/support/registered-service.ts';
import type { BareTokens } from '../../../test/support/measured-server.ts';

export const CLIENT = { serviceId: 'bench', secret: 'a-secret-of-the-bench-0123456789' };

const SCOPE = 'bench';
const PASSWORD = 'difference engine';
/** The administrator of a new installation (GETTING_STARTED.md of Glewlwyd). */
const ADMINISTRATOR = { username: 'admin', password: 'password' };

/** Sets up OpenID Connect with ES256 through the API of the administrator, and takes a token pair for each new user. */
export async function makeTokens(origin: string, users: number): Promise<BareTokens> {
  const cookie = await logIn(origin);
  const add = async (path: string, body: object) => {
    const headers = { cookie, 'content-type': 'application/json' };
    await checked(`${origin}/api/${path}/`, { method: 'POST', headers, body: JSON.stringify(body) });
  };
  await add('mod/plugin', oidcPlugin(origin));
  await add('scope', { name: SCOPE, display_name: SCOPE, password_required: true, password_max_age: 0 });
  await add('client', {
    client_id: CLIENT.serviceId,
    client_secret: CLIENT.secret,
    name: 'bench',
    confidential: true,
    enabled: true,
    scope: [SCOPE],
    redirect_uri: ['https://app.example.com/callback'],
    authorization_type: ['code', 'password', 'client_credentials', 'refresh_token'],
    token_endpoint_auth_method: ['client_secret_basic'],
  });
  const tokens: BareTokens = { access: [], refresh: [] };
  for (let i = 0; i < users; i++) {
    const username = `user${i}`;
    await add('user', { username, name: username, password: PASSWORD, enabled: true, scope: [SCOPE] });
    const body = new URLSearchParams({
      grant_type: 'password',
      username,
      password: PASSWORD,
      scope: SCOPE,
    });
    const response = await checked(`${origin}/api/oidc/token`, {
      method: 'POST',
      headers: basic(CLIENT),
      body,
    });
    const pair = (await response.json()) as { access_token: string; refresh_token: string };
    tokens.access.push(pair.access_token);
    tokens.refresh.push(pair.refresh_token);
  }
  return tokens;
}

async function logIn(origin: string): Promise<string> {
  const response = await checked(`${origin}/api/auth/`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(ADMINISTRATOR),
  });
  return response.headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; ');
}

/** The defaults of the administration page, with rotation at each refresh, as Latchkey does. */
function oidcPlugin(origin: string): object {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return {
    module: 'oidc',
    name: 'oidc',
    display_name: 'OIDC',
    enabled: true,
    parameters: {
      iss: origin,
      'jwt-type': 'ecdsa',
      'jwt-key-size': '256',
      'jwks-show': true,
      key: privateKey.export({ type: 'sec1', format: 'pem' }),
      cert: publicKey.export({ type: 'spki', format: 'pem' }),
      'access-token-duration': 3600,
      'refresh-token-duration': 1_209_600,
      'code-duration': 600,
      'refresh-token-rolling': true,
      'refresh-token-one-use': 'always',
      'allow-non-oidc': true,
      'auth-type-code-enabled': true,
      'auth-type-token-enabled': false,
      'auth-type-id-token-enabled': true,
      'auth-type-password-enabled': true,
      'auth-type-client-enabled': true,
      'auth-type-refresh-enabled': true,
      'auth-type-device-enabled': false,
      'introspection-revocation-allowed': true,
      'introspection-revocation-allow-target-client': true,
    },
  };
}

async function checked(url: string, init: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (response.status !== 200)
    throw new Error(`Glewlwyd answered ${response.status} to ${url}: ${await response.text()}`);
  return response;
}
