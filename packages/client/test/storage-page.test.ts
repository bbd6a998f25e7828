// suite: browser
import type http from 'node:http';
import { text } from 'node:stream/consumers';
import type { Page } from 'playwright-core';
import { test, type Test } from 'tap';
import { testServer, type TestServer } from '../src/testing/main.ts';
import { chromiumMissing, openPage, openProfile } from '../../../test/support/browser.ts';
import { readyService } from '../../../test/support/service.ts';
import { clientSite } from './client-site.ts';

const ADA = { username: 'ada', password: 'difference engine' };

/** A tab with a client. It notes what `onError` hears. */
const OPEN = `async (url) => {
  const { createClient } = await import('/client/main.js');
  globalThis.told = [];
  const onError = ({ code, cause }) => told.push(code + ' ' + cause?.name);
  globalThis.client = createClient({ storage: () => localStorage, onError, ...(url && { url }) });
  await client.request('GET', '/api/user').catch(() => null);
}`;

/** @returns the length of what leaves no room */
const FILL = `() => {
  let filling = '';
  for (let size = 2 ** 22; size >= 1; size /= 2) {
    try {
      localStorage.setItem('filling', filling + 'x'.repeat(size));
      filling += 'x'.repeat(size);
    } catch {}
  }
  return filling.length;
}`;

const outcomeOf = (call: string) =>
  `${call}.then(() => 'done', ({ code, message }) => code + ': ' + message)`;
const SESSION = 'client.session && client.session.id';
const LOGIN = outcomeOf(`client.login(${JSON.stringify(ADA)})`);

test(
  'where Chromium blocks storage, users log in until they reload',
  { skip: chromiumMissing },
  async (t) => {
    const { url } = await aSite(t);
    const context = await openProfile(t, [], {
      profile: { default_content_setting_values: { cookies: 2 } },
    });
    const page = await openTab(await context.newPage(), url);
    t.equal(
      await page.evaluate(
        '(() => { try { return localStorage.length } catch ({ name }) { return name } })()',
      ),
      'SecurityError',
    );
    t.equal(await page.evaluate(LOGIN), 'done');
    t.equal(await page.evaluate(outcomeOf('client.refresh()')), 'done');
    t.equal(await page.evaluate(SESSION), 1);
    t.strictSame(await page.evaluate('told'), ['storage_failed SecurityError']);
    await page.reload();
    await openTab(page, url);
    t.equal(await page.evaluate(SESSION), null);
  },
);

test('with a full storage, two tabs have a session each, in memory', { skip: chromiumMissing }, async (t) => {
  const { url, server } = await aSite(t);
  const context = await openProfile(t);
  const [one, other] = [
    await openTab(await context.newPage(), url),
    await openTab(await context.newPage(), url),
  ];
  await fill(one, other);
  for (const tab of [one, other]) {
    t.equal(await tab.evaluate(LOGIN), 'done');
    t.strictSame(await tab.evaluate('told'), ['storage_failed QuotaExceededError']);
  }
  t.strictSame([await one.evaluate(SESSION), await other.evaluate(SESSION)], [1, 2]);
  t.equal(await one.evaluate(outcomeOf('client.logout()')), 'done');
  t.equal(await other.evaluate(outcomeOf('client.refresh()')), 'done');
  t.equal(await other.evaluate(SESSION), 2);
  server.end(2);
  t.match(await other.evaluate(outcomeOf('client.refresh()')), /^invalid_token: /);
});

test(
  'if the storage is full at a later pair, two tabs keep the one that they share',
  { skip: chromiumMissing },
  async (t) => {
    const { url } = await aSite(t);
    const context = await openProfile(t);
    const [one, other] = [
      await openTab(await context.newPage(), url),
      await openTab(await context.newPage(), url),
    ];
    t.equal(await one.evaluate(LOGIN), 'done');
    t.equal(await other.evaluate(outcomeOf('client.accessToken()')), 'done', 'the other tab reads it');
    await fill(one, other);
    // The next pair is longer by that.
    await one.evaluate(`client.request('PATCH', '/api/user', { name: 'x'.repeat(128) })`);
    const failed = /^storage_failed: /;
    for (const tab of [one, other]) t.match(await tab.evaluate(outcomeOf('client.refresh()')), failed);
    for (const tab of [one, other]) t.strictSame(await tab.evaluate('told'), []);
    await one.evaluate(`localStorage.removeItem('filling')`);
    await other.waitForFunction(`localStorage.getItem('filling') === null`);
    for (const tab of [other, one])
      t.equal(await tab.evaluate(outcomeOf('client.refresh()')), 'done', 'no theft');
    t.strictSame([await one.evaluate(SESSION), await other.evaluate(SESSION)], [1, 1]);
  },
);

test(
  'in a page whose origin is not listed, the error says what may be wrong',
  { skip: chromiumMissing },
  async (t) => {
    const url = await clientSite(t);
    const service = await readyService(t, { CORS_ORIGINS: 'https://app.example' });
    const listing = await readyService(t, { CORS_ORIGINS: url });
    const { page } = await openPage(t, url);
    await page.goto(url);
    await page.evaluate(`(${OPEN})(${JSON.stringify(service.url)})`);
    const refused = await page.evaluate<string>(LOGIN);
    t.match(
      refused,
      `no_answer: no answer from ${service.url}: Latchkey is away, its CORS_ORIGINS lacks ${url}`,
    );
    await page.evaluate(`(${OPEN})(${JSON.stringify(listing.url)})`);
    t.match(await page.evaluate(LOGIN), /^invalid_credentials: /);
  },
);

/** An origin with the client and, below /api/, the testing server. */
async function aSite(t: Test): Promise<{ url: string; server: TestServer }> {
  const server = testServer({ users: [ADA] });
  const url = await clientSite(t, {
    '/api/': (request, response) => void pass(server, request, response),
  });
  return { url, server };
}

async function pass(
  { url, fetch }: TestServer,
  request: http.IncomingMessage,
  response: http.ServerResponse,
) {
  const { method = 'GET', headers } = request;
  const body = await text(request);
  const { authorization } = headers;
  const answer = await fetch(`${url}${request.url}`, {
    method,
    headers: { ...(authorization !== undefined && { authorization }) },
    ...(body && { body }),
  });
  response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
}

/** Leaves no room for another character, also as the other tab sees it: browser processes share storage with a delay. */
async function fill(page: Page, other: Page): Promise<void> {
  const length = await page.evaluate<number>(`(${FILL})()`);
  await other.waitForFunction(`localStorage.getItem('filling')?.length === ${length}`);
}

async function openTab(page: Page, url: string): Promise<Page> {
  page.setDefaultTimeout(0);
  if (page.url() !== `${url}/`) await page.goto(url);
  await page.evaluate(`(${OPEN})()`);
  return page;
}
