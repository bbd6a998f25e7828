// suite: browser
import http from 'node:http';
import { test } from 'tap';
import { chromiumMissing, openPage } from '../../../test/support/browser.ts';
import { readVectors } from './clients-document.ts';
import { clientSite } from './client-site.ts';
import { listen } from '../../../test/support/listen.ts';
import { aPair } from './fake-server.ts';
import { expectedOf, type Seen } from './run-vector.ts';

/** Runs in the page. */
const SCRIPT = `async (rows) => {
  const { createClient } = await import('/client/main.js');
  const { runVector } = await import('/test/run-vector.js');
  const respond = (status, headers, text) => new Response(text, { status, headers });
  const host = { createClient, now: Date.now, passed: () => performance.now(), respond, isAsynchronous: false };
  return Promise.all(rows.map(async (row) => (await runVector(row, host)).seen));
}`;

/** The same. */
const REDIRECTED = `async ({ api, pair }) => {
  const { createClient } = await import('/client/main.js');
  localStorage.setItem('latchkey.' + location.origin.replace(/[:/]/g, (sign) => '_' + sign.charCodeAt(0).toString(16)),
    JSON.stringify({ stored_at: Date.now(), ...pair }));
  const client = createClient({ apis: [api], storage: localStorage });
  const answers = [];
  for (const [method, url] of [['GET', '/orders/near'], ['POST', '/orders/near'], ['GET', '/orders/away'],
    ['POST', '/orders/away'], ['GET', api + '/orders/near']]) {
    const init = { method, ...(method === 'POST' && { body: 'a book' }) };
    answers.push(await client.fetch(url, init).then(
      async (response) => method + ': ' + await response.text(), ({ code, name }) => code ?? name));
  }
  return answers;
}`;

test('every short row holds in Chromium', { skip: chromiumMissing }, async (t) => {
  const url = await clientSite(t);
  const { page, complaints } = await openPage(t, url);
  await page.goto(url);
  const rows = readVectors().filter(({ long }) => !long);
  const seen = await page.evaluate<Seen[]>(`(${SCRIPT})(${JSON.stringify(rows)})`);
  for (const [i, row] of rows.entries()) t.strictSame(seen[i], expectedOf(row), row.id);
  t.strictSame(complaints, []);
});

test(
  'in Chromium, redirects are followed within the page’s origin only',
  { skip: chromiumMissing },
  async (t) => {
    const seen: string[] = [];
    const cors = { 'access-control-allow-origin': '*', 'access-control-allow-headers': '*' };
    const service =
      (elsewhere: () => string): http.RequestListener =>
      (request, response) => {
        const { method = '', url = '' } = request;
        if (method !== 'OPTIONS') seen.push(`${method} ${url}`);
        const location = { '/orders/near': '/orders', '/orders/away': `${elsewhere()}/orders` }[url];
        const isMoved = location !== undefined && method !== 'OPTIONS';
        response.writeHead(isMoved ? 307 : 200, { ...cors, ...(isMoved && { location }) }).end('good');
      };
    const api: string = await listen(t, http.createServer(service(() => api)));
    const url = await clientSite(t, { '/orders': service(() => api) });
    const { page } = await openPage(t, url);
    await page.goto(url);
    const body = await page.evaluate<string[]>(`(${REDIRECTED})(${JSON.stringify({ api, pair: aPair() })})`);
    t.strictSame(body, ['GET: good', 'POST: good', 'TypeError', 'TypeError', 'origin_not_allowed']);
    t.strictSame(seen, [
      'GET /orders/near',
      'GET /orders',
      'POST /orders/near',
      'POST /orders',
      'GET /orders/away',
      'POST /orders/away',
      'GET /orders/near',
    ]);
  },
);
