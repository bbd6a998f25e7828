import { createPublicKey } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { startApache } from '../support/apache.ts';
import { startApplication, type Seen } from '../support/application.ts';
import { exchangeForm } from '../support/audiences.ts';
import { bearer, claimsOf, headerOf } from '../support/client.ts';
import { readDocument } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { status, waysToForge } from '../support/forward-auth.ts';
import { startHttpHaproxy } from '../support/haproxy.ts';
import { NAMES, OVERRIDES } from '../support/identity-headers.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { readBlocks } from '../support/markdown.ts';
import { createLongLivedOver, logOutOver, signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { forge } from '../support/tokens.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

test(
  'HAProxy and Apache, as docs/integrating/proxies.md configures them, take good tokens for their audience alone',
  { skip: toolsMissing('apache2', 'bash', 'haproxy') },
  async (t) => {
    const folder = testFolder(t);
    const pem = KEYS.ES256();
    const publicPem = createPublicKey(pem).export({ type: 'spki', format: 'pem' }).toString();
    writeFileSync(join(folder, '0001.pem'), pem);
    const publicFile = join(testFolder(t), 'latchkey.pem');
    writeFileSync(publicFile, publicPem);
    const { url: DATABASE_URL } = await testDatabase(t);
    const port = await freePort();
    const issuer = `http://127.0.0.1:${port}`;
    await readyService(t, {
      DATABASE_URL,
      SIGNING_KEYS_DIR: folder,
      KEY_PUBLISH_LEAD: '0',
      REFRESH_TOKEN_SECRET: aSecret(),
      ISSUER: issuer,
      PORT: String(port),
    });
    const client = await aRegisteredService(DATABASE_URL, 'orders', ['introspect'], 'orders');
    const documented = (language: string) => {
      const blocks = readBlocks(readDocument('docs/integrating/proxies.md'));
      const text = blocks.find((block) => block.language === language)?.text ?? '';
      return text
        .replaceAll('https://auth.example.com', issuer)
        .replace('/etc/haproxy/latchkey.pem', publicFile);
    };

    const seen: Seen[] = [];
    const application = await startApplication(t, seen);
    const haproxy = await startHttpHaproxy(t, documented('haproxy'), application);
    const byKeys = await startApache(t, documented('apache'));
    const auth = `client_id=${client.serviceId}&client_secret=${client.secret}`;
    const introspects = await startApache(
      t,
      `AuthType oauth2
       OAuth2TokenVerify introspect ${issuer}/api/auth/introspect introspect.auth=client_secret_basic&${auth}&expiry=1
       Require valid-user`,
    );
    const all = [haproxy.url, byKeys.url, introspects.url];
    const ask = (token?: string, urls = all) =>
      Promise.all(
        urls.map(async (url) => (await fetch(url, { headers: token ? bearer(token) : {} })).status),
      );

    const { user, access_token: access } = await signUpOver(issuer);
    const post = async (path: string, init: RequestInit) =>
      (await (await fetch(issuer + path, { method: 'POST', ...init })).json()) as Record<string, string>;
    const { access_token: token = '' } = await post('/api/auth/token', {
      headers: bearer(access),
      body: new URLSearchParams(exchangeForm(access, 'orders')),
    });
    const { longlived_token: llt } = await createLongLivedOver(issuer, access);
    const { token: limited = '' } = await post('/api/user/tokens', {
      headers: { ...bearer(access), 'content-type': 'application/json' },
      body: '{"name":"Orders report","scopes":["orders:read"],"audience":"orders"}',
    });
    t.strictSame(await ask(token), [201, 200, 200], byKeys.errors() + introspects.errors());
    const forgeries = Object.entries(waysToForge([...NAMES, ...OVERRIDES, 'X-Forwarded-Host']));
    for (const [title, lines] of forgeries) {
      t.equal(await status(haproxy.url, 'GET /', [`Authorization: Bearer ${token}`, ...lines]), '201');
      t.match(seen.at(-1)?.headers, { 'x-auth-user': String(user.id), authorization: undefined });
      t.notOk(seen.at(-1)?.rawHeaders.includes('spoofed'), title);
    }

    const websocket = ['Sec-WebSocket-Key: eHh4eHh4eHh4eHh4eHh4eA==', 'Sec-WebSocket-Version: 13'];
    const protocols = ['h2c', 'websocket, h2c', 'h2c\r\nUpgrade: websocket', 'WebSocket'];
    for (const protocol of protocols) {
      const lines = ['Connection: Upgrade', `Upgrade: ${protocol}`, ...websocket];
      await status(haproxy.url, 'GET /', [`Authorization: Bearer ${token}`, ...lines]);
      const passed = protocol === 'WebSocket' ? protocol : undefined;
      t.equal(seen.at(-1)?.headers.upgrade, passed, `${protocol}: nothing else is tunnelled`);
    }

    const [header, claims] = [headerOf(token), claimsOf(token)];
    const now = Math.floor(Date.now() / 1000);
    const ending = forge(header, { ...claims, exp: now + 6 }, pem);
    t.strictSame(await ask(ending), [201, 200, 200], 'the test signs as Latchkey does');
    const refused: Record<string, string | undefined> = {
      'no token': undefined,
      'another audience': access,
      'a long-lived token': llt,
      'a limited token': limited,
      'a limited token under the type of access tokens': forge(header, claimsOf(limited), pem),
      'another issuer': forge(header, { ...claims, iss: 'https://evil.example' }, pem),
      'an expired token': forge(header, { ...claims, exp: now - 60 }, pem),
      'a token without exp': forge(header, { ...claims, exp: undefined }, pem),
      'another key under this id': forge(header, claims, KEYS.ES256()),
      'HS256 with the public key': forge({ ...header, alg: 'HS256' }, claims, publicPem),
      'alg none': forge({ ...header, alg: 'none' }, claims),
    };
    for (const [name, bad] of Object.entries(refused)) t.strictSame(await ask(bad), [401, 401, 401], name);
    const otherType = forge({ ...header, typ: 'llt+jwt' }, claims, pem);
    t.strictSame(await ask(otherType, [haproxy.url]), [401], 'another type');
    t.equal(
      seen.length,
      2 + forgeries.length + protocols.length,
      'no refused request reaches the application',
    );

    t.equal(await logOutOver(issuer, access), 200);
    await until(async () => (await ask(token, [introspects.url]))[0] === 401);
    t.strictSame(await ask(token, [haproxy.url, byKeys.url]), [201, 200], 'these two hear of no logout');
    // HAProxy allows for five seconds. Apache has the token in its cache.
    await until(async () => (await ask(ending)).every((status) => status === 401));
  },
);
