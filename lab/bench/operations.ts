import { randomBytes } from 'node:crypto';
import { makeScryptHasher } from '../../src/infra/crypto/scrypt-hasher.ts';
import { anAccount } from '../../test/support/client.ts';
import { basic, type TestService } from '../../test/support/registered-service.ts';
import { sql } from '../../test/support/sql.ts';
import type { Caller } from '../../test/support/generator/load.ts';
import {
  jsonRequest,
  nextRefresh,
  requestText,
  verifyRequest,
} from '../../test/support/generator/requests.ts';
import type { BareTokens } from '../../test/support/measured-server.ts';
import { populate } from './population.ts';
import type { LimitName } from './settings.ts';
import { PRODUCTION_COST, type World } from './world.ts';

/** What a bare server does. */
export type Yardstick = (typeof YARDSTICKS)[number];

/** What the service does, what the floor does that comes nearest, and which share it has to reach. */
export const OPERATIONS = {
  'static document': { yardstick: 'hello', minimum: 'BENCH_MIN_STATIC' },
  JWKS: { yardstick: 'hello' },
  verify: { yardstick: 'verify' },
  'verify, many sessions': { yardstick: 'verify' },
  'verify, long-lived': { yardstick: 'verify' },
  introspection: { yardstick: 'verify', minimum: 'BENCH_MIN_INTROSPECTION' },
  'GET /api/user': { yardstick: 'profile' },
  refresh: { yardstick: 'refresh', minimum: 'BENCH_MIN_REFRESH' },
  logout: { yardstick: 'logout', minimum: 'BENCH_MIN_LOGOUT' },
  client_credentials: { yardstick: 'credentials', minimum: 'BENCH_MIN_CREDENTIALS' },
  login: { yardstick: 'scrypt', minimum: 'BENCH_MIN_LOGIN' },
  signup: { yardstick: 'scrypt' },
} as const satisfies Record<string, { yardstick: Yardstick; minimum?: LimitName }>;

export type Operation = keyof typeof OPERATIONS;

export const YARDSTICKS = [
  'hello',
  'verify',
  'profile',
  'refresh',
  'logout',
  'credentials',
  'scrypt',
] as const;

export function operationsOf(yardstick: Yardstick): Operation[] {
  return (Object.keys(OPERATIONS) as Operation[]).filter((name) => OPERATIONS[name].yardstick === yardstick);
}

const FORM = { 'Content-Type': 'application/x-www-form-urlencoded' };
/** The floor knows only this secret. */
const BARE_CLIENT = { serviceId: 'bench', secret: 'secret' };

export const CONNECTIONS = 64;
/** Tokens that the load verifies in turn: more than connections, few enough for every cache. */
const VERIFIED = 100;
/** Sessions that refresh in an open loop: more than are in flight, unless answers take 40 ms. */
const CHAINS = 192;
/** Sessions that may end in a second: more than one replica can end. */
const LOGOUTS_PER_SECOND = 6000;
/** Of these, HASH_CONCURRENCY are hashed at once, and the next ones wait. */
const HASHING_CONNECTIONS = 4;

export const BARE_SESSIONS = VERIFIED + CONNECTIONS + CHAINS;

/** Something that a server can be asked for, as a closed loop. */
export interface Workload {
  callers: Caller[];
}

/** The requests of an open loop. */
export interface OpenWorkload {
  requests: string[];
  chained: boolean;
}

/** The load for a bare server, which knows only its own sessions. @param concurrency hashes at once. */
export function bareWorkload(yardstick: Yardstick, tokens: BareTokens, concurrency: number): Workload {
  if (yardstick === 'scrypt') return inTurn([requestText('GET /scrypt')], concurrency);
  if (yardstick !== 'refresh') return inTurn(bareRequests(yardstick, tokens));
  const own = tokens.refresh.slice(VERIFIED, VERIFIED + CONNECTIONS);
  return chains(own.map((token) => requestText('GET /refresh', { token })));
}

/** @returns null for hashes: a rate that a closed loop reaches says all. */
export function bareOpenWorkload(yardstick: Yardstick, tokens: BareTokens): OpenWorkload | null {
  if (yardstick === 'scrypt' || yardstick === 'logout') return null;
  if (yardstick !== 'refresh') return { requests: bareRequests(yardstick, tokens), chained: false };
  const own = tokens.refresh.slice(VERIFIED + CONNECTIONS);
  return { requests: own.map((token) => requestText('GET /refresh', { token })), chained: true };
}

function bareRequests(yardstick: Exclude<Yardstick, 'refresh' | 'scrypt'>, { access }: BareTokens): string[] {
  if (yardstick === 'hello') return [requestText('GET /hello')];
  if (yardstick === 'credentials') return [credentialsRequest('POST /credentials', BARE_CLIENT)];
  // Each row is locked by one request at a time.
  if (yardstick === 'logout') return access.map((token) => requestText('DELETE /logout', { token }));
  return access.slice(0, VERIFIED).map((token) => requestText(`GET /${yardstick}`, { token }));
}

