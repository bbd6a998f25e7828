import { Cluster } from 'ioredis';
import { connectionOptions, type RedisOptions } from './client.ts';
import { defineScripts, type ScriptedCluster } from './scripts.ts';

/** Milliseconds between two reads of the slot map: an isolated master does not report that it lost its role. */
const REFRESH = 1000;

/**
 * A client of a Redis Cluster. Like makeRedisClient's, its commands fail at once instead of queueing, and it keeps
 * trying to reconnect. It connects to a node on first use, never reuses a connection object after a disconnect, and
 * finds a lost node again when it next reads the slot map.
 */
export function makeRedisCluster(options: RedisOptions): ScriptedCluster {
  const cluster = new Cluster([...(options.nodes ?? [])], {
    lazyConnect: true,
    enableOfflineQueue: false,
    redisOptions: connectionOptions(options) as object,
    clusterRetryStrategy: (attempt) => Math.min(attempt * 50, 500),
    // The caller can wait better than we can: it gets a 503 and retries.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 20,
    maxRedirections: 5,
    slotsRefreshTimeout: options.timeout,
    slotsRefreshInterval: REFRESH,
  });
  return defineScripts(cluster);
}
