// oidc-provider with Redis behind the adapter of its documentation. Prints where it serves, and tokens that its own models
// make: opaque access tokens for introspection, and refresh tokens whose access tokens are JWTs.
import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import { Redis } from 'ioredis';
import { Provider } from 'oidc-provider';
import { redisAdapter } from './oidc-redis-adapter.mjs';

const { PEER_CLIENT_ID, PEER_CLIENT_SECRET, PEER_PREFIX, PEER_REDIS_URL, PEER_SECRET, PEER_SESSIONS } =
  process.env;
const RESOURCE = 'https://api.example.com';
const RESOURCE_SCOPE = 'api:read api:write';
const DAY = 86_400;

const server = createServer((request, response) => handle(request, response));
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}`;

const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const signingKey = { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'ES256', kid: 'bench' };

const provider = new Provider(url, {
  adapter: redisAdapter(new Redis(PEER_REDIS_URL), PEER_PREFIX),
  clients: [
    {
      client_id: PEER_CLIENT_ID,
      client_secret: PEER_CLIENT_SECRET,
      token_endpoint_auth_method: 'client_secret_basic',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: ['https://app.example.com/callback'],
      response_types: ['code'],
      id_token_signed_response_alg: 'ES256',
    },
  ],
  jwks: { keys: [signingKey] },
  cookies: { keys: [PEER_SECRET] },
  findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access'],
  // At each use, as Latchkey does.
  rotateRefreshToken: true,
  ttl: { AccessToken: DAY, Grant: 14 * DAY, RefreshToken: 14 * DAY },
  features: {
    devInteractions: { enabled: false },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: RESOURCE_SCOPE,
        audience: RESOURCE,
        accessTokenTTL: DAY,
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'ES256' } },
      }),
    },
  },
});
provider.on('server_error', (_context, error) => console.error(error));
const handle = provider.callback();

const client = await provider.Client.find(PEER_CLIENT_ID);
const access = [];
const refresh = [];
for (let i = 0; i < Number(PEER_SESSIONS); i++) {
  const accountId = `user${i}`;
  const grant = new provider.Grant({ accountId, clientId: PEER_CLIENT_ID });
  grant.addOIDCScope('offline_access');
  grant.addResourceScope(RESOURCE, RESOURCE_SCOPE);
  const common = { accountId, client, grantId: await grant.save(), gty: 'authorization_code' };
  access.push(await new provider.AccessToken({ ...common, scope: 'offline_access' }).save());
  const token = new provider.RefreshToken({
    ...common,
    scope: `offline_access ${RESOURCE_SCOPE}`,
    resource: RESOURCE,
    rotations: 0,
    authTime: Math.floor(Date.now() / 1000),
  });
  refresh.push(await token.save());
}
console.log(JSON.stringify({ url, access, refresh }));
