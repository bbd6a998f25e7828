import { exportJWK, generateKeyPair } from 'jose';
import { join } from 'node:path';
import * as oauth from 'oauth4webapi';
import * as openid from 'openid-client';
import { test, type Test } from 'tap';
import { ACCESS_TOKEN, TOKEN_EXCHANGE } from '../support/audiences.ts';
import { latchkey } from '../support/latchkey.ts';
import { bearer, claimsOf } from '../support/client.ts';
import { freePort } from '../support/free-port.ts';
import { signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { readyService } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

interface Registered {
  client_id: string;
  client_secret: string;
}

/** The running service, and a client registered by an operator. */
async function aServiceWithClient(t: Test) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const service = await readyService(t, { DATABASE_URL });
  const { stdout } = await latchkey(['client', 'create', 'billing', '--json'], { DATABASE_URL });
  return { url: service.url, DATABASE_URL, client: JSON.parse(stdout) as Registered };
}

/** As the library reports it. */
const withError = (error: string) => ({ name: 'ResponseBodyError', error });

function serverAt(url: string): oauth.AuthorizationServer & openid.ServerMetadata {
  return {
    issuer: 'http://localhost:3000',
    introspection_endpoint: `${url}/api/auth/introspect`,
    revocation_endpoint: `${url}/api/auth/revoke`,
  };
}

test('openid-client introspects and revokes, with both secrets during a rotation', async (t) => {
  const { url, DATABASE_URL, client } = await aServiceWithClient(t);
  const configure = (secret: string) => {
    const configuration = new openid.Configuration(
      serverAt(url),
      client.client_id,
      undefined,
      openid.ClientSecretBasic(secret),
    );
    // oxlint-disable-next-line typescript/no-deprecated -- the same
    openid.allowInsecureRequests(configuration);
    return configuration;
  };
  const old = configure(client.client_secret);
  const pair = await signUpOver(url);
  t.match(await openid.tokenIntrospection(old, pair.access_token), { active: true, username: String });

  const { stdout } = await latchkey(['client', 'rotate', 'billing', '--json'], { DATABASE_URL });
  const current = configure((JSON.parse(stdout) as Registered).client_secret);
  for (const configuration of [current, old])
    t.match(await openid.tokenIntrospection(configuration, pair.access_token), { active: true });
  await latchkey(['client', 'rotate', 'billing', '--finish'], { DATABASE_URL });
  await until(() =>
    openid.tokenIntrospection(old, pair.access_token).then(
      () => false,
      () => true,
    ),
  );
  t.match(await openid.tokenIntrospection(current, pair.access_token), { active: true });

  await openid.tokenRevocation(current, pair.access_token, { token_type_hint: 'access_token' });
  t.strictSame(await openid.tokenIntrospection(current, pair.access_token), { active: false });

  await latchkey(['client', 'delete', 'billing'], { DATABASE_URL });
  await until(() =>
    openid.tokenIntrospection(current, pair.access_token).then(
      () => false,
      () => true,
    ),
  );
});

/** A running service that is found by its ISSUER, and what registers a client there. */
async function aServiceAtItsIssuer(t: Test) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  await readyService(t, { DATABASE_URL, ISSUER: issuer, PORT: String(port) });
  const registered = async (...args: string[]) => {
    const { stdout } = await latchkey(['client', 'create', ...args, '--json'], { DATABASE_URL });
    return JSON.parse(stdout) as Registered;
  };
  return { issuer, registered, DATABASE_URL };
}

/** RFC 9068: checks an access token at the service of an audience. */
function validate(server: oauth.AuthorizationServer, token: string, audience: string) {
  const request = new Request('http://localhost/orders', { headers: bearer(token) });
  // oxlint-disable-next-line typescript/no-deprecated -- there is no TLS on the loopback
  return oauth.validateJwtAccessToken(server, request, audience, { [oauth.allowInsecureRequests]: true });
}

