import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import type { ChildProcess } from 'node:child_process';
import type { HTTPMethods } from 'fastify';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { buildTestApp } from './app.ts';
import { audienceClients } from './audiences.ts';
import { call } from './client.ts';
import { NO_DATA_DIR } from './environment.ts';
import { latchkey } from './latchkey.ts';
import { listen } from './listen.ts';
import { testRedis } from './redis.ts';
import { sql } from './sql.ts';

/** The requests of a drill, in their order. */
export const STEPS = ['login', 'exchange', 'before', 'logout', 'after'] as const;
export type Step = (typeof STEPS)[number];

/** What a service answers instead of its own status; null for no answer. */
export type Answer = (own: number) => number | null;

/**
 * A Latchkey with a service beside it, on one port: below `/service/` it answers 200 to a good token and else 401, and
 * takes tokens for the audience `orders` below `/service/orders`.
 */
export async function aDrillRange(t: Test, settings: Environment = {}) {
  const { url: REDIS_URL, prefix } = testRedis(t);
  const target = await buildTestApp(t, { env: { REDIS_URL, REDIS_PREFIX: prefix, ...settings } });
  target.composition.start();
  const clients = await audienceClients(target.databaseUrl);
  const held: { step: Step | null; reached: () => void } = { step: null, reached: () => undefined };
  let answer: Answer = (own) => own;
  let isOver = false;

  function stepOf({ method, url = '' }: IncomingMessage): Step | null {
    if (url.startsWith('/service')) return isOver ? 'after' : 'before';
    if (method === 'DELETE') return 'logout';
    return url === '/api/auth/token' ? 'exchange' : 'login';
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const step = stepOf(request);
    if (step === held.step) {
      held.reached();
      return;
    }
    const { authorization = '', 'content-type': type = '' } = request.headers;
    const { method, url = '' } = request;
    if (url.startsWith('/service')) {
      const path = url.endsWith('/orders') ? '/api/auth/audiences/orders/verify' : '/api/auth/verify';
      const status = answer((await call(target, `GET ${path}`, { headers: { authorization } })).statusCode);
      if (status === null) request.socket.destroy();
      else response.writeHead(status, { location: '/login' }).end();
      return;
    }
    const payload = await text(request);
    const headers = { authorization, ...(type !== '' && { 'content-type': type }) };
    const { statusCode, body } = await target.inject({
      method: method as HTTPMethods,
      url,
      headers,
      payload,
    });
    if (step === 'logout') isOver = true;
    response.writeHead(statusCode, { 'content-type': 'application/json' }).end(body);
  }

  const url = await listen(
    t,
    createServer((request, response) => void serve(request, response)),
  );
  const { databaseUrl: DATABASE_URL } = target;
  const env = {
    DATABASE_URL,
    REDIS_URL,
    REDIS_PREFIX: `${prefix}${new URL(DATABASE_URL).pathname}:`,
    SCRYPT_LOG_N: '4',
    DATA_DIR: NO_DATA_DIR,
  };
  return {
    target,
    clients,
    url,
    env,
    /** Runs a drill with these URLs of the service, such as `/service`. */
    drill(urls: readonly string[], more: readonly string[] = [], started?: (child: ChildProcess) => void) {
      isOver = false;
      const options = urls.map((each) => `--url=${each.replace(/(?=\/)/, url)}`);
      return latchkey(
        ['drill', `--latchkey=${url}`, '--json', ...options, ...more],
        env,
        undefined,
        '',
        started,
      );
    },
    answerWith(next: Answer) {
      answer = next;
    },
    /** No answer at this step. @returns once a request has come to it. */
    hold(step: Step): Promise<void> {
      return new Promise((reached) => {
        Object.assign(held, { step, reached });
      });
    },
    release() {
      Object.assign(held, { step: null });
    },
    /** The accounts of drills that were not deleted. */
    left: () =>
      sql<{ id: string }>(DATABASE_URL, `SELECT id FROM users WHERE external_id LIKE 'latchkey-drill:%'`),
  };
}
