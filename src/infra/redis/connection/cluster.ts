import { Cluster } from 'ioredis';
import { connectionOptions, type RedisOptions } from './client.ts';
import { defineScripts, type ScriptedCluster } from './scripts.ts';

/** Milliseconds between two reads of the slot map: an isolated master does not report that it lost its role. */
const REFRESH = 1000;

/**
 * A client of a Redis Cluster. Like makeRedisClient's, its commands fail at once instead of queueing, and it keeps
 * trying to reconnect. It connects to a node on first use, never reuses a connection object after a disconnect, and
 * finds a lost node again when it next reads the slot map.
 * Once closed, it lets the process end. ioredis's own `slotsRefreshInterval` does not, if a read is under way then.
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
  });
  cluster.once('ready', () => {
    const refresh = setInterval(() => {
      if (cluster.status === 'ready') cluster.refreshSlotsCache();
    }, REFRESH);
    cluster.once('end', () => {
      clearInterval(refresh);
    });
  });
  return defineScripts(cluster);
}
