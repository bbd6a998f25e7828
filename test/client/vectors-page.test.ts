import { readFileSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { test } from 'tap';
import { chromiumMissing, openPage } from '../support/browser.ts';
import { readVectors } from '../support/clients-document.ts';
import { ROOT } from '../support/documents.ts';
import { listen } from '../support/listen.ts';
import { expectedOf, type Seen } from './run-vector.ts';

/** The folders that the page loads modules from. */
const FOLDERS: Readonly<Record<string, string>> = {
  client: 'packages/client/dist',
  test: 'dist/test/client',
};

/** Runs in the page. */
const SCRIPT = `async (rows) => {
  const { createClient } = await import('/client/main.js');
  const { runVector } = await import('/test/run-vector.js');
  const respond = (status, headers, text) => new Response(text, { status, headers });
  const host = { createClient, now: Date.now, passed: () => performance.now(), respond, isAsynchronous: false };
  return Promise.all(rows.map(async (row) => (await runVector(row, host)).seen));
}`;

test('every short row holds in Chromium', { skip: chromiumMissing }, async (t) => {
  const server = http.createServer(({ url = '' }, response) => {
    const [, folder = '', name] = /^\/(\w+)\/([\w-]+\.js)$/.exec(url) ?? [];
    response.setHeader('content-type', name ? 'text/javascript' : 'text/html');
    const path = FOLDERS[folder];
    response.end(
      path && name ? readFileSync(join(ROOT, path, name)) : '<!doctype html><link rel=icon href=data:,>',
    );
  });
  const url = await listen(t, server);
  const { page, complaints } = await openPage(t, url);
  await page.goto(url);
  const rows = readVectors().filter(({ long }) => !long);
  const seen = await page.evaluate<Seen[]>(`(${SCRIPT})(${JSON.stringify(rows)})`);
  for (const [i, row] of rows.entries()) t.strictSame(seen[i], expectedOf(row), row.id);
  t.strictSame(complaints, []);
});
