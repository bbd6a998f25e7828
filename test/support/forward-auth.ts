import { connect } from 'node:net';
import type { Test } from 'tap';
import { startApplication, type Seen } from './application.ts';
import { bearer } from './client.ts';
import { startDeployedCaddy } from './deployed-caddy.ts';
import { startDeployedNginx } from './deployed-nginx.ts';
import { aliasesOf, NAMES } from './identity-headers.ts';
import { readyService } from './service.ts';
import { toolsMissing } from './tools.ts';

/** Ways to forge all of some headers, as lines of a request. */
export const waysToForge = (names: readonly string[]): Record<string, string[]> => ({
  'in its own spelling': names.map((name) => `${name}: spoofed`),
  'in lower case': names.map((name) => `${name.toLowerCase()}: spoofed`),
  'in capitals, twice': names.flatMap((name) => [`${name.toUpperCase()}: spoofed`, `${name}: spoofed`]),
  'first empty, then spoofed': names.flatMap((name) => [`${name}:`, `${name}: spoofed`]),
  'as hop-by-hop headers': [`Connection: ${names.join(', ')}`],
  'as hop-by-hop headers, in two lines': [
    `Connection: ${names.join(',')}`,
    `Connection: keep-alive, Upgrade`,
  ],
  ...Object.fromEntries(
    aliasesOf(names).map(({ odd, names }) => [`with ${odd}`, names.map((name) => `${name}: spoofed`)]),
  ),
});

/** Ways to forge all identity headers. */
export const FORGED = waysToForge(NAMES);

/** For the spellings of a path. */
export const SEED = Number(process.env.TEST_SEED ?? 1);

