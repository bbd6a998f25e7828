import { Cluster, Redis, type RedisOptions as ClientOptions } from 'ioredis';
import { atEndOfTick } from '../../tick.ts';
import type { RedisServer } from './redis-url.ts';
import { defineScripts, type ScriptedCluster, type ScriptedRedis } from './scripts.ts';

export interface RedisNode {
  host: string;
  port: number;
}

/** Milliseconds. */
const RECONNECT = 100;
/** Milliseconds between two reads of the slot map: an isolated master does not report that it lost its role. */
const REFRESH = 1000;
/** Bytes. A write of this size leaves at once: to wait for others would save nothing more. */
const LARGE_WRITE = 1536;

export interface RedisOptions {
  /** With Sentinel or cluster, its address does not count. */
  server: RedisServer;
  /** The Sentinels, or the seed nodes of the cluster. */
  nodes?: readonly RedisNode[];
  /** With Sentinels: the name of the master, and our credentials for the Sentinels. */
  sentinel?: { name: string; username?: string | undefined; password?: string | undefined };
  /** PEM certificates of the CAs that may sign the server's certificate, if Node's own list lacks them. */
  ca?: string | undefined;
  /** Time limit of one command, in milliseconds. */
  timeout: number;
}

/** The connection settings, by their names in the environment. */
export interface RedisSettings {
  REDIS_MODE: 'single' | 'sentinel' | 'cluster';
  REDIS_URL: RedisServer;
  REDIS_NODES: RedisNode[];
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
    server: settings.REDIS_URL,
    nodes: settings.REDIS_NODES,
    ca: settings.REDIS_CA,
    timeout: settings.REDIS_TIMEOUT,
    ...sentinel,
  };
  return settings.REDIS_MODE === 'cluster' ? makeRedisCluster(options) : makeRedisClient(options);
}

/** For the log: the servers and the database. Without user and password. */
export function targetOf({ REDIS_MODE: mode, REDIS_URL: server, REDIS_NODES: nodes }: RedisSettings): object {
  const reached = mode === 'single' ? [server] : nodes;
  const name = (host: string) => (host.includes(':') ? `[${host}]` : host);
  const host = reached.map((node) => `${name(node.host)}:${node.port}`).join();
  return { host, database: String(server.database) };
}

/** Calls `heard` with why a node of a cluster cannot be reached. Commands for it only say that there is no connection. */
export function onNodeError(redis: Redis | Cluster, heard: (error: unknown) => void): void {
  if (redis instanceof Cluster) redis.on('node error', heard);
}

/**
 * ioredis hears only the first error of a socket. A TLS handshake that `disconnect` cuts short fails a second time if the
 * certificate was refused, and an error that nobody hears ends the process. This also holds for the connections that a
 * cluster makes itself.
 */
const disconnect = Reflect.get(Redis.prototype, 'disconnect');
Redis.prototype.disconnect = function (this: Redis, ...args) {
  // Undefined before the first connection, although the type does not say so.
  (this.stream as Redis['stream'] | undefined)?.on('error', () => undefined);
  disconnect.apply(this, args);
};

class LastingRedis extends Redis {
  #isClosed = false;

