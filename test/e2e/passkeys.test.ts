// suite: browser
import http from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream';
import type { Client } from '@latchkey/client';
import type * as passkeyEntry from '@latchkey/client/passkey';
import type { Page } from 'playwright-core';
import { test, type Test } from 'tap';
import { chromiumMissing, openProfile } from '../support/browser.ts';
import { anAccount, claimsOf } from '../support/client.ts';
import { ROOT } from '../support/documents.ts';
import { freePort } from '../support/free-port.ts';
import { signUpOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { answersHttp, startServerProcess } from '../support/server-process.ts';
import { readyService } from '../support/service.ts';
import { until } from '../support/until.ts';
import { aVirtualAuthenticator } from '../support/virtual-authenticator.ts';
import '../support/watch-leaks.ts';

/** What the page below offers to a test. */
interface Tools extends Pick<
  typeof passkeyEntry,
  'addPasskey' | 'logInWithPasskey' | 'offerPasskey' | 'signalPasskeys'
> {
  client: Client;
  /** Of examples/bff. */
  backend: Client;
  errors: unknown[];
  /** The mediation of each `navigator.credentials.get`. */
  asked: string[];
  /** @returns the result, or the error’s `code` or `name` */
  outcome: <Result>(work: Promise<Result>) => Promise<Result | string>;
}

const PAGE = `<!doctype html><title>A page with passkeys</title><link rel="icon" href="data:,">
<input name="username" autocomplete="username webauthn">
<script type="module">
  import { createClient } from '/client/main.js';
  import * as passkeys from '/client/passkey.js';
  // As with some password managers.
  PublicKeyCredential.prototype.toJSON = () => {
    throw new TypeError('Illegal invocation');
  };
  const client = createClient({ storage: localStorage });
  const toBackend = async (method, path, body) => {
    const own = path.replace(/^\\/api\\/(auth|user)/, '/bff');
    const headers = { 'x-requested-by': 'page', ...(body && { 'content-type': 'application/json' }) };
    const response = await fetch(own, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    const answer = await response.json();
    if (!response.ok) throw answer;
    return answer;
  };
  const backend = { request: toBackend, completeLogin: (body) => toBackend('POST', '/bff/second-factor', body) };
  const asked = [];
  const { get } = CredentialsContainer.prototype;
  CredentialsContainer.prototype.get = function (options) {
    asked.push(options.mediation);
    return get.call(this, options);
  };
  const codeOf = ({ name, code }) => (typeof code === 'string' ? code : name);
  globalThis.tools = { ...passkeys, client, backend, asked, errors: [], outcome: (work) => work.catch(codeOf) };
</script>`;

test('passkeys in Chromium', { skip: chromiumMissing }, async (t) => {
  const [own, second, foreign] = [await freePort(), await freePort(), await freePort()];
  const originAt = (port: number) => `http://localhost:${port}`;
  const { url: DATABASE_URL } = await testDatabase(t);
  const service = await readyService(t, {
    DATABASE_URL,
    TRUST_PROXY: 'loopback',
    WEBAUTHN_RP_ID: 'localhost',
    WEBAUTHN_ORIGINS: [own, second].map(originAt).join(),
  });
  const backendPort = await freePort();
  const backend = originAt(backendPort);
  await startServerProcess(t, [process.execPath, join(ROOT, 'examples/bff/server.mjs')], {
    answers: () => answersHttp(backend),
    env: {
      LATCHKEY_URL: service.url,
      ORIGIN: originAt(own),
      PORT: String(backendPort),
      TRUST_PROXY: 'loopback',
    },
  });
  for (const port of [own, second, foreign]) await startSite(t, port, { api: service.url, bff: backend });
  const page = await (await openProfile(t)).newPage();
  page.setDefaultTimeout(0);
  await page.goto(originAt(own));
  const authenticator = await aVirtualAuthenticator(page);
  const account = anAccount();
  const { password: current_password, username } = account;

  await t.test('a user adds a passkey, and logs in by it', async (t) => {
    await inPage(page, ({ client }, account) => client.signup(account), account);
    await authenticator.touch(true);
    const added = await inPage(page, ({ client, addPasskey }, body) => addPasskey(client, body), {
      name: 'Phone',
      current_password,
    });
    t.match(added, { id: Number, recovery_codes: { length: 10 } });
    t.equal((await authenticator.credentialIds()).length, 1);
    await inPage(page, ({ client }) => client.logout());
    const token = await inPage(page, async ({ client, logInWithPasskey }) => {
      await logInWithPasskey(client, { device: 'Chromium' });
      return client.accessToken();
    });
    t.match(claimsOf(token), { acr: 'phr', amr: ['pop', 'user', 'mfa'] });
    const { tokens } = (await inPage(page, ({ client }) => client.request('GET', '/api/user/tokens'))) as {
      tokens: { name: string; current: boolean }[];
    };
    t.equal(tokens.find(({ current }) => current)?.name, 'Chromium');
    t.equal(await addAnother(page, current_password), 'InvalidStateError', 'one passkey on a device');
    t.strictSame(authenticator.deleted, []);
  });

  await t.test('autofill offers it, and a button ends the offer', async (t) => {
    await offer(page);
    await until(() => inPage(page, ({ client }) => client.session !== null));
    t.equal(await inPage(page, ({ client }) => client.session?.user.username), username);

    await authenticator.touch(false);
    await offer(page);
    await until(() => inPage(page, ({ asked }) => asked.at(-1) === 'conditional'));
    const byButton = inPage(page, async ({ client, logInWithPasskey }) => {
      const { user } = await logInWithPasskey(client);
      return user.username;
    });
    await authenticator.touch(true);
    t.equal(await byButton, username);
    t.strictSame(await inPage(page, ({ errors }) => errors), []);
  });

  await t.test('without PIN or finger, the browser refuses', async (t) => {
    await inPage(page, ({ client }) => client.logout());
    await authenticator.verify(false);
    t.equal(await logIn(page), 'NotAllowedError');
    await authenticator.verify(true);
    t.equal(await logIn(page), username);
  });

  await t.test('another origin of the RP ID logs in if the settings list it', async (t) => {
    await page.goto(originAt(second));
    t.equal(await logIn(page), username);
    await page.goto(originAt(foreign));
    t.equal(await logIn(page), 'invalid_passkey');
    t.strictSame(authenticator.deleted, [], 'its passkey is not gone');
    await page.goto(originAt(own));
    t.equal(await logIn(page), username);
  });

  await t.test('a removed passkey leaves the browser, and one that Latchkey did not take', async (t) => {
    const [id = ''] = await authenticator.credentialIds();
    await removeAll(page, current_password);
    await inPage(page, ({ client, signalPasskeys }) => signalPasskeys(client));
    await until(() => authenticator.deleted.includes(id));
    t.strictSame(await authenticator.credentialIds(), []);

    await page.route('**/passkey/confirm', async (route) => {
      await route.continue({ postData: { name: 'Phone', passkey: {} } });
    });
    t.equal(await addAnother(page, current_password), 'validation_failed');
    await until(() => authenticator.deleted.length === 2);
    await page.unroute('**/passkey/confirm');
    t.strictSame(await authenticator.credentialIds(), []);
  });

  await t.test('a passkey that Latchkey does not know leaves the browser', async (t) => {
    t.equal(await addAnother(page, current_password), 'added');
    const [id = ''] = await authenticator.credentialIds();
    t.equal(await logIn(page), username);
    await removeAll(page, current_password);
    t.strictSame(await authenticator.credentialIds(), [id], 'nobody has told the browser');
    t.equal(await logIn(page), 'passkey_unknown');
    await until(() => authenticator.deleted.includes(id));
    t.strictSame(await authenticator.credentialIds(), []);
  });

  await t.test('the backend-for-frontend passes both ceremonies on', async (t) => {
    const other = anAccount();
    await signUpOver(service.url, other);
    const send = (line: string, body?: object) => {
      const [method = '', path = ''] = line.split(' ');
      const request = { method, path, body };
      return inPage(
        page,
        ({ backend }, { method, path, body }) => backend.request(method, path, body),
        request,
      );
    };
    await send('POST /bff/login', other);
    const proof = { name: 'Phone', current_password: other.password };
    const added = await inPage(page, ({ backend, addPasskey }, body) => addPasskey(backend, body), proof);
    t.match(added, { recovery_codes: { length: 10 } });
    await send('POST /bff/logout', {});
    const session = await inPage(page, ({ backend, logInWithPasskey }) => logInWithPasskey(backend));
    t.match(session, { user: { username: other.username } });
    t.match(await send('GET /bff/factors'), { factors: [{ type: 'passkey', name: 'Phone' }] });
    t.notMatch(JSON.stringify(session), /eyJ|token/);
  });
});

/** Runs a function in the page. It must not use anything outside of it. */
function inPage<Result, Value = undefined>(
  page: Page,
  run: (tools: Tools, value: Value) => Result | Promise<Result>,
  value?: Value,
): Promise<Result> {
  return page.evaluate<Result>(`(${run.toString()})(tools, ${JSON.stringify(value)})`);
}

/** @returns the name of the user who is signed in then, or the code or name of the error */
function logIn(page: Page): Promise<string> {
  return inPage(page, ({ client, logInWithPasskey, outcome }) =>
    outcome(logInWithPasskey(client).then(({ user }) => user.username)),
  );
}

/** @returns 'added', or the code or name of the error */
function addAnother(page: Page, current_password: string): Promise<string> {
  return inPage(
    page,
    ({ client, addPasskey, outcome }, body) => outcome(addPasskey(client, body).then(() => 'added')),
    { name: 'Other', current_password },
  );
}

/** Signs out, and offers passkeys in the autofill. */
async function offer(page: Page): Promise<void> {
  await inPage(page, async ({ client, offerPasskey, errors, asked }) => {
    await client.logout();
    asked.length = 0;
    offerPasskey(client, { onError: (error) => errors.push(error) });
  });
}

/** The account’s factors. */
async function removeAll(page: Page, current_password: string): Promise<void> {
  await inPage(
    page,
    async ({ client }, body) => {
      const { factors } = (await client.request('GET', '/api/user/factors')) as { factors: { id: number }[] };
      for (const { id } of factors) await client.request('POST', `/api/user/factors/${id}/removal`, body);
    },
    { current_password },
  );
}

/** The page, the client’s modules, and behind one origin what a proxy passes on. */
async function startSite(t: Test, port: number, targets: { api: string; bff: string }): Promise<void> {
  const server = http.createServer((request, response) => {
    const { url = '/', method, headers } = request;
    const target = /^\/(api|bff)\//.exec(url)?.[1] as keyof typeof targets | undefined;
    if (target) {
      const onward = http.request(targets[target] + url, { method, headers }, (answer) => {
        response.writeHead(answer.statusCode ?? 500, answer.headers);
        pipeline(answer, response, () => undefined);
      });
      onward.on('error', () => response.destroy());
      request.pipe(onward);
      return;
    }
    const [, module] = /^\/client\/([\w-]+\.js)$/.exec(url) ?? [];
    response.setHeader('content-type', module === undefined ? 'text/html' : 'text/javascript');
    response.end(
      module === undefined ? PAGE : readFileSync(join(ROOT, 'node_modules/@latchkey/client/dist', module)),
    );
  });
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
}