/** What a client may send with a request that an application takes, but that says nothing to Latchkey. */
export const OF_THE_APPLICATION = [
  ...['a', 'b'].map((name) => `Cookie: ${name}=${'x'.repeat(7000)}`),
  ...['Referer: http://x/', 'User-Agent: ', 'Baggage: b='].map((line) => line + 'x'.repeat(2000)),
  'Accept: text/html',
  'Content-Type: text/plain',
  'Content-Length: 2',
  'Range: bytes=0-1',
  'TE: trailers',
  'Expect: 100-continue',
  'If-None-Match: "x"',
  'Prefer: wait=1',
  'Origin: http://x',
  'X-Custom: 1',
  `Traceparent: 00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
  'Tracestate: x=y',
  'Last-Event-Id: 7',
  'Forwarded: for=192.0.2.1',
  'X-Forwarded-Uri: /public/',
  'X-Original-Url: /public/',
  'Access-Control-Request-Method: GET',
];
/** A path with a query, of about so many bytes. */
export const longTarget = (bytes: number) =>
  `/${'long/'.repeat(bytes / 10)}?audience=orders&q=${'%20'.repeat(bytes / 6)}`;
/** Headers of a question to verify, besides those that each proxy sets itself. */
export const OF_VERIFY = ['authorization', 'x-request-id', 'x-forwarded-for'];
export const OF_THE_PROXY = [
  'host',
  'connection',
  'accept-encoding',
  'x-forwarded-host',
  'x-forwarded-proto',
];

/** Where the proxies of this test lead. */
interface Site {
  /** The address of each name in their configurations. */
  upstreams: Record<string, string>;
  /** Where Latchkey tells its health. */
  opsUrl: string;
}

export interface Proxy {
  name: string;
  skip: false | string;
  /** Bytes of a request line that it takes with its default limits: more than Latchkey does, if it can be. */
  longest: number;
  /** The proxy can select headers by a pattern. */
  dropsOthers: boolean;
  /** @param edit changes the configuration. */
  start(t: Test, site: Site, edit?: (text: string) => string): Promise<{ url: string }>;
}

const NGINX: Proxy = {
  name: 'nginx',
  skip: toolsMissing('bash', 'nginx'),
  longest: 7_000,
  dropsOthers: false,
  start: (t, { upstreams }, edit) => startDeployedNginx(t, 'nginx.conf', upstreams, edit),
};

export const CADDY: Proxy = {
  name: 'Caddy',
  skip: toolsMissing('bash', 'caddy'),
  longest: 20_000,
  dropsOthers: true,
  start: (t, { upstreams, opsUrl }, edit) =>
    startDeployedCaddy(
      t,
      Object.fromEntries(Object.entries(upstreams).map(([from, to]) => [new URL(from).host, to])),
      new URL(opsUrl).port,
      edit,
    ),
};

export const PROXIES = [NGINX, CADDY];

/** A service with a database of its own, and an application that notes what it sees. */
export async function aSite(t: Test, env: Record<string, string> = {}) {
  const service = await readyService(t, env);
  const seen: Seen[] = [];
  const upstreams = {
    'http://latchkey:3000': service.url,
    'http://app:8081': await startApplication(t, seen),
  };
  return { service, seen, site: { upstreams, opsUrl: service.opsUrl } };
}

/**
 * The identity headers that the application got, in any spelling and in trailers too, equal the expected ones.
 * @param expected the values in the order of NAMES, or [] for no identity. The header of an empty one may be absent.
 */
export function isIdentity(
  t: Test,
  request: Seen | undefined,
  expected: readonly string[],
  title = '',
): void {
  if (!request) return void t.fail(`${title}: no request arrived`);
  const { rawHeaders, rawTrailers } = request;
  t.notOk([...rawHeaders, ...rawTrailers].includes('spoofed'), title);
  const names = rawHeaders.filter((_, i) => i % 2 === 0).map((name) => name.toLowerCase());
  const ours = names.filter((name) => /^x[^a-z0-9]auth[^a-z0-9]/.test(name)).sort();
  const wanted = expected.flatMap((value, i) => {
    const name = NAMES[i]?.toLowerCase() ?? '';
    return value !== '' || ours.includes(name) ? [name] : [];
  });
  t.strictSame(ours, wanted.sort(), `${title}: each header once, and no other`);
  const values = NAMES.map((name) => request.headers[name.toLowerCase()] ?? '');
  if (expected.length > 0) t.strictSame(values, expected, title);
}

/** The status of a request that `fetch` would refuse to send. */
export function status(
  url: string,
  line: string,
  headers: string[] = [],
  body = '',
): Promise<string | undefined> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(Number(port), hostname, () =>
      socket.write(`${line} HTTP/1.1\r\n${['Host: x', ...headers].join('\r\n')}\r\n\r\n${body}`),
    );
    socket.on('data', (chunk) => {
      received = (received + chunk.toString()).replace(/^(?:HTTP\/1\.1 100 .*?\r\n\r\n)+/s, '');
      if (received.includes('\r\n\r\n')) socket.destroy();
    });
    socket.on('error', reject);
    socket.on('close', () => {
      resolve(/^HTTP\/1\.1 (\d{3})/.exec(received)?.[1]);
    });
  });
}

/** The status of a GET of each path, fifty at a time. */
export async function statusOfEach(
  url: string,
  paths: readonly string[],
  headers: string[] = [],
): Promise<(string | undefined)[]> {
  const statuses: (string | undefined)[] = [];
  for (let i = 0; i < paths.length; i += 50) {
    const some = paths.slice(i, i + 50).map((path) => status(url, `GET ${path}`, headers));
    statuses.push(...(await Promise.all(some)));
  }
  return statuses;
}

export async function outage(t: Test, title: string, url: string, token: string): Promise<void> {
  const response = await fetch(url, { headers: bearer(token) });
  t.equal(response.status, 503, title);
  t.match(response.headers.get('retry-after'), /^[1-9]\d*$/, title);
  t.match(response.headers.get('content-type'), 'application/problem+json', title);
  t.match(await response.json(), { status: 503 }, title);
}
