import type { LightMyRequestResponse } from 'fastify';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import type { TestApp } from './app.ts';
import { anAccount, call, pairOf } from './client.ts';
import { refused } from './problem.ts';

export const PASSWORD = 'difference engine';
export const HOME = { 'x-forwarded-for': '192.0.2.1', 'user-agent': 'Kitchen/1.0' };
export const ALLOWED = 10;

/** The default limits. Those by address are off, because they would stop the attacks earlier. */
export const LIMITS: Environment = {
  RATE_LIMIT_ACCOUNT: `${ALLOWED}/900`,
  RATE_LIMIT_NETWORK: '0',
  TRUST_PROXY: 'loopback',
  // Two thousand look-ups wait for their turn.
  DATABASE_TIMEOUT: '60000',
};

export type Headers = Record<string, string>;

export function attempt(target: TestApp, username: string, password: string, headers: Headers = {}) {
  return call(target, 'POST /api/auth', { payload: { username, password }, headers });
}

/** One of 500 unknown clients, each in another network. */
export function stranger(i: number): Headers {
  return {
    'x-forwarded-for': `198.${18 + Math.floor((i % 500) / 256)}.${i % 256}.7`,
    'user-agent': 'Kitchen/1.0',
  };
}

export function verifications(steps: string[]): number {
  return steps.filter((step) => step.startsWith('verify a hash')).length;
}

/** The parts of status, body and headers that must not differ. */
export function shape({ statusCode, headers, json }: LightMyRequestResponse) {
  const { request_id, ...body } = json<Record<string, unknown>>();
  const { 'x-request-id': id, 'retry-after': wait, date, 'content-length': length, ...rest } = headers;
  return {
    statusCode,
    body,
    headers: rest,
    types: [typeof request_id, typeof id, typeof wait, typeof date, length],
  };
}

export async function exhaust(
  t: Test,
  target: TestApp,
  name: string,
  headers: (i: number) => Headers = stranger,
) {
  for (let i = 0; i < ALLOWED; i++)
    refused(t, await attempt(target, name, `guess ${i}`, headers(i)), 401, 'invalid_credentials');
}

/** An account that was opened from home. */
export async function anOwner(target: TestApp, headers: Headers = HOME) {
  const account = anAccount();
  const pair = pairOf(await call(target, 'POST /api/auth/signup', { payload: account, headers }));
  return { ...account, pair };
}