  constructor(options: ClientOptions & { replyMapping: 'legacy' }) {
    super(options);
    // ioredis stops reconnecting if a Sentinel announces another master while ioredis is asking for the master.
    this.on('end', () => {
      setTimeout(() => {
        if (!this.#isClosed) this.connect().catch(() => undefined);
      }, RECONNECT).unref();
    });
  }

  /** If the server lacks the database of REDIS_URL, ioredis would go on in database 0, which is somebody else's. */
  override select(...args: Parameters<Redis['select']>): Promise<'OK'> {
    const selected = super.select(...args);
    selected.catch(() => {
      this.disconnect(true);
    });
    return selected;
  }

  override disconnect(reconnect = false): void {
    if (!reconnect) this.#isClosed = true;
    super.disconnect(reconnect);
  }

  /**
   * Combines the commands of one event-loop turn into one write: under load, a write per command costs more than the
   * command. ioredis's own auto-pipelining does this too, but for scripts its bookkeeping costs more than it saves.
   * What is large leaves at once, so that Redis works on it while we write the rest.
   */
  override sendCommand(...args: Parameters<Redis['sendCommand']>): unknown {
    // Undefined before the first connection, although the type does not say so.
    const stream = this.stream as Redis['stream'] | undefined;
    if (stream?.writableCorked === 0) {
      stream.cork();
      atEndOfTick(() => {
        stream.uncork();
      });
    }
    const sent = super.sendCommand(...args);
    if (stream && stream.writableLength >= LARGE_WRITE) stream.uncork();
    return sent;
  }
}

/**
 * A client of one Redis, or of the master that Sentinels name. While Redis is down, commands fail at once instead of
 * queueing, so that requests get their 503 in time. The client keeps trying to reconnect.
 * The caller must listen to `error` events: the client emits them while Redis is down.
 */
export function makeRedisClient(options: RedisOptions): ScriptedRedis {
  const { server, nodes = [], sentinel, timeout } = options;
  const { tls, ...connection } = connectionOptions(options);
  const retryStrategy = (attempt: number) => Math.min(attempt * 50, 500);
  const address = { host: server.host, port: server.port };
  const redis = new LastingRedis({
    ...connection,
    ...(tls && { tls }),
    ...(sentinel ? { sentinels: [...nodes], ...sentinelOptions(sentinel, timeout, tls) } : address),
    lazyConnect: true,
    enableOfflineQueue: false,
    retryStrategy,
  } as ClientOptions & { replyMapping: 'legacy' });
  return defineScripts(redis);
}

/**
 * A client of a Redis Cluster. Like makeRedisClient's, its commands fail at once instead of queueing, and it keeps
 * trying to reconnect. It connects to a node on first use, never reuses a connection object after a disconnect, and
 * finds a lost node again when it next reads the slot map.
 * Once closed, it lets the process end. ioredis's own `slotsRefreshInterval` does not, if a read is under way then.
 */
export function makeRedisCluster(options: RedisOptions): ScriptedCluster {
  const cluster = new Cluster([...(options.nodes ?? [])], {
    // Else ioredis compares the certificate with an address that it has looked up, not with the name in REDIS_NODES.
    dnsLookup: (name, done) => {
      done(null, name);
    },
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

function sentinelOptions(
  { name, username, password }: NonNullable<RedisOptions['sentinel']>,
  timeout: number,
  tls: ClientOptions['tls'],
): ClientOptions {
  const retry = (attempt: number) => Math.min(attempt * 50, 500);
  return {
    name,
    ...(username !== undefined && { sentinelUsername: username }),
    ...(password !== undefined && { sentinelPassword: password }),
    ...(tls && { sentinelTLS: tls, enableTLSForSentinelMode: true }),
    sentinelCommandTimeout: timeout,
    sentinelRetryStrategy: retry,
    // A demoted master may not know it yet and still answer. The Sentinels tell the client to disconnect.
    failoverDetector: true,
    sentinelReconnectStrategy: retry,
  };
}

/** Options of every connection to a Redis with sessions. */
function connectionOptions({ server, ca, timeout }: RedisOptions): ClientOptions {
  const { username, password, database, hasTls } = server;
  return {
    ...(username !== '' && { username }),
    ...(password !== '' && { password }),
    db: database,
    ...(hasTls && { tls: ca === undefined ? {} : { ca } }),
    // CLIENT SETINFO is one more command that an ACL would have to allow.
    disableClientInfo: true,
    maxRetriesPerRequest: 0,
    // A server that loads its data estimates the remaining time, usually wrongly.
    maxLoadingRetryTime: 500,
    connectTimeout: timeout,
    commandTimeout: timeout,
    // A dead host closes no connection, and the kernel retransmits for a quarter of an hour.
    socketTimeout: 4 * timeout,
    // A demoted or isolated master keeps the connection open. Reconnecting finds the new master.
    reconnectOnError: ({ message }) => /^(READONLY|MASTERDOWN|NOREPLICAS)\b/.test(message),
  };
}
