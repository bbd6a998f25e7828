import { readFileSync } from 'node:fs';
import http from 'node:http';
import { text } from 'node:stream/consumers';
import type { Test } from 'tap';
import { bearer, claimsOf, type Pair } from '../../../test/support/client.ts';
import { listen } from '../../../test/support/listen.ts';
import { until } from '../../../test/support/until.ts';

/** What replaces the next answer to a refresh of a tab: the proxy is busy, a firewall's page, or it waits. */
export type Fate = 'busy' | 'firewall' | Promise<void>;

export type Site = Awaited<ReturnType<typeof startSite>>;

const CLIENT = new URL('../../../../packages/client/dist/', import.meta.url);
const TAB = new URL('tab.js', import.meta.url);
const IMPORTS = JSON.stringify({ imports: { '@latchkey/client': '/client/main.js' } });
const PAGE = `<!doctype html><title>A tab</title><link rel="icon" href="data:,">
<script type="importmap">${IMPORTS}</script><script type="module" src="/tab.js"></script>`;

/**
 * The origin of the tabs: their page, the client, Latchkey behind a proxy that loses answers, and a service that asks
 * Latchkey about each token.
 * @param world where Latchkey is now
 */
export async function startSite(t: Test, world: { url: string }) {
  const fates = new Map<string, Fate>();
  const notes: string[] = [];
  const pairs: Pair[] = [];
  const served: string[] = [];
  let newest = { generation: 0, at: 0 };

  const server = http.createServer((request, response) => {
    // Chromium repeats a request by itself if a connection breaks that it has used before.
    response.setHeader('connection', 'close');
    answer(request, response).catch(() => response.destroy());
  });

  async function answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const { pathname, search } = new URL(request.url ?? '/', site.url);
    if (pathname.startsWith('/api/')) return pass(request, response);
    if (pathname === '/service') return serve(request, response);
    if (pathname === '/note') notes.push(decodeURIComponent(search.slice(1)));
    const isScript = pathname.endsWith('.js');
    response.setHeader('content-type', isScript ? 'text/javascript' : 'text/html');
    response.end(isScript ? scriptAt(pathname) : pathname === '/' ? PAGE : '');
  }

  /** To Latchkey, and some answers back. */
  async function pass(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const isRefresh = request.url === '/api/auth/refresh';
    const tab = String(request.headers['x-tab']);
    const fate = isRefresh ? fates.get(tab) : undefined;
    if (fate) fates.delete(tab);
    if (fate === 'busy') return void response.writeHead(503, { 'retry-after': '1' }).end();
    if (fate === 'firewall') return void response.writeHead(401).end('<h1>Log in to the Wi-Fi</h1>');
    const { status, headers, body } = await ask(world.url, request);
    if (isRefresh && status !== 200 && status !== 503) notes.push(`refresh refused: ${status} ${body}`);
    if (status === 200 && body.includes('refresh_token')) look(isRefresh, JSON.parse(body) as Pair);
    await fate;
    if (!fate && Math.random() < site.loss) {
      site.lost++;
      response.destroy();
      return;
    }
    const retryAfter = headers.get('retry-after');
    response.writeHead(status, {
      'content-type': headers.get('content-type') ?? '',
      ...(retryAfter !== null && { 'retry-after': retryAfter }),
    });
    response.end(body);
  }

  function look(isRefresh: boolean, pair: Pair): void {
    if (isRefresh) site.refreshes++;
    pairs.push(pair);
    const generation = Number(claimsOf(pair.access_token).gen);
    if (generation > newest.generation) newest = { generation, at: Date.now() };
  }

  async function serve(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
    const token = String(request.headers.authorization).slice('Bearer '.length);
    served.push(String(claimsOf(token).sub));
    const { status } = await fetch(`${world.url}/api/auth/verify`, { headers: bearer(token) });
    const tab = Number(request.headers['x-tab']);
    site.calls[tab] = (site.calls[tab] ?? 0) + 1;
    if (request.url === '/service?slow') await site.slow;
    response.writeHead(status, {
      ...(status === 401 && { 'www-authenticate': 'Bearer error="invalid_token"' }),
      ...(site.isQuiet && { 'x-quiet': '1' }),
    });
    response.end();
  }

  const site = {
    url: await listen(t, server),
    /** The probability that an answer of Latchkey is lost. */
    loss: 0,
    lost: 0,
    /** What an answer of `/service?slow` waits for. */
    slow: Promise.resolve(),
    /** Whether tabs that work shall not refresh. */
    isQuiet: false,
    refreshes: 0,
    /** Of the service, by tab. */
    calls: [] as number[],
    notes,
    /** Each pair that Latchkey answered. */
    pairs,
    /** Whose token each call of the service had. */
    served,
    noted: (what: string) => notes.filter((note) => note === what).length,
    /** @throws Error as soon as a tab is signed out: then nothing that a test waits for will happen */
    async until(condition: () => boolean): Promise<void> {
      const isOver = () => site.noted('signed out') > 0;
      await until(() => condition() || isOver());
      if (isOver()) throw new Error('signed out');
    },
    /** Resolves once the next refresh of the tab meets it. */
    async meets(tab: number, fate: Fate): Promise<void> {
      fates.set(String(tab), fate);
      await site.until(() => !fates.has(String(tab)));
    },
    /** Resolves once the newest pair is this old. */
    silence: (seconds: number) => site.until(() => Date.now() - newest.at > seconds * 1000),
  };
  return site;
}

async function ask(url: string, request: http.IncomingMessage) {
  const names = ['authorization', 'content-type', 'user-agent'] as const;
  const headers = names.flatMap((name) => (request.headers[name] ? [[name, request.headers[name]]] : []));
  const body = await text(request);
  const answer = await fetch(`${url}${request.url}`, {
    method: request.method ?? 'GET',
    headers: headers as [string, string][],
    ...(body && { body }),
  });
  return { status: answer.status, headers: answer.headers, body: await answer.text() };
}

function scriptAt(path: string): string {
  return readFileSync(path === '/tab.js' ? TAB : new URL(path.slice('/client/'.length), CLIENT), 'utf8');
}
