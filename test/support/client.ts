import type { HTTPMethods, InjectOptions, LightMyRequestResponse } from 'fastify';
import { randomBytes } from 'node:crypto';

/** An app without a socket, which answers requests. */
export interface Target {
  inject(options: InjectOptions): Promise<LightMyRequestResponse>;
}

export interface Pair {
  access_token: string;
  refresh_token: string;
  user: { id: number; username: string; name: string; created_at: string; roles: string[] };
}

/** A unique account. */
export function anAccount(
  overrides: Partial<Record<'username' | 'name' | 'email' | 'password', string>> = {},
) {
  const username = `user-${randomBytes(5).toString('hex')}`;
  return {
    username,
    name: 'Ada Lovelace',
    email: `${username}@example.com`,
    password: 'difference engine',
    ...overrides,
  };
}

interface CallOptions {
  token?: string | undefined;
  payload?: unknown;
  headers?: Record<string, string>;
}

/** Sends one request: `call(target, 'DELETE /api/auth?id=7', { token })`. */
export function call(target: Target, line: string, { token, payload, headers = {} }: CallOptions = {}) {
  const [method, url] = line.split(' ', 2);
  return target.inject({
    method: method as HTTPMethods,
    url: url ?? '/',
    headers: { ...headers, ...(token !== undefined && bearer(token)) },
    ...(payload !== undefined && { payload: payload as NonNullable<InjectOptions['payload']> }),
  });
}

export function bearer(token: string): { authorization: string } {
  return { authorization: `Bearer ${token}` };
}

export async function signUp(target: Target, account: object = anAccount()): Promise<Pair> {
  return pairOf(await target.inject({ method: 'POST', url: '/api/auth/signup', payload: account }));
}

export async function logIn(target: Target, username: string, password = 'difference engine'): Promise<Pair> {
  return pairOf(await target.inject({ method: 'POST', url: '/api/auth', payload: { username, password } }));
}

export function refresh(target: Target, token: string, headers: Record<string, string> = {}) {
  return target.inject({
    method: 'GET',
    url: '/api/auth/refresh',
    headers: { ...headers, ...bearer(token) },
  });
}

export function verify(target: Target, token: string) {
  return target.inject({ method: 'GET', url: '/api/auth/verify', headers: bearer(token) });
}

export async function createLongLived(target: Target, accessToken: string, device = 'Kitchen tablet') {
  const options = {
    method: 'POST',
    url: '/api/auth/llt',
    headers: bearer(accessToken),
    payload: { device },
  } as const;
  const response = await target.inject(options);
  if (response.statusCode !== 200) throw new Error(`no LLT: ${response.body}`);
  return response.json<{ id: number; longlived_token: string }>();
}

/** Creates a limited token. @param more members of the body. */
export async function createLimited(
  target: Target,
  accessToken: string,
  scopes: readonly string[] = ['orders:read'],
  more: object = {},
) {
  const payload = { name: 'Kitchen tablet', scopes, ...more };
  const response = await call(target, 'POST /api/user/tokens', { token: accessToken, payload });
  if (response.statusCode !== 200) throw new Error(`no limited token: ${response.body}`);
  return response.json<{ id: number; token: string; expires_at: string }>();
}

/** @param scopes that are demanded, separated by commas. */
export function verifyInScope(target: Target, token: string, scopes = 'orders:read') {
  return call(target, `GET /api/auth/scopes/${scopes}/verify`, { token });
}

/** @throws Error if the answer is not a pair. */
export function pairOf(response: LightMyRequestResponse): Pair {
  if (response.statusCode !== 200) throw new Error(`no pair: ${response.statusCode} ${response.body}`);
  return response.json();
}

/** The claims of a token, unverified. */
export function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;
}

export function headerOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as Record<
    string,
    unknown
  >;
}
