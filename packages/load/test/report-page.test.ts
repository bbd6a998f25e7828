// suite: browser, release
import { createServer } from 'node:http';
import { join } from 'node:path';
import type { Page } from 'playwright-core';
import { test, type Test } from 'tap';
import { chromiumMissing, openPage } from '../../../test/support/browser.ts';
import { listen } from '../../../test/support/listen.ts';
import { readArguments } from '../src/arguments.ts';
import type { HerdRound } from '../src/herd.ts';
import { makeJudge } from '../src/judge.ts';
import { pageOf } from '../src/page.ts';
import { makeReport, type Ran } from '../src/report.ts';
import { makeSamples } from '../src/samples.ts';
import { TIMED_OUT, TIMEOUT } from '../src/wire.ts';
import { listAccounts } from './listed-accounts.ts';

const SECONDS = 60;

/** A minute of load in which some requests fail. */
function aRun(scenario: string, judge = makeJudge(), words: string[] = []): Ran {
  const samples = makeSamples(0, SECONDS);
  for (let i = 0; i < 100 * SECONDS; i++) {
    const due = i * 10;
    const took = 2 + 40 * Math.abs(Math.sin(i / 700)) + (i % 97);
    const code = i % 211 === 0 ? '503 unavailable' : 'ok';
    samples.record({ operation: i % 5 === 0 ? 'refresh' : 'verify', due, done: due + took, code });
  }
  samples.record({ operation: 'login', due: 29_000, done: 29_300, code: 'ok' });
  samples.record({ operation: 'login', due: 30_000, done: 30_000 + TIMEOUT, code: TIMED_OUT });
  return {
    options: readArguments([scenario, ...words], {}, listAccounts),
    url: 'http://127.0.0.1:3000',
    started: new Date(0),
    judge,
    samples,
    seconds: SECONDS,
    interrupted: false,
    ok: samples.all().ok,
    arrivals: 6001,
    not_begun: 0,
    generator: { late_p99_ms: 1.2, cpu: 0.3 },
  };
}

function aHerd(): Ran {
  const rounds: HerdRound[] = [5, 9, 16].map((all, i) => ({
    devices: 1000 * 2 ** i,
    back: { p50: all / 2, p90: all * 0.8, p99: all * 0.95, all },
    missing: 0,
    tries: 1.8,
    peak_per_second: 600 * 2 ** i,
    curve: Array.from({ length: all * 10 + 1 }, (_, tenth) => tenth / (all * 10)),
  }));
  return { ...aRun('herd'), rounds };
}

/** Opens a report and collects what the browser complains about. */
async function open(t: Test, ran: Ran) {
  const html = pageOf(makeReport(ran));
  const server = createServer((request, response) => {
    // A browser asks for an icon by itself.
    if (request.url !== '/') response.writeHead(204).end();
    else response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' }).end(html);
  });
  const origin = await listen(t, server);
  const { page, complaints } = await openPage(t, origin);
  await page.goto(`${origin}/`);
  return { page, complaints };
}

test('a report of load in a browser', { skip: chromiumMissing }, async (t) => {
  const { page, complaints } = await open(t, aRun('mixed-day'));
  t.equal(await page.locator('h1 .verdict').innerText(), 'passed');
  t.strictSame(await cards(page), [
    '0 Sign-outs',
    '0 Duplicate ids',
    '0 Ended tokens accepted',
    '0 Good tokens refused',
    '0 Wrong users',
  ]);
  t.strictSame(await page.locator('figure h2').allInnerTexts(), [
    'Requests a second',
    'Latency',
    'Failed requests',
  ]);
  await checkCharts(t, page, [2, 3, 2]);
  const first = page.locator('.scroll').first();
  const width = (name: string) => page.evaluate(`document.querySelector('.scroll').${name}`);
  t.equal(await width('scrollWidth'), await width('clientWidth'), 'no column is cut off');
  const table = await first.innerText();
  for (const word of ['refresh', 'verify', 'login', 'timeouts']) t.match(table, word);
  t.match(await page.locator('body').innerText(), 'A timeout counts as 10 s or more');
  await screenshot(page, 'load');

  await page.setViewportSize({ width: 390, height: 844 });
  // The layout follows the new size later.
  await page.waitForFunction('document.documentElement.scrollWidth <= 390');
  await screenshot(page, 'load-narrow');
  await page.setViewportSize({ width: 1280, height: 900 });
  await page.emulateMedia({ colorScheme: 'dark' });
  await screenshot(page, 'load-dark');
  t.strictSame(complaints, [], 'no complaints');
});

