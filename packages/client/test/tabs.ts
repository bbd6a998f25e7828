import { setTimeout as sleep } from 'node:timers/promises';
import type { Page } from 'playwright-core';
import type { Test } from 'tap';
import { anAccount } from '../../../test/support/client.ts';
import { openProfile } from '../../../test/support/browser.ts';
import { testFolder } from '../../../test/support/folder.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { startRedis } from '../../../test/support/redis-server.ts';
import { readyService, startService } from '../../../test/support/service.ts';
import { until } from '../../../test/support/until.ts';
import { startSite, type Site } from './site.ts';
import type { Tab } from './tab.ts';

export type World = Awaited<ReturnType<typeof startWorld>>;
export type Tabs = Awaited<ReturnType<typeof openTabs>>;

const TABS = 5;

/** The probability that an answer of Latchkey is lost. */
const LOSS = 0.2;

/** Seconds: longer than the shortest window, and shorter than the client waits for an answer. */
const SHORT = 1.2;

/** Playwright’s default. Without it, pages go into the cache. */
const NO_CACHE = '--disable-back-forward-cache';

/** Latchkey with a Redis of its own. @param window of retries, in seconds */
export async function startWorld(t: Test, window: number) {
  const redis = await startRedis(t);
  const { url: DATABASE_URL } = await testDatabase(t);
  const env = {
    DATABASE_URL,
    REDIS_URL: redis.url,
    DATA_DIR: testFolder(t),
    REFRESH_RETRY_WINDOW: String(window),
  };
  let service = await readyService(t, env);
  const world = {
    /** Changes with each restart. */
    url: service.url,
    window,
    restarts: 0,
    /** Away for a moment only, so that most of the time is for refreshes. */
    async restart(signal: NodeJS.Signals) {
      const next = await startService(t, env);
      await service.stop(signal);
      await sleep(300);
      service = next;
      world.url = service.url;
      world.restarts++;
    },
    emptyRedis: () => redis.ask('FLUSHALL'),
  };
  return world;
}

/** Five tabs of one profile, which share `localStorage`, and a user who has just signed up. */
export async function openTabs(t: Test, world: World) {
  const site = await startSite(t, world);
  const context = await openProfile(t, [NO_CACHE]);
  const pages: Page[] = [];
  const tabs = {
    site,
    context,
    pages,
    /** Opens or replaces a tab. */
    async open(tab: number, options = ''): Promise<void> {
      await pages[tab]?.close();
      const page = await context.newPage();
      page.setDefaultTimeout(0);
      pages[tab] = page;
      await page.goto(`${site.url}/?tab=${tab}${options}`);
    },
    page: (tab: number): Page => {
      const page = pages[tab];
      if (!page) throw new Error(`no tab ${tab}`);
      return page;
    },
  };
  for (let tab = 0; tab < TABS; tab++) await tabs.open(tab);
  await inTab(tabs.page(0), (tab, account) => tab.client.signup(account), anAccount());
  await untilAllTabs(tabs, (tab) => tab.client.session !== null);
  return tabs;
}

/** Runs a function in a tab. It must not use anything outside of it. */
export function inTab<Result, Value = undefined>(
  page: Page,
  run: (tab: Tab, value: Value) => Result | Promise<Result>,
  value?: Value,
): Promise<Result> {
  return page.evaluate<Result>(`(${run.toString()})(tab, ${JSON.stringify(value)})`);
}

/**
 * Waits until this holds in every tab, because browser processes share localStorage with a delay.
 * @param holds as for `inTab`
 */
export async function untilAllTabs<Value = undefined>(
  { pages }: { pages: readonly Page[] },
  holds: (tab: Tab, value: Value) => boolean,
  value?: Value,
): Promise<void> {
  for (const page of pages) await until(() => inTab(page, holds, value));
}

/** @throws Error if a tab is signed out */
export async function badDays(world: World, tabs: Tabs, days: number, refreshes: number): Promise<void> {
  tabs.site.loss = LOSS;
  for (let tab = 0; tab < TABS; tab++) await tabs.open(tab, '&works');
  for (let day = 0; day < days; day++) await aBadDay(world, tabs, day, refreshes);
}

type Five = [number, number, number, number, number];

/** Stops a tab at its next statement. @returns what lets it go on */
async function stop(site: Site, page: Page): Promise<() => Promise<void>> {
  const debug = await page.context().newCDPSession(page);
  let isStopped = false;
  debug.once('Debugger.paused', () => (isStopped = true));
  await debug.send('Debugger.enable');
  await debug.send('Debugger.pause');
  await site.until(() => isStopped);
  return async () => {
    await debug.send('Debugger.resume');
    await debug.detach();
  };
}

/**
 * All tabs refresh and call while everything happens that may happen to them. Then they only call until the retry window
 * has passed, so that an old token would be a stolen one. Then the tabs go on that were away.
 * @param refreshes how many there are at least
 * @throws Error if a tab is signed out
 */
async function aBadDay(world: World, tabs: Tabs, day: number, refreshes: number): Promise<void> {
  const { site, context } = tabs;
  const [stopped, cached, killed, held, fifth] = [0, 1, 2, 3, 4].map((tab) => (tab + day) % TABS) as Five;
  const end = site.refreshes + refreshes;
  await site.until(() => site.refreshes >= end - refreshes / 2);

  await site.meets(stopped, 'busy');
  const goOn = await stop(site, tabs.page(stopped));
  await tabs.page(cached).goto(`${site.url}/elsewhere`);
  await site.meets(fifth, 'firewall');
  const deaths = site.noted('dying');
  await tabs.open(killed, '&works&dies');
  await site.until(() => site.noted('dying') > deaths);
  await tabs.page(killed).close();
  await context.setOffline(true);
  await sleep(300);
  await context.setOffline(false);
  await world.restart(day % 2 === 0 ? 'SIGTERM' : 'SIGKILL');
  await world.emptyRedis();
  await site.until(() => site.refreshes >= end);

  let release = (): void => undefined;
  await site.meets(held, new Promise((resolve) => (release = resolve)));
  const superseded = site.refreshes + TABS;
  await site.until(() => site.refreshes >= superseded);
  site.isQuiet = true;
  await site.silence(SHORT);
  const calls = site.calls[held];
  release();
  await site.until(() => site.calls[held] !== calls);
  await site.silence(world.window + 0.2);
  await goOn();
  const restored = site.noted('restored');
  void tabs.page(cached).goBack({ waitUntil: 'commit' });
  await site.until(() => site.noted('restored') > restored);
  site.isQuiet = false;
  await tabs.open(killed, '&works');
}
