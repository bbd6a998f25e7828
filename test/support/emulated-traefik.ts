import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import type { Test } from 'tap';
import { parse } from 'yaml';
import {
  forward,
  isSame,
  setHeader,
  startEmulatedProxy,
  valuesOf,
  type Header,
  type Message,
  type Reply,
} from './emulated-proxy.ts';

const FOLDER = new URL('../../../deploy/traefik/', import.meta.url).pathname;

interface ForwardAuth {
  address: string;
  authRequestHeaders: string[];
  authResponseHeadersRegex: string;
}

interface Middleware {
  forwardAuth?: ForwardAuth;
  headers?: { customRequestHeaders: Record<string, string> };
}

interface Router {
  rule: string;
  priority?: number;
  /** By default, all. */
  entryPoints?: string[];
  middlewares?: string[];
  service: string;
}

interface Dynamic {
  http: {
    routers: Record<string, Router>;
    middlewares: Record<string, Middleware>;
    services: Record<string, { loadBalancer: { servers: { url: string }[] } }>;
  };
}

interface Options {
  aliasHeadersStrategy?: string;
  sanitizePath?: boolean;
  encodedCharacters?: Record<string, boolean>;
}

interface EntryPoint {
  address: string;
  http?: Options;
}

interface Static {
  entryPoints: Record<string, EntryPoint>;
}

/** Encoded characters that Traefik refuses unless an option allows them. */
const ENCODED = {
  '%2f': 'allowEncodedSlash',
  '%5c': 'allowEncodedBackSlash',
  '%00': 'allowEncodedNullCharacter',
  '%3b': 'allowEncodedSemicolon',
  '%25': 'allowEncodedPercent',
  '%3f': 'allowEncodedQuestionMark',
  '%23': 'allowEncodedHash',
};

/**
 * Traefik is not available here. This emulates its documented behaviour for the options of deploy/traefik's files:
 * https://doc.traefik.io/traefik/reference/routing-configuration/http/middlewares/forwardauth/ and, for names that
 * alias others, https://doc.traefik.io/traefik/security/header-aliases/. It refuses options that it does not know.
 */
export async function startEmulatedTraefik(
  t: Test,
  upstreams: Readonly<Record<string, string>>,
  edit: (text: string) => string = (text) => text,
) {
  const { entryPoints } = parse(readFileSync(`${FOLDER}traefik.yaml`, 'utf8')) as Static;
  const addresses = { ...upstreams };
  let http: Dynamic['http'] = { routers: {}, middlewares: {}, services: {} };
  let web = { url: '' };
  for (const [name, entryPoint] of Object.entries(entryPoints)) {
    const started = await startEmulatedProxy(t, (message) => answer(http, name, entryPoint, message));
    if (name === 'web') web = started;
    else addresses[`http://${entryPoint.address}`] = started.url;
  }
  ({ http } = parse(addressed(edit(readFileSync(`${FOLDER}latchkey.yaml`, 'utf8')), addresses)) as Dynamic);
  for (const middleware of Object.values(http.middlewares)) checkKnown(middleware);
  return web;
}

async function answer(
  { routers, middlewares, services }: Dynamic['http'],
  name: string,
  { http: options = {} }: EntryPoint,
  message: Message,
): Promise<Reply> {
  if (!isAllowed(message.path, options)) return { status: 400, headers: [], body: '' };
  let current: Message = {
    ...message,
    path: sanitized(message.path, options),
    headers: arriving(message.headers, options),
  };
  const router = Object.values(routers)
    .filter(({ entryPoints = [name] }) => entryPoints.includes(name))
    .sort((a, b) => (b.priority ?? 0) - (a.priority ?? 0))
    .find(({ rule }) => isMatch(rule, current.path));
  if (!router) return { status: 404, headers: [], body: '' };
  for (const each of router.middlewares ?? []) {
    const step = await apply(middlewares[each], current);
    if ('status' in step) return step;
    current = step;
  }
  const to = services[router.service]?.loadBalancer.servers[0]?.url ?? '';
  return forward(to, current).catch(() => ({ status: 502, headers: [], body: 'Bad Gateway' }));
}

/** https://doc.traefik.io/traefik/security/request-path/ */
function isAllowed(path: string, { encodedCharacters = {} }: Options): boolean {
  const [bare = ''] = path.toLowerCase().split('?');
  return Object.entries(ENCODED).every(
    ([encoded, option]) => encodedCharacters[option] === true || !bare.includes(encoded),
  );
}

