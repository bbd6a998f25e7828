import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { existing, startRedis, type RedisServer } from './redis-server.ts';
import { until } from './until.ts';

/** A master with two replicas, watched by three Sentinels. */
export interface SentinelServers {
  /** The service's settings for it. */
  env: Environment;
  servers: RedisServer[];
  sentinels: RedisServer[];
  /** The current master, according to the Sentinels. */
  master(): Promise<RedisServer>;
  /** Resolves once they report another master. */
  failedOverFrom(old: RedisServer): Promise<RedisServer>;
  /** Makes the Sentinels choose another master. The old one learns of it some ten seconds later. */
  failOver(): Promise<RedisServer>;
}

const NAME = 'main';

/** @param args for each Redis. A master that is down for more than a second is replaced. */
export async function startSentinels(t: Test, ...args: string[]): Promise<SentinelServers> {
  const common = ['--repl-diskless-sync-delay', '0', '--repl-timeout', '3', ...args];
  const first = await startRedis(t, { args: common });
  const replicaOf = ['--replicaof', `127.0.0.1 ${first.port}`];
  const replicas = await Promise.all([1, 2].map(() => startRedis(t, { args: [...common, ...replicaOf] })));
  const servers = [first, ...replicas];
  for (const replica of replicas) {
    await until(async () => (await replica.info('master_link_status')) === 'up');
  }

  const sentinels = await Promise.all([1, 2, 3].map(() => startSentinel(t, first.port)));
  // Failover needs Sentinels that know each other and the replicas.
  for (const sentinel of sentinels) {
    await until(async () => (await sentinel.info('master0'))?.includes('slaves=2,sentinels=3') ?? false);
  }

  const ask = (...command: string[]) => existing(sentinels[0]).ask('SENTINEL', ...command, NAME);
  const master = async () => {
    const [, port] = (await ask('GET-MASTER-ADDR-BY-NAME')) as string[];
    const found = servers.find((server) => String(server.port) === port);
    if (!found) throw new Error(`no server of this test at port ${port}`);
    return found;
  };
  const failedOverFrom = async (old: RedisServer) => {
    let now = old;
    await until(async () => (now = await master()) !== old && (await now.info('role')) === 'master');
    return now;
  };
  return {
    env: {
      REDIS_MODE: 'sentinel',
      REDIS_URL: 'redis://ignored',
      REDIS_NODES: sentinels.map(({ port }) => `127.0.0.1:${port}`).join(','),
      REDIS_SENTINEL_NAME: NAME,
    },
    servers,
    sentinels,
    master,
    failedOverFrom,
    async failOver() {
      const old = await master();
      await ask('FAILOVER');
      return failedOverFrom(old);
    },
  };
}

async function startSentinel(t: Test, port: number): Promise<RedisServer> {
  const config = [
    `sentinel monitor ${NAME} 127.0.0.1 ${port} 2`,
    `sentinel down-after-milliseconds ${NAME} 1000`,
    `sentinel failover-timeout ${NAME} 5000`,
    `sentinel parallel-syncs ${NAME} 1`,
  ];
  return startRedis(t, {
    program: 'redis-sentinel',
    prepare: (folder) => {
      writeFileSync(join(folder, 'sentinel.conf'), config.join('\n'));
    },
  });
}
