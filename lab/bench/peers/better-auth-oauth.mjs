// better-auth as an OAuth server, by its provider plugin. Prints where it serves, and the tokens of its authorization code
// flow. Access tokens are JWTs: it introspects opaque ones more slowly.
import { createHash, randomBytes } from 'node:crypto';
import { URLSearchParams } from 'node:url';
import { oauthProvider } from '@better-auth/oauth-provider';
import { jwt } from 'better-auth/plugins/jwt';
import { serve } from './better-auth-server.mjs';

const { PEER_CLIENT_ID, PEER_CLIENT_SECRET } = process.env;
const RESOURCE = 'https://api.example.com';
const CALLBACK = 'https://app.example.com/callback';

const { auth, url, signups } = await serve({
  // The plugin demands it.
  session: { storeSessionInDatabase: true },
  plugins: [
    // The default is EdDSA.
    jwt({ jwks: { keyPairConfig: { alg: 'ES256' } } }),
    oauthProvider({
      loginPage: '/login',
      consentPage: '/consent',
      scopes: ['offline_access'],
      resources: [RESOURCE],
      // The default asks PostgreSQL at each refresh whether the client may have the resource.
      enforcePerClientResources: false,
      cachedTrustedClients: new Set([PEER_CLIENT_ID]),
      cachedResources: new Set([RESOURCE]),
      generateClientId: () => PEER_CLIENT_ID,
      generateClientSecret: () => PEER_CLIENT_SECRET,
    }),
  ],
});
const cookies = signups.map(({ headers }) =>
  headers
    .getSetCookie()
    .map((each) => each.split(';')[0])
    .join('; '),
);
await auth.api.adminCreateOAuthClient({
  headers: { cookie: cookies[0] },
  body: { redirect_uris: [CALLBACK], scope: 'offline_access', skip_consent: true },
});

const access = [];
const refresh = [];
for (const cookie of cookies) {
  const tokens = await authorized(cookie);
  access.push(tokens.access_token);
  refresh.push(tokens.refresh_token);
}
console.log(JSON.stringify({ url, access, refresh }));

/** The tokens that a user with this session grants to the client. */
async function authorized(cookie) {
  const verifier = randomBytes(32).toString('base64url');
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: PEER_CLIENT_ID,
    redirect_uri: CALLBACK,
    scope: 'offline_access',
    resource: RESOURCE,
    code_challenge_method: 'S256',
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
  });
  // A script gets the redirection as JSON.
  const answer = await fetch(`${url}/api/auth/oauth2/authorize?${query}`, { headers: { cookie } });
  const { searchParams } = new URL((await answer.json()).url);
  const credentials = Buffer.from(`${PEER_CLIENT_ID}:${PEER_CLIENT_SECRET}`).toString('base64');
  const response = await fetch(`${url}/api/auth/oauth2/token`, {
    method: 'POST',
    headers: { authorization: `Basic ${credentials}` },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code: searchParams.get('code'),
      redirect_uri: CALLBACK,
      code_verifier: verifier,
    }),
  });
  return response.json();
}
