// suite: browser
import { test, type Test } from 'tap';
import { chromiumMissing } from '../../../test/support/browser.ts';
import { anAccount } from '../../../test/support/client.ts';
import { refreshOver, signUpOver, verifyOver } from '../../../test/support/over-http.ts';
import { redisServersMissing } from '../../../test/support/redis-server.ts';
import { until } from '../../../test/support/until.ts';
import '../../../test/support/watch-leaks.ts';
import type { Tab } from './tab.ts';
import { inTab, openTabs, startWorld, untilAllTabs, type Tabs, type World } from './tabs.ts';

const skip = chromiumMissing || redisServersMissing;

test('the end of a session in one tab, and what other tabs do meanwhile', { skip }, async (t) => {
  const world = await startWorld(t, 10);

  await t.test('a logout during a refresh', async (t) => {
    const tabs = await openTabs(t, world);
    const { refreshed, release } = await heldRefresh(tabs);
    await inTab(tabs.page(1), (tab) => tab.client.logout());
    release();
    t.equal(await refreshed, 'signed_out');
    await signedOut(t, tabs);
    t.equal(tabs.site.pairs.length, 2);
    for (const pair of tabs.site.pairs) {
      t.equal(await verifyOver(world.url, pair.access_token), 401);
      t.equal((await refreshOver(world.url, pair.refresh_token)).status, 401);
    }
  });

  await t.test('other tabs refresh twice before an answer arrives', async (t) => {
    const tabs = await openTabs(t, world);
    const { refreshed, release } = await heldRefresh(tabs);
    for (const tab of [1, 2]) await inTab(tabs.page(tab), (tab) => tab.client.refresh());
    const token = tabs.site.pairs.at(-1)?.access_token;
    await untilAllTabs(tabs, (tab, token) => tab.stored() === token, token);
    release();
    t.equal(await refreshed, 'done');
    t.equal(await inTab(tabs.page(0), (tab) => tab.stored()), token, 'the older pair is not stored');
  });

  await t.test('a logout without a network', async (t) => {
    const tabs = await openTabs(t, world);
    const token = await inTab(tabs.page(0), (tab) => tab.stored());
    await tabs.context.setOffline(true);
    const told = inTab(tabs.page(1), (tab) => tab.outcome(tab.client.logout()));
    await signedOut(t, tabs);
    t.equal(await told, 'no_answer');
    t.equal(await verifyOver(world.url, token), 200, 'Latchkey does not know');
  });

  await t.test('a second user logs in during a refresh', async (t) => {
    const tabs = await openTabs(t, world);
    const { refreshed, release } = await heldRefresh(tabs);
    const { id, token } = await logInAnother(tabs, world);
    release();
    t.equal(await refreshed, 'signed_out');
    for (const page of tabs.pages) {
      await until(async () => (await inTab(page, (tab) => tab.client.session?.user.id)) === id);
      t.equal(await inTab(page, (tab) => tab.stored()), token);
    }
    // The login does not wait until Latchkey has heard of the session that it replaces.
    for (const pair of tabs.site.pairs.filter(({ user }) => user.id !== id))
      await until(async () => (await verifyOver(world.url, pair.access_token)) === 401);
  });

  await t.test('a second user logs in while a call of the first one waits for a refresh', async (t) => {
    const tabs = await openTabs(t, world);
    await tabs.page(0).evaluate(STORED_LONG_AGO);
    const { refreshed, release } = await heldRefresh(tabs, (tab) => tab.call('/service'));
    await logInAnother(tabs, world);
    release();
    t.equal(await refreshed, 'signed_out');
    t.strictSame(tabs.site.served, []);
  });

  await t.test('a second user logs in while a call of the first one is refused', async (t) => {
    const tabs = await openTabs(t, world);
    const { site } = tabs;
    const [first] = site.pairs;
    await refreshOver(world.url, String(first?.refresh_token));
    let release = (): void => undefined;
    site.slow = new Promise((resolve) => (release = resolve));
    const called = inTab(tabs.page(0), (tab) => tab.call('/service?slow'));
    await until(() => site.served.length > 0);
    await logInAnother(tabs, world);
    release();
    t.equal(await called, 401);
    t.strictSame(site.served, [String(first?.user.id)], 'not sent again');
  });
});

/** As if the tabs had slept since 1970. */
const STORED_LONG_AGO = `{
  const [key] = Object.keys(localStorage);
  localStorage.setItem(key, JSON.stringify({ ...JSON.parse(localStorage.getItem(key)), stored_at: 0 }));
}`;

/** The first tab refreshes, and the answer is on its way until `release`. */
async function heldRefresh(
  { site, page }: Tabs,
  run = (tab: Tab): Promise<number | string> => tab.outcome(tab.client.refresh()),
) {
  const pairs = site.pairs.length;
  let release = (): void => undefined;
  const isHeld = site.meets(0, new Promise((resolve) => (release = resolve)));
  const refreshed = inTab(page(0), run);
  await isHeld;
  await until(() => site.pairs.length > pairs);
  return { refreshed, release };
}

/** Another user logs in in the second tab. */
async function logInAnother({ page }: Tabs, { url }: World): Promise<{ id: number; token: string }> {
  const { username, password, ...others } = anAccount();
  await signUpOver(url, { username, password, ...others });
  const login = { username, password };
  const { user } = await inTab(page(1), (tab, login) => tab.client.login(login), login);
  return { id: user.id, token: await inTab(page(1), (tab) => tab.stored()) };
}

async function signedOut(t: Test, tabs: Tabs): Promise<void> {
  await untilAllTabs(tabs, (tab) => tab.client.session === null);
  for (const page of tabs.pages) t.equal(await inTab(page, (tab) => tab.stored()), '');
}
