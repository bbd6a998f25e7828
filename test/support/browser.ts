import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium, type BrowserContext, type Page } from 'playwright-core';
import type { Test } from 'tap';
import { toolsMissing } from './tools.ts';

export const chromiumMissing = toolsMissing('chromium');

const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

export interface Watched {
  page: Page;
  /** What a page must not do: errors, violations of its policy, requests to other hosts. */
  complaints: string[];
}

/**
 * Debian's Chromium with a new profile, closed after the test.
 * @param ignoreDefaultArgs flags of Playwright to leave out
 * @param preferences of the profile, as Chromium stores them
 */
export async function openProfile(
  t: Test,
  ignoreDefaultArgs: string[] = [],
  preferences?: object,
): Promise<BrowserContext> {
  const profile = mkdtempSync(join(tmpdir(), 'latchkey-chromium-'));
  if (preferences) {
    mkdirSync(join(profile, 'Default'));
    writeFileSync(join(profile, 'Default/Preferences'), JSON.stringify(preferences));
  }
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: '/usr/bin/chromium',
    headless: true,
    args: FLAGS,
    ignoreDefaultArgs,
    viewport: { width: 1280, height: 900 },
  });
  t.teardown(async () => {
    await context.close();
    rmSync(profile, { recursive: true, force: true });
  });
  return context;
}

/** A page in a new profile. @param origin the only allowed origin. */
export async function openPage(t: Test, origin: string): Promise<Watched> {
  const context = await openProfile(t);
  return watch(await context.newPage(), origin);
}

/** Milliseconds: an element that never comes fails the test, and names itself. */
const PATIENCE = 120_000;

/** Also for another tab of the profile. */
export async function watch(page: Page, origin: string): Promise<Watched> {
  const complaints: string[] = [];
  page.setDefaultTimeout(PATIENCE);
  page.on('pageerror', (error) => complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type()))
      complaints.push(`console: ${message.text()} ${message.location().url}`);
  });
  page.on('request', (request) => {
    const url = request.url();
    if (!url.startsWith(`${origin}/`) && !url.startsWith('data:')) complaints.push(`request: ${url}`);
  });
  page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`));
  await page.exposeFunction('complain', (violation: string) => complaints.push(violation));
  await page.addInitScript(() => {
    const { document, complain } = globalThis as unknown as PageGlobals;
    document.addEventListener('securitypolicyviolation', ({ violatedDirective, blockedURI }) => {
      complain(`policy: ${violatedDirective} ${blockedURI}`);
    });
  });
  return { page, complaints };
}

/** The result of the script above in the page. */
interface PageGlobals {
  document: {
    addEventListener(
      name: string,
      listen: (event: { violatedDirective: string; blockedURI: string }) => void,
    ): void;
  };
  complain: (violation: string) => void;
}