test('services get tokens as themselves, with a secret or their own key, by OpenID Connect discovery', async (t) => {
  const { issuer, registered, DATABASE_URL } = await aServiceAtItsIssuer(t);
  await registered('orders', '--audience', 'orders');
  const shop = await registered('shop', '--may', 'call:orders');
  const { client_id } = shop;
  const { publicKey, privateKey } = await generateKeyPair('ES256');
  const folder = t.testdir({
    'jwks.json': JSON.stringify({ keys: [{ ...(await exportJWK(publicKey)), kid: 'shop' }] }),
  });
  const own = ['--issuer', client_id, '--subject', client_id, '--jwks', join(folder, 'jwks.json')];
  t.equal((await latchkey(['client', 'trust', 'shop', ...own], { DATABASE_URL })).code, 0);

  const key = { key: privateKey, kid: 'shop' };
  const audience = { audience: 'orders' };
  for (const by of [openid.ClientSecretBasic(shop.client_secret), openid.PrivateKeyJwt(key)]) {
    // oxlint-disable-next-line typescript/no-deprecated -- there is no TLS on the loopback
    const options = { execute: [openid.allowInsecureRequests] };
    const asShop = await openid.discovery(new URL(issuer), client_id, undefined, by, options);
    const granted = await openid.clientCredentialsGrant(asShop, audience);
    t.match(granted, { token_type: 'bearer', expires_in: 300 });
    const server = asShop.serverMetadata();
    const claims = await validate(server, granted.access_token, 'orders');
    t.match(claims, { iss: issuer, sub: client_id, client_id, roles: [] });
    await t.rejects(validate(server, granted.access_token, 'latchkey'));
    await t.rejects(
      openid.clientCredentialsGrant(asShop, { audience: 'billing' }),
      withError('unauthorized_client'),
    );
    await t.rejects(openid.clientCredentialsGrant(asShop), withError('invalid_request'));
  }

  // oxlint-disable-next-line typescript/no-deprecated -- the same
  const options = { [oauth.allowInsecureRequests]: true };
  const found = await oauth.discoveryRequest(new URL(issuer), { ...options, algorithm: 'oidc' });
  const server = await oauth.processDiscoveryResponse(new URL(issuer), found);
  const who = { client_id };
  for (const by of [oauth.ClientSecretBasic(shop.client_secret), oauth.PrivateKeyJwt(key)]) {
    const answer = await oauth.clientCredentialsGrantRequest(server, who, by, audience, options);
    const granted = await oauth.processClientCredentialsResponse(server, who, answer);
    t.match(await validate(server, granted.access_token, 'orders'), { sub: client_id });
  }
  const { privateKey: another } = await generateKeyPair('ES256');
  const forged = oauth.PrivateKeyJwt({ key: another, kid: 'shop' });
  const refused = await oauth.clientCredentialsGrantRequest(server, who, forged, audience, options);
  await t.rejects(oauth.processClientCredentialsResponse(server, who, refused), {
    name: 'WWWAuthenticateChallengeError',
    status: 401,
  });
});

test('openid-client finds the token endpoint and exchanges tokens, and oauth4webapi checks them', async (t) => {
  const { issuer, registered } = await aServiceAtItsIssuer(t);
  const orders = await registered('orders', '--audience', 'orders');
  const gateway = await registered('gateway', '--may', 'exchange,introspect');
  // oxlint-disable-next-line typescript/no-deprecated -- there is no TLS on the loopback
  const options = { algorithm: 'oauth2' as const, execute: [openid.allowInsecureRequests] };
  const discover = ({ client_id, client_secret }: Registered) =>
    openid.discovery(new URL(issuer), client_id, undefined, openid.ClientSecretBasic(client_secret), options);
  const asGateway = await discover(gateway);
  const server = asGateway.serverMetadata();
  t.match(server, {
    token_endpoint: `${issuer}/api/auth/token`,
    grant_types_supported: [TOKEN_EXCHANGE, 'client_credentials'],
  });

  const { access_token: subject } = await signUpOver(issuer);
  const form = (of: string, audience: string) => ({
    subject_token: of,
    subject_token_type: ACCESS_TOKEN,
    audience,
  });
  const byGateway = await openid.genericGrantRequest(asGateway, TOKEN_EXCHANGE, form(subject, 'orders'));
  t.match(byGateway, { token_type: 'bearer', issued_token_type: ACCESS_TOKEN, expires_in: 300 });

  // The user's client has no secret: its subject token is the bearer.
  const asUser = await openid.discovery(new URL(issuer), 'app', undefined, openid.None(), options);
  asUser[openid.customFetch] = (target, { headers, ...request }) =>
    fetch(target, { ...request, headers: { ...headers, ...bearer(subject) } } as RequestInit);
  const byUser = await openid.genericGrantRequest(asUser, TOKEN_EXCHANGE, form(subject, 'orders'));

  const asOrders = await discover(orders);
  for (const [{ access_token: token }, client] of [
    [byGateway, gateway.client_id],
    [byUser, 'latchkey'],
  ] as const) {
    t.match(await openid.tokenIntrospection(asOrders, token), {
      active: true,
      aud: 'orders',
      client_id: client,
    });
    t.match(await openid.tokenIntrospection(asGateway, token), { active: false });
    t.match(await validate(server, token, 'orders'), { sub: claimsOf(subject).sub, client_id: client });
    await t.rejects(validate(server, token, 'latchkey'));
    await openid.tokenRevocation(asOrders, token);
    t.match(await openid.tokenIntrospection(asOrders, token), { active: true }, 'RFC 7009: without effect');
  }

  for (const [of, audience, error] of [
    [subject, 'shop', 'invalid_target'],
    [subject, 'latchkey', 'invalid_target'],
    ['x', 'orders', 'invalid_request'],
    [byGateway.access_token, 'orders', 'invalid_request'],
  ] as const)
    await t.rejects(
      openid.genericGrantRequest(asGateway, TOKEN_EXCHANGE, form(of, audience)),
      withError(error),
    );
  await t.rejects(
    openid.genericGrantRequest(asOrders, TOKEN_EXCHANGE, form(subject, 'orders')),
    withError('unauthorized_client'),
  );
});
