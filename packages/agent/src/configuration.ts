import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { hostname } from 'node:os';
import { isAbsolute } from 'node:path';
import { getSystemErrorMap } from 'node:util';
import type { ClientOptions, TokenType, VerifierOptions, WhenStale } from '@latchkey/verifier';
import { givenVariables, type Environment } from './environment.ts';

export interface Address {
  host: string;
  port: number;
}

export interface Configuration {
  verifier: VerifierOptions<TokenType> & { audience: string };
  /** The variables that `client` is from. */
  credentials: string;
  /** For the service: `AGENT_LISTEN`. */
  listen: Address;
  /** For probes and metrics: `AGENT_OPS_LISTEN`. */
  ops: Address;
}

/** Its message has a line for each problem. */
export class ConfigurationError extends Error {}

const PLAIN = 'without user, query and fragment';
const TYPES: readonly TokenType[] = ['access', 'llt', 'service'];
const WHEN_STALE: readonly WhenStale[] = ['introspect', 'refuse', 'accept'];

/** @throws ConfigurationError with every problem */
export function readConfiguration(env: Environment): Configuration {
  const given = givenVariables(env);
  const problems: string[] = [];

  function read<Value>(name: string, what: string, parse: (text: string) => Value | null, or = ''): Value {
    const text = given[name] ?? or;
    const value = text === '' ? null : parse(text);
    if (value === null) problems.push(`${name} must be ${what}: ${found(text)}`);
    return value as Value;
  }

  const url = read('LATCHKEY_URL', `the http(s) URL of Latchkey, ${PLAIN}`, withoutSlash);
  const issuer = given.LATCHKEY_ISSUER
    ? read('LATCHKEY_ISSUER', `Latchkey’s ISSUER, an http(s) URL ${PLAIN}`, httpUrl)
    : url;
  const audience = read('LATCHKEY_AUDIENCE', 'the audience of this service', (text) => text);
  const accept = read('AGENT_ACCEPT', `a list of ${TYPES.join(', ')}`, listOfTypes, 'access,llt');
  const maxStaleness = read('AGENT_MAX_STALENESS', 'a whole number of seconds', seconds, '120');
  const isKnown = (text: string) => WHEN_STALE.find((each) => each === text) ?? null;
  const whenStale = read('AGENT_WHEN_STALE', WHEN_STALE.join(', '), isKnown, 'introspect');
  const instance = read('AGENT_INSTANCE', '1 to 128 of A-Z, a-z, 0-9 and ._:-', instanceName, nameOfHost());
  // It asks its callers for no credentials.
  const listen = read('AGENT_LISTEN', 'a loopback address and a port', loopback, '127.0.0.1:4181');
  const ops = read('AGENT_OPS_LISTEN', 'an IP address and a port', address, '127.0.0.1:4182');
  const credentials = CLIENT.filter((name) => given[name]).join(', ');
  if (!WAYS.includes(credentials))
    problems.push(`Set exactly one of these: ${WAYS.join('; ')}: found ${credentials || 'none of them'}`);
  const client = readClient(given, problems);
  if (problems.length > 0) throw new ConfigurationError(problems.join('\n'));
  const reader = { instance, software: '@latchkey/agent' };
  const verifier = { url, issuer, audience, client, accept, maxStaleness, whenStale, reader };
  return { verifier, credentials, listen, ops };
}

const CLIENT = ['ID', 'SECRET', 'SECRET_FILE', 'TOKEN_FILE'].map((name) => `LATCHKEY_CLIENT_${name}`);
const [ID, SECRET, SECRET_FILE, TOKEN_FILE] = CLIENT as [string, string, string, string];
/** The variables that belong together. */
const WAYS = [`${ID}, ${SECRET}`, `${ID}, ${SECRET_FILE}`, TOKEN_FILE];

function readClient(given: Environment, problems: string[]): ClientOptions {
  const [secretFile, tokenFile] = [given[SECRET_FILE], given[TOKEN_FILE]];
  const secret = secretFile ? contentOf(SECRET_FILE, secretFile, problems) : given[SECRET];
  if (!tokenFile) return { id: given[ID], secret };
  contentOf(TOKEN_FILE, tokenFile, problems);
  // At each use: Kubernetes replaces the file. The verifier takes off what stands around the token.
  return { assertion: () => readFile(tokenFile, 'utf8') };
}

function contentOf(name: string, path: string, problems: string[]): string {
  let content = '';
  let why = 'an empty file';
  try {
    content = readFileSync(path, 'utf8').trim();
  } catch (error) {
    const { errno = 0, code = 'an error' } = error as NodeJS.ErrnoException;
    why = getSystemErrorMap().get(errno)?.[1] ?? code;
  }
  // Anything else might be the secret itself.
  const where = isAbsolute(path) ? path : 'no absolute path';
  if (content === '') problems.push(`${name} must name a file with text: found ${where}: ${why}`);
  return content;
}

/** As the verifier takes it. */
function httpUrl(text: string): string | null {
  if (/[?#\s]/.test(text) || !URL.canParse(text)) return null;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '' ? text : null;
}

/** ISSUER, which it stands for unless that is given, rarely ends with a slash. */
function withoutSlash(text: string): string | null {
  return httpUrl(text)?.replace(/\/+$/, '') ?? null;
}

function listOfTypes(text: string): TokenType[] | null {
  const types = text.split(',').map((each) => TYPES.find((type) => type === each.trim()));
  return types.every((type) => type !== undefined) ? types : null;
}

function seconds(text: string): number | null {
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}

function instanceName(text: string): string | null {
  return /^[\w.:-]{1,128}$/.test(text) ? text : null;
}

/** A host may have any name. */
function nameOfHost(): string {
  return hostname()
    .replace(/[^\w.:-]/g, '-')
    .slice(0, 128);
}

/** Reads `127.0.0.1:4181` or `[::1]:4181`. */
function address(text: string): Address | null {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = bracketed ?? plain ?? '';
  const isAddress = isIP(host) === (bracketed === undefined ? 4 : 6);
  return isAddress && Number(port) <= 65_535 ? { host, port: Number(port) } : null;
}

export function urlOf({ host, port }: Address): string {
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

function loopback(text: string): Address | null {
  const given = address(text);
  return given && (given.host === '::1' || given.host.startsWith('127.')) ? given : null;
}

/** A URL may hold a password. */
function found(text: string): string {
  if (text === '') return 'it is missing';
  return text.includes('@') ? 'found a text with @' : `found ${text.slice(0, 100)}`;
}
