import { Redis } from 'ioredis';
import { answers, startTestServer, USUAL_SERVER, withClient } from './postgres.ts';

export interface TestStores {
  /** What the test files need to find them. */
  env: Record<string, string>;
  /** A line for the developer. Hosts only: a URL may hold a password. */
  description: string;
  close(): Promise<void>;
}

/** One embedded PostgreSQL for all test files if no server answers. Otherwise each file would start its own. */
export async function openTestStores({
  TEST_DATABASE_URL: wanted = USUAL_SERVER,
  TEST_REDIS_URL: redis = 'redis://127.0.0.1:6379',
}: Record<string, string | undefined>): Promise<TestStores> {
  const embedded = (await answers(wanted)) ? undefined : await startTestServer();
  const { url = wanted, stop = () => Promise.resolve() } = embedded ?? {};
  const version = await withClient(url, async (client) => {
    const { rows } = await client.query<{ server_version: string }>('SHOW server_version');
    // Debian adds its own version.
    return rows[0]?.server_version.split(' ')[0] ?? '';
  });
  const postgres = embedded
    ? `the embedded PostgreSQL ${version} (none answers at ${hostOf(wanted)})`
    : `PostgreSQL ${version} at ${hostOf(url)}`;
  const found = await versionOfRedis(redis);
  const cache = found ? `Redis ${found} at ${hostOf(redis)}` : `no Redis (none answers at ${hostOf(redis)})`;
  return {
    env: { TEST_DATABASE_URL: url },
    description: `the tests use ${postgres} and ${cache}`,
    close: stop,
  };
}

function hostOf(url: string): string {
  return new URL(url).host;
}

async function versionOfRedis(url: string): Promise<string | undefined> {
  const redis = new Redis(url, { lazyConnect: true, connectTimeout: 1000, retryStrategy: () => null });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    return /redis_version:(\S+)/.exec(await redis.info('server'))?.[1];
  } catch {
    return undefined;
  } finally {
    redis.disconnect();
  }
}
