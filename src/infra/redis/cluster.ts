import { Cluster } from 'ioredis';
import { connectionOptions, type RedisOptions } from './client.ts';
import { defineScripts, type ScriptedCluster } from './scripts.ts';

/** Milliseconds after which the map of slots is read again: a master that was cut off does not say that it is none. */
const REFRESH = 1000;

/**
 * A client of a Redis Cluster. Like makeRedisClient's it fails at once instead of queueing, and goes on trying.
 * Connections to nodes are made when they are needed, each is used once, and a node that it loses comes back with the
 * next reading of the map.
 */
export function makeRedisCluster(options: RedisOptions): ScriptedCluster {
  const cluster = new Cluster([...(options.nodes ?? [])], {
    lazyConnect: true,
    enableOfflineQueue: false,
    redisOptions: connectionOptions(options) as object,
    clusterRetryStrategy: (attempt) => Math.min(attempt * 50, 500),
    // Its client waits better than we do: the request is answered 503, and tried again.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 20,
    maxRedirections: 5,
    slotsRefreshTimeout: options.timeout,
    slotsRefreshInterval: REFRESH,
  });
  return defineScripts(cluster);
}