function sanitized(path: string, { sanitizePath = true }: Options): string {
  const [bare = '', ...query] = path.split('?');
  if (!sanitizePath) return path;
  return [posix.normalize(bare.replaceAll(/%2e/gi, '.')), ...query].join('?');
}

/** Drops X-Forwarded-* of an untrusted client and, with `delete`, names beyond letters, digits and dashes. */
function arriving(headers: Header[], { aliasHeadersStrategy = 'keep' }: Options): Header[] {
  if (!['keep', 'delete'].includes(aliasHeadersStrategy)) throw new Error('unknown aliasHeadersStrategy');
  return headers.filter(
    ([name]) =>
      !/^x-forwarded-/i.test(name) && (aliasHeadersStrategy === 'keep' || /^[a-z0-9-]+$/i.test(name)),
  );
}

async function apply(middleware: Middleware | undefined, message: Message): Promise<Message | Reply> {
  if (middleware?.forwardAuth) return ask(middleware.forwardAuth, message);
  if (!middleware?.headers) throw new Error('there is no such middleware');
  let { headers } = message;
  for (const [name, value] of Object.entries(middleware.headers.customRequestHeaders))
    headers = setHeader(headers, name, ...(value === '' ? [] : [value]));
  return { ...message, headers };
}

/** Sends a GET with some headers and the original request in X-Forwarded-*. Any answer but 2xx goes to the client. */
async function ask(
  { address, authRequestHeaders, authResponseHeadersRegex }: ForwardAuth,
  message: Message,
): Promise<Message | Reply> {
  const sent = message.headers.filter(([name]) => authRequestHeaders.some((one) => isSame(one, name)));
  const { origin, pathname } = new URL(address);
  const question: Message = {
    method: 'GET',
    path: pathname,
    headers: [
      ...sent,
      ['Host', new URL(address).host],
      ['X-Forwarded-Method', message.method],
      ['X-Forwarded-Proto', 'http'],
      ['X-Forwarded-Host', valuesOf(message.headers, 'host')[0] ?? ''],
      ['X-Forwarded-Uri', message.path],
      ['X-Forwarded-For', '127.0.0.1'],
    ],
    body: Buffer.alloc(0),
  };
  // Traefik answers 500 if the upstream does not answer.
  const answer = await forward(origin, question).catch(() => ({ status: 500, headers: [], body: '' }));
  if (answer.status < 200 || answer.status > 299) return answer;
  // Go has canonicalized the names by then, as in the pattern.
  const pattern = new RegExp(authResponseHeadersRegex, 'i');
  const isTheirs = ([name]: Header) => pattern.test(name);
  const own = message.headers.filter((header) => !isTheirs(header));
  return { ...message, headers: [...own, ...answer.headers.filter(isTheirs)] };
}

function isMatch(rule: string, path: string): boolean {
  const [bare = ''] = path.split('?');
  return rule.split(' || ').some((part) => {
    const [, kind, value = ''] = /^(Path|PathPrefix|PathRegexp)\(`([^`]+)`\)$/.exec(part) ?? [];
    if (kind === undefined) throw new Error(`unknown rule: ${part}`);
    // Versions differ in which encoded characters they decode before they match. What one of them matches is matched.
    if (kind === 'PathRegexp') return [bare, decodedOnce(bare)].some((form) => new RegExp(value).test(form));
    return kind === 'Path' ? bare === value : bare.startsWith(value);
  });
}

/** Byte by byte, since a path need not be UTF-8. */
function decodedOnce(path: string): string {
  return path.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}

function checkKnown({ forwardAuth, headers, ...others }: Middleware): void {
  const known = ['address', 'authRequestHeaders', 'authResponseHeadersRegex', 'customRequestHeaders'];
  const unknown = Object.keys({ ...forwardAuth, ...headers }).filter((key) => !known.includes(key));
  if (unknown.length > 0 || Object.keys(others).length > 0) throw new Error('an option that is not emulated');
}

/** Puts the addresses of this test into the file. */
function addressed(text: string, upstreams: Readonly<Record<string, string>>): string {
  return Object.entries(upstreams).reduce((sum, [name, to]) => {
    if (!sum.includes(name)) throw new Error(`there is no ${name}`);
    return sum.replaceAll(name, to);
  }, text);
}
