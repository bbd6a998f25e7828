// One embedded PostgreSQL for all test files if no server answers. Otherwise each file would start its own.
import { Redis } from 'ioredis';
import pg from 'pg';

/** @returns {Promise<{ url: string | undefined, close: () => Promise<void> }>} url: undefined if the usual server answers */
export async function openTestDatabase({ TEST_DATABASE_URL: given }) {
  // Imported late: the build has not run when this module loads.
  const { USUAL_SERVER, answers, startTestServer } = await import('../dist/test/support/postgres.js');
  if (await answers(given ?? USUAL_SERVER)) return { url: given, close: async () => {} };
  const { url, stop } = await startTestServer();
  return { url, close: stop };
}

/** Which stores the tests use, in one line. Hosts only: a URL may hold a password. */
export async function describeStores(opened, { TEST_DATABASE_URL: given, TEST_REDIS_URL }) {
  const { USUAL_SERVER } = await import('../dist/test/support/postgres.js');
  const [wanted, used] = [given ?? USUAL_SERVER, opened ?? USUAL_SERVER];
  const redis = TEST_REDIS_URL ?? 'redis://127.0.0.1:6379';
  const version = await versionOfPostgres(used);
  const postgres =
    used === wanted
      ? `PostgreSQL ${version} at ${hostOf(used)}`
      : `the embedded PostgreSQL ${version} (none answers at ${hostOf(wanted)})`;
  const found = await versionOfRedis(redis);
  const cache = found ? `Redis ${found} at ${hostOf(redis)}` : `no Redis (none answers at ${hostOf(redis)})`;
  return `the tests use ${postgres} and ${cache}`;
}

const hostOf = (url) => new URL(url).host;

async function versionOfPostgres(url) {
  const client = new pg.Client(url);
  await client.connect();
  const { rows } = await client.query('SHOW server_version');
  await client.end();
  // Debian adds its own version.
  return rows[0].server_version.split(' ')[0];
}

/** @returns {Promise<string | undefined>} */
async function versionOfRedis(url) {
  const redis = new Redis(url, { lazyConnect: true, connectTimeout: 1000, retryStrategy: () => null });
  redis.on('error', () => {});
  try {
    await redis.connect();
    return /redis_version:(\S+)/.exec(await redis.info('server'))?.[1];
  } catch {
    return undefined;
  } finally {
    redis.disconnect();
  }
}
