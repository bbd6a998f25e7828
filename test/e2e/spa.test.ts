// suite: browser
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Page } from 'playwright-core';
import { test } from 'tap';
import { chromiumMissing, openPage, watch } from '../support/browser.ts';
import { anAccount, bearer, claimsOf, type Pair } from '../support/client.ts';
import { ROOT } from '../support/documents.ts';
import { anApp } from '../support/factors.ts';
import { freePort } from '../support/free-port.ts';
import { verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { answersHttp, startServerProcess } from '../support/server-process.ts';
import { readyService } from '../support/service.ts';
import { eventually, until } from '../support/until.ts';
import { aVirtualAuthenticator } from '../support/virtual-authenticator.ts';
import '../support/watch-leaks.ts';

/** Seconds. Between a login and the action after it, even a busy machine needs less. */
const LLT_LOGIN_MAX_AGE = '5';
/** A page that takes it for HTML breaks its own policy. */
const HTML = '<img src=x onerror=alert(1)>';
const [OWN, OTHER] = ['Session: Chrome on Linux (this one)', `Session: ${HTML} End`];
const FACTOR_KEYS = Buffer.alloc(32, 1).toString('base64url');
const LLT = 'Long-lived token: Kitchen tablet End';

/** Uses the page of examples/spa in two tabs like a person: by clicking, in a real browser. */
test('the single-page app of examples/spa', { skip: chromiumMissing }, async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const port = String(await freePort());
  const url = `http://localhost:${port}`;
  const service = await readyService(t, {
    DATABASE_URL,
    EMAIL_VERIFICATION: 'true',
    FACTOR_KEYS,
    LLT_LOGIN_MAX_AGE,
    TRUST_PROXY: 'loopback',
    WEBAUTHN_RP_ID: 'localhost',
    WEBAUTHN_ORIGINS: url,
  });
  await startServerProcess(t, [process.execPath, join(ROOT, 'examples/spa/serve.mjs')], {
    answers: () => answersHttp(url),
    env: { LATCHKEY_URL: service.url, PORT: port },
  });
  const { page, complaints } = await openPage(t, url);
  const account = anAccount({ name: HTML });
  const { username, password } = account;
  const logIn = async () => {
    const body = JSON.stringify({ username, password, device: HTML });
    const headers = { 'content-type': 'application/json' };
    return (await (await fetch(`${service.url}/api/auth`, { method: 'POST', headers, body })).json()) as Pair;
  };
  await page.goto(url);
  /** The user's, once the app is set up. */
  let app = anApp('');

  await t.test('a signup is refused field by field, and then signs in', async (t) => {
    await submit(page, 'Sign up', { ...account, password: 'x' });
    await until(async () => /\bpassword\b/.test(await alertOf(page)));
    t.match(complaints.splice(0), [/400/], 'the browser reports the refusal');
    await submit(page, 'Sign up', account);
    await signedIn(page);
    t.equal(await page.locator('#user').innerText(), HTML, 'a name is text');
    t.equal(await alertOf(page), '');
  });

  const second = await watch(await page.context().newPage(), url);
  await t.test('a second tab is signed in without a login', async (t) => {
    await second.page.goto(url);
    await signedIn(second.page);
    await t.resolves(lists(second.page, OWN));
  });

  await t.test('the list shows another login, and ends it', async (t) => {
    const { access_token: other } = await logIn();
    await page.getByRole('button', { name: 'Update the list' }).click();
    await t.resolves(lists(page, OWN, OTHER));
    t.equal(await verifyOver(service.url, other), 200);
    await page.getByRole('button', { name: `End ${HTML}` }).click();
    await t.resolves(lists(page, OWN));
    t.equal(await verifyOver(service.url, other), 401);
  });

  await t.test('an action asks for a new login if the last one is too old', async (t) => {
    const { access_token: first } = await storedPair(page);
    // Latchkey refuses a blank device only after an old login.
    await until(async () => (await createToken(service.url, first, ' ')) === 403);
    const dialog = page.getByRole('dialog', { name: 'Log in again to do this' });
    const create = () => submit(page, 'New long-lived token', { device: 'Kitchen tablet' });
    await create();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.waitFor({ state: 'hidden' });
    t.equal((await storedPair(page)).access_token, first);

    await create();
    await dialog.getByLabel('Password').fill('wrong');
    await dialog.getByRole('button', { name: 'Log in' }).click();
    await until(async () => /\S/.test(await dialog.getByRole('alert').innerText()));
    t.match(complaints.splice(0), [/403/, /403/, /401/]);
    await dialog.getByLabel('Password').fill(password);
    await dialog.getByRole('button', { name: 'Log in' }).click();
    await until(async () => /: eyJ\S+$/.test(await page.locator('#created').innerText()));
    const llt = (await page.locator('#created').innerText()).split(' ').at(-1) ?? '';
    t.equal(await verifyOver(service.url, llt), 200, 'the token is shown');
    // The login has replaced the session, but does not wait for its end.
    await until(async () => (await verifyOver(service.url, first)) === 401);
    for (const each of [page, second.page]) {
      await each.getByRole('button', { name: 'Update the list' }).click();
      await t.resolves(lists(each, OWN, LLT));
    }
  });

  await t.test('a logout in one tab, and a login, are seen in the other', async (t) => {
    const { access_token: access } = await storedPair(page);
    await page.getByRole('button', { name: 'Log out', exact: true }).click();
    for (const each of [page, second.page]) await signedOut(each);
    await until(async () => (await verifyOver(service.url, access)) === 401);
    await submit(second.page, 'Log in', { username, password });
    for (const each of [page, second.page]) await signedIn(each);
    await t.resolves(lists(page, OWN, LLT));
  });

  await t.test('a user confirms the address, pastes the token of another, and changes it', async (t) => {
    const mailer = await aRegisteredService(DATABASE_URL, 'mailer', ['mails']);
    const tokenTo = async (email: string) => {
      const headers = { ...basic(mailer), 'content-type': 'application/json' };
      const body = JSON.stringify({ kinds: ['email_verification', 'email_change'] });
      const response = await fetch(`${service.url}/api/users/mails`, { method: 'POST', headers, body });
      const { mails } = (await response.json()) as { mails: { email: string; token: string }[] };
      return mails.find((mail) => mail.email === email)?.token ?? '';
    };
    const { email } = account;
    await until(async () => (await textOf(page, 'address')) === `${email} is not confirmed.`);
    await change(page, 'Add an authenticator app', password);
    await until(async () => /\S/.test(await alertOf(page)));
    t.match(complaints.splice(0), [/403/], 'no second factor before');
    const link = await tokenTo(email);
    // A mail scanner opens the link too: nothing happens before its user presses the button.
    await page.goto(`${url}/verify#${link}`);
    await signedIn(page);
    await until(async () => (await textOf(page, 'address')) === `${email} is not confirmed.`);
    t.equal(page.url(), `${url}/`, 'the address of the page loses the token');
    await page.getByRole('form', { name: 'Confirm the address' }).getByRole('button').click();
    await until(async () => (await textOf(page, 'address')) === `${email} is confirmed.`);

    const next = `new.${email}`;
    await submit(page, 'Change the address', { email: next, current_password: password });
    await until(async () => (await textOf(page, 'pending')).startsWith(next));
    t.equal(await textOf(page, 'address'), `${email} is confirmed.`);
    await submit(page, 'Confirm the address', { verification_token: 'lkv_x' });
    await until(async () => /\S/.test(await alertOf(page)));
    t.match(complaints.splice(0), [/401/, /401/]);
    await submit(page, 'Confirm the address', { verification_token: ` ${await tokenTo(next)}\n` });
    await until(async () => (await textOf(page, 'address')) === `${next} is confirmed.`);
    t.equal(await textOf(page, 'pending'), '');
  });

  await t.test('a user adds an app, and sees secret and recovery codes once', async (t) => {
    await change(page, 'Add an authenticator app', password);
    await page.getByRole('form', { name: 'Confirm the app' }).waitFor();
    app = anApp(await page.locator('#secret').innerText());
    const width = () => page.evaluate<number>("document.getElementById('qr').naturalWidth");
    await until(async () => (await width()) > 0);
    await submit(page, 'Confirm the app', { code: '000 000' });
    await until(async () => /\S/.test(await alertOf(page)));
    t.match(complaints.splice(0), [/401/]);
    await submit(page, 'Confirm the app', { code: app().replace(/^.../, '$& ') });
    await until(async () => (await recoveryCodes(page)).length === 10);
    await t.resolves(shows(page, 'Authenticator app', '10 recovery codes are left.'));
    t.equal(await page.locator('#secret').innerText(), '');
    await page.reload();
    await t.resolves(shows(page, 'Authenticator app', '10 recovery codes are left.'));
    t.strictSame(await recoveryCodes(page), []);
  });

  await t.test('a session without the code has to log in with it to change the factor', async (t) => {
    const { access_token: before } = await storedPair(page);
    await change(page, 'New recovery codes', password);
    await logInAgain(page, password);
    await secondStep(page, '000000');
    const alert = page.getByRole('dialog', { name: 'Second step' }).getByRole('alert');
    await until(async () => /\S/.test(await alert.innerText()));
    // The code that confirmed the app is used up, and the next one is good already.
    await secondStep(page, app(1));
    await until(async () => (await recoveryCodes(page)).length === 10);
    t.match(complaints.splice(0), [/403/, /401/, /401/]);
    await until(async () => (await verifyOver(service.url, before)) === 401);
  });

  await t.test('a recovery code logs in, and the user removes the lost app', async (t) => {
    const [code = ''] = await recoveryCodes(page);
    await page.getByRole('button', { name: 'Log out', exact: true }).click();
    await signedOut(page);
    t.strictSame(await recoveryCodes(page), [], 'they leave the page with the session');
    await submit(page, 'Log in', { username, password });
    await secondStep(page, code.toLowerCase().replaceAll('-', ' '));
    await t.resolves(shows(page, 'Authenticator app', '9 recovery codes are left.'));
    await change(page, 'Remove it', password);
    await t.resolves(shows(page, '', ''));
    t.match(complaints.splice(0), [/401/]);
    await signedIn(second.page);
  });

  await t.test('a user adds a passkey, logs in by it in each way, and removes it', async (t) => {
    const logOut = () => page.getByRole('button', { name: 'Log out', exact: true }).click();
    // Chromium makes no passkey for a tab in the background.
    await page.bringToFront();
    await logOut();
    await signedOut(page);
    await submit(page, 'Log in', { username, password });
    await signedIn(page);
    const authenticator = await aVirtualAuthenticator(page);
    await authenticator.touch(true);
    await change(page, 'Add a passkey', password);
    await t.resolves(shows(page, 'Passkey', '10 recovery codes are left.'));
    const [first] = await recoveryCodes(page);
    await change(page, 'New recovery codes', password);
    const dialog = page.getByRole('dialog', { name: 'Log in again to do this' });
    await dialog.getByRole('button', { name: 'Use a passkey' }).click();
    await until(async () => ![undefined, first].includes((await recoveryCodes(page))[0]));
    t.match(complaints.splice(0), [/403/]);

    const before = await storedPair(page);
    await logOut();
    // The autofill answers as soon as the page offers passkeys.
    await until(async () => ![before.access_token, undefined].includes(await storedAccess(page)));
    t.match(claimsOf((await storedPair(page)).access_token), { acr: 'phr' });

    // As in a browser that offers no passkeys in the autofill: here it would answer before the button.
    await page.evaluate('PublicKeyCredential.isConditionalMediationAvailable = () => Promise.resolve(false)');
    await logOut();
    await signedOut(page);
    await authenticator.verify(false);
    const byButton = () => page.locator('main').getByRole('button', { name: 'Use a passkey' }).click();
    await byButton();
    await until(async () => /\S/.test(await alertOf(page)));
    await authenticator.verify(true);
    await byButton();
    await signedIn(page);
    await change(page, 'Remove it', password);
    await t.resolves(shows(page, '', ''));
    await until(() => authenticator.deleted.length === 1);
    await signedIn(second.page);
  });

  await t.test('a logout everywhere ends the other sessions too', async (t) => {
    const { access_token: other } = await logIn();
    await second.page.getByRole('button', { name: 'Log out everywhere' }).click();
    for (const each of [page, second.page]) await signedOut(each);
    await until(async () => (await verifyOver(service.url, other)) === 401);
    t.equal(await storedPair(page), null);
  });

  await t.test('neither tab complains, and the server gives nothing else', async (t) => {
    // The list of factors may have been on its way when the other tab logged out everywhere.
    const late = /401.*\/api\/user\/factors$/;
    t.strictSame(
      [...complaints, ...second.complaints].filter((each) => !late.test(each)),
      [],
    );
    for (const path of ['/serve.mjs', '/client/..%2fpackage.json', '/client/main.d.ts'])
      t.equal((await fetch(url + path)).status, 404, path);
  });
});

