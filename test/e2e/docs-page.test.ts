// suite: browser
import { join } from 'node:path';
import type { Locator, Page } from 'playwright-core';
import { test, type Test } from 'tap';
import { chromiumMissing, openPage, watch, type Watched } from '../support/browser.ts';
import { anAccount, type Pair } from '../support/client.ts';
import { verifyOver } from '../support/over-http.ts';
import { readyService, type Service } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

/** Uses the page at /docs like a person: by clicking, in a real browser. */
test('the page at /docs', { skip: chromiumMissing }, async (t) => {
  const service = await readyService(t);
  const watched = await openPage(t, service.url);
  await watched.page.goto(`${service.url}/docs`);
  await watched.page.locator('.opblock').first().waitFor();

  await t.test('a link of the introduction unfolds its operation', (t) => followLink(t, service, watched));
  await t.test('a standard that a description names is a link', (t) => linkedStandard(t, watched));
  await t.test('an operation unfolds without its errors', (t) => unfold(t, watched));
  await t.test('the list can be filtered by tag and path', (t) => filter(t, watched));
  await t.test('all six operations can be tried by clicking', (t) => clickThrough(t, service, watched));
});

/** The page opens links in a new tab, so that its own tokens stay. */
async function followLink(t: Test, { url }: Service, { page, complaints }: Watched): Promise<void> {
  const opened = page.context().waitForEvent('page');
  await page.locator('.info a[href="#/Registered%20services/introspect"]').click();
  const tab = await watch(await opened, url);
  await blockOf(tab.page, 'introspect').locator('.opblock-body').waitFor();
  t.match(tab.page.url(), /#\/Registered%20services\/introspect$/);
  t.strictSame([...complaints, ...tab.complaints], []);
  await tab.page.close();
}

/** It opens in a tab of its own, which this test does not let out of the machine. */
async function linkedStandard(t: Test, { page }: Watched): Promise<void> {
  const link = page.locator('.info a', { hasText: 'RFC 9457' });
  t.equal(await link.getAttribute('href'), 'https://www.rfc-editor.org/rfc/rfc9457');
  t.equal(await link.getAttribute('target'), '_blank');
}

/** Signup's errors took 6,000 pixels. */
async function unfold(t: Test, { page, complaints }: Watched): Promise<void> {
  const block = blockOf(page, 'signUp');
  await block.locator('.opblock-summary-control').click();
  const errors = block.locator('tr.response[data-code^="4"], tr.response[data-code^="5"]');
  await errors.first().waitFor();
  t.equal(await errors.count(), 6);
  const { height = Infinity } = (await block.boundingBox()) ?? {};
  t.ok(height < 2500, `${height} pixels`);
  await screenshot(page, 'unfolded', true);

  const limited = block.locator('tr.response[data-code="429"]');
  t.equal((await limited.innerText()).replaceAll(/\s+/g, ' ').trim(), '429 rate_limited');
  t.equal(await limited.locator('.microlight, .model-example').count(), 0);
  await limited.locator('button').click();
  await limited.locator('.model-example').waitFor();
  t.match(await limited.innerText(), /Retry-After/, 'a click shows it all');
  t.match(await block.locator('tr.response[data-code="200"]').innerText(), /access_token/, 'never collapsed');
  await block.locator('.opblock-summary-control').click();
  t.strictSame(complaints, []);
}

async function filter(t: Test, { page, complaints }: Watched): Promise<void> {
  const [input, shown] = [page.locator('.operation-filter-input'), page.locator('.opblock')];
  const all = await shown.count();
  for (const [text, operations] of [
    ['/api/users', 15],
    ['discovery', 3],
    ['nothing like it', 0],
    ['', all],
  ] as const) {
    await input.fill(text);
    await until(async () => (await shown.count()) === operations);
    t.pass(`${text}: ${operations}`);
  }
  t.strictSame(complaints, []);
}

function blockOf(page: Page, operationId: string): Locator {
  return page.locator(`[id$="-${operationId}"].opblock`);
}

async function clickThrough(t: Test, { url }: Service, { page, complaints }: Watched): Promise<void> {
  const account = anAccount();
  const { username, password } = account;
  await screenshot(page, 'page');
  await page.setViewportSize({ width: 390, height: 844 });
  const width = await page.evaluate('document.documentElement.scrollWidth');
  t.ok(Number(width) <= 390, `the page fits a narrow window: ${String(width)}`);
  await screenshot(page, 'narrow');
  await page.setViewportSize({ width: 1280, height: 900 });

  const signedUp = await tryIt(page, 'signUp', { body: account });
  t.equal(signedUp.status, 200, 'signed up');
  t.equal(signedUp.body.user.username, username);
  const loggedIn = await tryIt(page, 'logIn', { body: { username, password } });
  t.equal(loggedIn.status, 200, 'logged in');

  const refreshed = await tryIt(page, 'refresh');
  t.equal(refreshed.status, 200, 'refreshed');
  await screenshot(page, 'refreshed');
  t.equal(await verifyOver(url, loggedIn.body.access_token), 401, 'the previous pair has ended');

  const token = refreshed.body.access_token;
  const body = { device: 'Kitchen tablet' };
  const created = await tryIt(page, 'createLongLivedToken', {
    body,
  });
  t.equal(created.status, 200, 'a long-lived token created');
  const { id, longlived_token: llt } = created.body;
  t.equal(await verifyOver(url, llt), 200);
  t.equal((await tryIt(page, 'deleteLongLivedToken', { id })).status, 200, 'and deleted');
  t.equal(await verifyOver(url, llt), 401);

  t.equal((await tryIt(page, 'logOut')).status, 200);
  t.equal(await verifyOver(url, token), 401, 'logged out');
  t.equal(await verifyOver(url, signedUp.body.access_token), 200, 'the session of the signup is still good');
  t.strictSame(complaints, [], 'no complaints');

  const refused = await tryIt(page, 'getProfile');
  t.match(refused, { status: 401, body: { code: 'invalid_token' } }, 'the page shows a refusal');
  t.match(complaints, [/401/], 'the browser reports it on its console');
  t.equal(complaints.length, 1);
}

/** Saves a screenshot if SCREENSHOTS names a folder. */
async function screenshot(page: Page, name: string, fullPage = false): Promise<void> {
  const { SCREENSHOTS: folder } = process.env;
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), fullPage });
}

/** Schemas of the answers. */
type Shown = Pair & { id: number; longlived_token: string; code: string };

interface Attempt {
  body?: object;
  id?: number;
}

/** Opens an operation, fills in its fields, executes it, and reads the answer on the page. */
async function tryIt(page: Page, operationId: string, { body, id }: Attempt = {}) {
  const block = blockOf(page, operationId);
  await block.locator('.opblock-summary-control').click();
  if (body) await block.locator('textarea.body-param__text').fill(JSON.stringify(body));
  if (id !== undefined) await block.locator('tr[data-param-name="id"] input').fill(String(id));
  await block.locator('button.execute').click();
  const shown = block.locator('.live-responses-table tr.response').first();
  const status = Number(await firstWord(shown.locator('.response-col_status')));
  const text = await shown.locator('.response-col_description code').first().innerText();
  return { status, body: JSON.parse(text) as Shown };
}

async function firstWord(locator: Locator): Promise<string> {
  return (await locator.innerText()).trim().split(/\s/)[0] ?? '';
}
