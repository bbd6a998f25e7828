import { makeSessionRedis } from '../compose-states.ts';
import { ConfigError, loadConfig, NO_HASHES, type Environment } from '../config.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { endAgain, endAll, skipLostIds, withoutRecord } from '../infra/postgres/recover.ts';
import { makeConnections } from '../infra/redis/connections.ts';
import { orUnavailable } from '../infra/redis/errors.ts';
import { makeKeys } from '../infra/redis/keys.ts';
import { visitTokens } from '../infra/redis/recover.ts';
import { within } from '../within.ts';
import type { Command } from './command.ts';

/** Milliseconds. */
const CONNECT_TIMEOUT = 10_000;

interface Recovered {
  /** What Redis knew. */
  tokens: number;
  /** Revoked after the backup, and now on record as revoked again. */
  revoked: number;
  /** Created after the backup: without a record, and over. */
  lost: number;
  /** By --end-all. */
  ended: number;
}

/** `latchkey recover`. */
export const run: Command = async ({ env, values: { 'end-all': all } }) => {
  const recovered = await recover(env, all);
  const { tokens, revoked, lost, ended } = recovered;
  const lines = [
    `Redis knew ${tokens} tokens`,
    `${revoked} were revoked after the backup, and are on record as revoked again`,
    `${lost} were created after the backup, and are over`,
    ...(all ? [`${ended} others have been ended`] : []),
    ...(tokens === 0 && !all
      ? ['If Redis has lost its data too, revocations are unknown: use --end-all']
      : []),
  ];
  return { result: recovered, text: lines.join('\n') };
};

/**
 * Makes a database that was restored from a backup safe to serve from, while no replica runs: ids that were given after
 * the backup are never given again, what Redis knows to be revoked is revoked in the record, and what has no record is
 * ended in Redis. May be repeated.
 * @throws ConfigError, AuthError `unavailable`
 */
async function recover(env: Environment, all: boolean): Promise<Recovered> {
  const names = Object.keys(env).filter((name) => /^(DATABASE|REDIS)_|^SESSION_CACHE_TTL$/.test(name));
  const config = loadConfig(Object.fromEntries(names.map((name) => [name, env[name]])), NO_HASHES);
  const { DATABASE_URL, REDIS_URL, REDIS_PREFIX: prefix } = config;
  if (DATABASE_URL === undefined || REDIS_URL === undefined)
    throw new ConfigError([
      'DATABASE_URL and REDIS_URL are required: Redis knows what came after the backup',
    ]);

  const postgres = makePostgres({ url: DATABASE_URL, pool: 1, timeout: config.DATABASE_TIMEOUT });
  const redis = makeSessionRedis(config, REDIS_URL);
  redis.on('error', () => undefined);
  const { prisma } = postgres;
  const keys = makeKeys(prefix);
  const recovered: Recovered = { tokens: 0, revoked: 0, lost: 0, ended: 0 };
  try {
    // It goes on trying for as long as no Sentinel answers.
    await orUnavailable(within(redis.connect(), CONNECT_TIMEOUT));
    // That none is away whose part would be left out.
    await makeConnections(redis, prefix).check();
    await skipLostIds(prisma);
    recovered.tokens = await visitTokens(redis, prefix, async (states, tombstones) => {
      recovered.revoked += await endAgain(prisma, tombstones);
      const lost = await withoutRecord(prisma, states);
      await orUnavailable(
        Promise.all(lost.map((key) => redis.revoke(keys.token(key), 2 * config.SESSION_CACHE_TTL, '1'))),
      );
      recovered.lost += lost.length;
    });
    if (all) recovered.ended = await endAll(prisma);
    return recovered;
  } finally {
    redis.disconnect();
    await postgres.close();
  }
}