/** Clicks this button of the form that changes the second factor. */
async function change(page: Page, button: string, password: string): Promise<void> {
  const form = page.getByRole('form', { name: 'Change the second factor' });
  await form.getByLabel('Password').fill(password);
  await form.getByRole('button', { name: button }).click();
}

async function logInAgain(page: Page, password: string): Promise<void> {
  const dialog = page.getByRole('dialog', { name: 'Log in again to do this' });
  await dialog.getByLabel('Password').fill(password);
  await dialog.getByRole('button', { name: 'Log in' }).click();
}

async function secondStep(page: Page, code: string): Promise<void> {
  const dialog = page.getByRole('dialog', { name: 'Second step' });
  await dialog.getByLabel('Code').fill(code);
  await dialog.getByRole('button', { name: 'Log in' }).click();
}

function recoveryCodes(page: Page): Promise<string[]> {
  return page.locator('#recovery-codes li').allInnerTexts();
}

/** Waits until the page shows these factors, and says so about recovery codes. @throws Error with what it shows */
function shows(page: Page, factors: string, left: string): Promise<void> {
  return eventually(60, async () => {
    const shown = [
      (await page.locator('#factors li').allInnerTexts()).join(),
      await page.locator('#codes-left').innerText(),
    ];
    return isDeepStrictEqual(shown, [factors, left]) ? null : shown.join(': ');
  });
}