/** The load for the service. @param seconds for how long it will run in all. */
export async function serviceWorkload(
  operation: Operation,
  world: World,
  seconds: number,
): Promise<Workload> {
  switch (operation) {
    case 'refresh':
      return chains((await world.signUpMany(CONNECTIONS)).map(refreshRequest));
    case 'logout':
      return logouts(world, seconds);
    case 'verify, many sessions':
      return inTurn(await manyVerifies(world));
    case 'login':
      return inTurn(await logins(world), HASHING_CONNECTIONS);
    case 'signup':
      return { callers: Array.from({ length: HASHING_CONNECTIONS }, () => ({ next: signup })) };
    default:
      return inTurn(await repeatable(operation, world));
  }
}

/** @returns null for an operation whose request cannot be repeated, or that waits for a hash. */
export async function serviceOpenWorkload(operation: Operation, world: World): Promise<OpenWorkload | null> {
  // Its closed loop already shows what the number of sessions costs.
  if (operation === 'verify, many sessions') return null;
  if (operation === 'logout' || operation === 'login' || operation === 'signup') return null;
  return operation === 'refresh'
    ? { requests: (await world.signUpMany(CHAINS)).map(refreshRequest), chained: true }
    : { requests: await repeatable(operation, world), chained: false };
}

/** Requests that change nothing. */
async function repeatable(
  operation: Exclude<Operation, 'refresh' | 'logout' | 'login' | 'signup' | 'verify, many sessions'>,
  world: World,
): Promise<string[]> {
  switch (operation) {
    case 'static document':
      return [requestText('GET /.well-known/oauth-authorization-server')];
    case 'JWKS':
      return [requestText('GET /.well-known/jwks.json')];
    case 'verify':
      return (await accessTokens(world)).map(verifyRequest);
    case 'verify, long-lived':
      return (await world.createLongLivedMany(await world.sessions(VERIFIED))).map(verifyRequest);
    case 'introspection':
      return introspections(world);
    case 'client_credentials':
      return [await credentials(world)];
    case 'GET /api/user':
      return (await accessTokens(world)).map((token) => requestText('GET /api/user', { token }));
  }
}

/** All connections send these requests in turn. */
export function inTurn(requests: readonly string[], connections = CONNECTIONS): Workload {
  let sent = 0;
  const caller = { next: () => requests[sent++ % requests.length] ?? null };
  return { callers: Array.from({ length: connections }, () => caller) };
}

/** Every connection owns a session and always presents its newest refresh token. */
function chains(requests: readonly string[]): Workload {
  const callers = requests.map((first) => {
    let request = first;
    return {
      next: () => request,
      answered(body: string) {
        request = nextRefresh(request, body);
      },
    };
  });
  return { callers };
}

/** Each session can end once. */
async function logouts(world: World, seconds: number): Promise<Workload> {
  const population = await populate(world, Math.ceil(seconds * LOGOUTS_PER_SECOND), { beside: true });
  const requests = Array.from({ length: population.sessions }, (_, i) =>
    requestText('DELETE /api/auth', { token: population.mint('access', i) }),
  );
  const next = () => {
    const request = requests.pop();
    if (request === undefined) throw new Error('no session is left: raise LOGOUTS_PER_SECOND');
    return request;
  };
  return { callers: Array.from({ length: CONNECTIONS }, () => ({ next })) };
}

/** More sessions than the usual ones: whether a replica remembers their tokens shows in the CPU time. */
async function manyVerifies(world: World): Promise<string[]> {
  const population = await populate(world, world.manySessions, { beside: true });
  return Array.from({ length: population.sessions }, (_, i) => verifyRequest(population.mint('access', i)));
}

async function accessTokens(world: World): Promise<string[]> {
  return (await world.sessions(VERIFIED)).map(({ access_token }) => access_token);
}

async function introspections(world: World): Promise<string[]> {
  const client = await world.registerClient();
  const headers = { ...FORM, ...basic(client) };
  return (await accessTokens(world)).map((token) =>
    requestText('POST /api/auth/introspect', { headers, body: `token=${token}` }),
  );
}

/** A client and an audience of its own for each part of the run. */
async function credentials(world: World): Promise<string> {
  const audience = `bench-${randomBytes(4).toString('hex')}`;
  const client = await world.registerClient([`call:${audience}`], audience);
  return credentialsRequest('POST /api/auth/token', client, audience);
}

function credentialsRequest(operation: string, client: TestService, audience = 'bench'): string {
  const headers = { ...FORM, ...basic(client) };
  return requestText(operation, { headers, body: `grant_type=client_credentials&audience=${audience}` });
}

/** Logins with the right password, of accounts with a production's hash. */
async function logins(world: World): Promise<string[]> {
  const password = 'difference engine';
  const names = (await world.signUpMany(HASHING_CONNECTIONS)).map(({ user }) => user.username);
  const hash = Buffer.from(await makeScryptHasher(PRODUCTION_COST).hash(password));
  await sql(world.env.DATABASE_URL ?? '', 'UPDATE users SET password_hash = $1 WHERE username = ANY($2)', [
    hash,
    names,
  ]);
  return names.map((username) => jsonRequest('POST /api/auth', { username, password }));
}

function signup(): string {
  return jsonRequest('POST /api/auth/signup', anAccount({ password: randomBytes(12).toString('base64url') }));
}

function refreshRequest({ refresh_token: token }: { refresh_token: string }): string {
  return requestText('GET /api/auth/refresh', { token });
}