test('a report of a herd in a browser', { skip: chromiumMissing }, async (t) => {
  const { page, complaints } = await open(t, aHerd());
  await checkCharts(t, page, [3]);
  t.match(await page.locator('body').innerText(), /Growth: 0\.\d+, no worse than linear/);
  await screenshot(page, 'herd');
  t.strictSame(complaints, [], 'no complaints');
});

test('a report of a run without any answer draws its charts', { skip: chromiumMissing }, async (t) => {
  const samples = makeSamples(0, SECONDS);
  samples.record({ operation: 'verify', due: 0, done: 1, code: 'ECONNREFUSED' });
  for (const each of [samples, makeSamples(0, SECONDS)]) {
    const { page, complaints } = await open(t, { ...aRun('mixed-day'), samples: each });
    t.ok((await page.locator('figure canvas').count()) >= 2);
    t.strictSame(complaints, [], 'no complaints');
  }
});

test('a broken promise is the first thing to see', { skip: chromiumMissing }, async (t) => {
  const judge = makeJudge();
  judge.triedEnded('the access token 7.9, which was logged out,', true);
  judge.signedOut('load-device-1', '401 token_reused');
  const { page, complaints } = await open(t, aRun('mixed-day', judge));
  t.equal(await page.locator('h1 .verdict').innerText(), 'failed');
  t.strictSame((await cards(page)).slice(0, 3), [
    '1 Sign-outs',
    '0 Duplicate ids',
    '1 Ended tokens accepted',
  ]);
  t.equal(await page.locator('.card.bad').count(), 2);
  const finding = page.locator('.findings li').first();
  t.match(await finding.innerText(), 'was accepted');
  const box = await finding.boundingBox();
  t.ok(box && box.y + box.height < 900, 'without scrolling');
  await screenshot(page, 'broken');
  t.strictSame(complaints, [], 'no complaints');
});

/** The figures of the promises, each with its name. */
async function cards(page: Page): Promise<string[]> {
  const found = await page.locator('section.cards').first().locator('.card').all();
  return Promise.all(
    found.map(
      async (card) => `${await card.locator('b').innerText()} ${await card.locator('span').innerText()}`,
    ),
  );
}

/** Each chart has its size, its names, and a line of each color. @param lines of each chart. */
async function checkCharts(t: Test, page: Page, lines: readonly number[]): Promise<void> {
  const charts = await page.locator('figure').all();
  t.equal(charts.length, lines.length);
  for (const [i, chart] of charts.entries()) {
    const frame = await chart.locator('.u-over').boundingBox();
    t.ok(frame && frame.width > 500 && frame.height > 150, 'a chart has its size');
    // Beside the names, the legend has one for the x axis.
    t.equal(await chart.locator('.u-legend .u-series').count(), 1 + (lines[i] ?? 0));
    const drawn = await page.evaluate(`(${COLORED_PIXELS})(${i})`);
    const pixels = drawn as number[];
    t.ok(
      pixels.slice(0, lines[i]).every((count) => count > 20),
      `a line of each color: ${pixels.join()}`,
    );
  }
}

/** Saves a screenshot of the whole page if SCREENSHOTS names a folder. */
async function screenshot(page: Page, name: string): Promise<void> {
  const { SCREENSHOTS: folder } = process.env;
  if (folder) await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
}

/** Runs in the browser. @returns how many pixels of this chart have each of the five colors of lines. */
const COLORED_PIXELS = `(chart) => {
  const canvas = document.querySelectorAll('figure canvas')[chart];
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const style = getComputedStyle(document.documentElement);
  return [0, 1, 2, 3, 4].map((line) => {
    const hex = style.getPropertyValue('--s' + line).trim().slice(1);
    const [r, g, b] = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
    let count = 0;
    for (let i = 0; i < data.length; i += 4)
      if (data[i] === r && data[i + 1] === g && data[i + 2] === b && data[i + 3] === 255) count++;
    return count;
  });
}`;