/** Fills in the form of this name, by the names of its fields, and submits it. */
async function submit(page: Page, name: string, fields: Record<string, string>): Promise<void> {
  const form = page.getByRole('form', { name, exact: true });
  for (const [field, value] of Object.entries(fields)) await form.locator(`[name=${field}]`).fill(value);
  await form.getByRole('button').click();
}

function signedIn(page: Page): Promise<void> {
  return page.getByRole('button', { name: 'Log out', exact: true }).waitFor();
}

function signedOut(page: Page): Promise<void> {
  return page.getByRole('form', { name: 'Log in', exact: true }).waitFor();
}

function textOf(page: Page, id: string): Promise<string> {
  return page.locator(`#${id}`).innerText();
}

function alertOf(page: Page): Promise<string> {
  return page.locator('#message').innerText();
}

/** Waits until the list has these items in any order. @throws Error with what it has */
function lists(page: Page, ...expected: string[]): Promise<void> {
  return eventually(60, async () => {
    const texts = await page.locator('#tokens li').allInnerTexts();
    const items = texts.map((text) => text.replaceAll(/\s+/g, ' ').trim()).sort();
    return isDeepStrictEqual(items, expected.sort()) ? null : items.join(', ');
  });
}

/** What `@latchkey/client` keeps for all tabs. */
async function storedPair(page: Page): Promise<Pair> {
  return JSON.parse(await page.evaluate('localStorage.getItem(localStorage.key(0)) ?? "null"')) as Pair;
}

async function storedAccess(page: Page): Promise<string | undefined> {
  const pair = (await storedPair(page)) as Pair | null;
  return pair?.access_token;
}

async function createToken(url: string, token: string, device: string): Promise<number> {
  const headers = { ...bearer(token), 'content-type': 'application/json' };
  const body = JSON.stringify({ device });
  return (await fetch(`${url}/api/auth/llt`, { method: 'POST', headers, body })).status;
}
