import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { call, headerOf, signUp } from '../support/client.ts';
import { NO_DATA_DIR } from '../support/environment.ts';
import { aFeedClient } from '../support/feed-reader.ts';
import { withKeys } from '../support/keys.ts';
import { latchkey } from '../support/latchkey.ts';
import { testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';

export const READER = 'orders-reader-0001';

/** A Latchkey with one reader of the service `orders`, and the commands beside it. */
export async function aReadLatchkey(t: Test, settings: Environment = {}) {
  const { url: REDIS_URL, prefix } = testRedis(t);
  const { target, env } = await withKeys(t, 'ES256', 0, { REDIS_URL, REDIS_PREFIX: prefix, ...settings });
  await target.app.listen({ host: '127.0.0.1', port: 0 });
  const orders = await aRegisteredService(target.databaseUrl, 'orders', ['revocations']);
  const kid = String(headerOf((await signUp(target)).access_token).kid);
  let confirms = true;
  let last: string | undefined;
  let refused: number | null = null;
  const facts = { instance: 'orders-7d9f4c', software: 'a-reader', version: '1.0.9' };
  const confirm = async (position: string) => {
    const { statusCode } = await call(target, `PUT /api/auth/revocations/readers/${READER}`, {
      headers: basic(orders),
      payload: { position, ...facts, max_staleness: 3600, when_stale: 'refuse', keys: ['a-key', kid] },
    });
    if (statusCode !== 200) refused = statusCode;
  };
  aFeedClient(t, {
    url: () => target.app.listeningOrigin,
    authorization: basic(orders).authorization,
    reader: READER,
    onEvent({ event, id }) {
      if (event !== 'heartbeat' || id === undefined || !confirms || id === last) return;
      last = id;
      void confirm(id);
    },
  });
  const rows = () => sql(target.databaseUrl, 'SELECT 1 FROM feed_readers WHERE reader = $1', [READER]);
  await until(async () => (await rows()).length === 1);
  t.equal(refused, null);
  const own = { ...env, DATABASE_URL: target.databaseUrl, DATA_DIR: NO_DATA_DIR };
  const all: Environment = { ...own, REDIS_PREFIX: `${prefix}${new URL(target.databaseUrl).pathname}:` };
  return {
    target,
    kid,
    env: all,
    prefix,
    run: (words: string[], more: Environment = {}, input = '') =>
      latchkey(words, { ...all, ...more }, undefined, input),
    pause: () => {
      confirms = false;
    },
    resume: () => {
      confirms = true;
    },
  };
}
