import { makeRedisClient } from './client.ts';
import { makeRedisCluster } from './cluster.ts';
import type { ScriptedCluster, ScriptedRedis } from './scripts.ts';

/** The connection settings, by their names in the environment. */
export interface RedisSettings {
  REDIS_MODE: 'single' | 'sentinel' | 'cluster';
  REDIS_URL: string;
  REDIS_NODES: { host: string; port: number }[];
  REDIS_SENTINEL_NAME?: string | undefined;
  REDIS_SENTINEL_USERNAME?: string | undefined;
  REDIS_SENTINEL_PASSWORD?: string | undefined;
  REDIS_CA?: string | undefined;
  REDIS_TIMEOUT: number;
}

/** The client for a single Redis, a Sentinel group or a Redis Cluster. It does not connect yet. */
export function openRedis(settings: RedisSettings): ScriptedRedis | ScriptedCluster {
  const { REDIS_SENTINEL_NAME: name, REDIS_SENTINEL_USERNAME: username } = settings;
  const sentinel =
    name === undefined ? {} : { sentinel: { name, username, password: settings.REDIS_SENTINEL_PASSWORD } };
  const options = {
    url: settings.REDIS_URL,
    nodes: settings.REDIS_NODES,
    ca: settings.REDIS_CA,
    timeout: settings.REDIS_TIMEOUT,
    ...sentinel,
  };
  return settings.REDIS_MODE === 'cluster' ? makeRedisCluster(options) : makeRedisClient(options);
}

/** For the log: the servers and the database. Without user and password. */
export function targetOf({ REDIS_MODE: mode, REDIS_URL, REDIS_NODES: nodes }: RedisSettings): object {
  const { hostname, port, pathname } = new URL(REDIS_URL);
  const host =
    mode === 'single'
      ? `${hostname}:${port || 6379}`
      : nodes.map((node) => `${node.host}:${node.port}`).join();
  return { host, database: pathname.slice(1) || '0' };
}
