import { Redis, type RedisOptions as ClientOptions } from 'ioredis';
import { defineScripts, type ScriptedRedis } from './scripts.ts';

export interface RedisNode {
  host: string;
  port: number;
}

/** Milliseconds. */
const RECONNECT = 100;

export interface RedisOptions {
  /** REDIS_URL: scheme, user, password and database; the address too where no Sentinel or cluster knows it. */
  url: string;
  /** The Sentinels, or nodes of the cluster. */
  nodes?: readonly RedisNode[];
  /** Where Sentinels say who the master is: its name there, and who we are to the Sentinels. */
  sentinel?: { name: string; username?: string | undefined; password?: string | undefined };
  /** Certificates (PEM) of those who may sign the server's, where Node's own list does not hold them. */
  ca?: string | undefined;
  /** How long one command may take, in milliseconds. */
  timeout: number;
}

class LastingRedis extends Redis {
  #isClosed = false;

  constructor(options: ClientOptions & { replyMapping: 'legacy' }) {
    super(options);
    // ioredis gives up for good where a Sentinel tells of another master while one is being asked for the master.
    this.on('end', () => {
      setTimeout(() => {
        if (!this.#isClosed) this.connect().catch(() => undefined);
      }, RECONNECT).unref();
    });
  }

  override disconnect(reconnect = false): void {
    if (!reconnect) this.#isClosed = true;
    super.disconnect(reconnect);
  }

  /**
   * Gathers what one turn of the event loop sends into one write: under load a write for each command costs more than
   * the command. ioredis's own auto-pipelining gathers too, but its bookkeeping costs more than it saves on scripts.
   */
  override sendCommand(...args: Parameters<Redis['sendCommand']>): unknown {
    // There is none before the first connection, whatever the type says.
    const stream = this.stream as Redis['stream'] | undefined;
    if (stream?.writableCorked === 0) {
      stream.cork();
      setImmediate(() => {
        stream.uncork();
      });
    }
    return super.sendCommand(...args);
  }
}

/**
 * A client of one Redis, or of the master that Sentinels name. It fails at once while Redis is away instead of queueing,
 * so that requests are answered 503 within their time, and goes on trying to come back.
 * Whoever makes it listens to its `error` events: they are expected while Redis is away.
 */
export function makeRedisClient(options: RedisOptions): ScriptedRedis {
  const { url, nodes = [], sentinel, timeout } = options;
  const { hostname, port } = new URL(url);
  const { tls, ...connection } = connectionOptions(options);
  const retryStrategy = (attempt: number) => Math.min(attempt * 50, 500);
  const address = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) };
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
    // A demoted master may not know it yet, and goes on answering: the Sentinels say when to leave it.
    failoverDetector: true,
    sentinelReconnectStrategy: retry,
  };
}

/** What holds for every connection to a server that keeps sessions. */
export function connectionOptions({ url, ca, timeout }: RedisOptions): ClientOptions {
  const { protocol, username, password, pathname } = new URL(url);
  return {
    ...(username !== '' && { username: decodeURIComponent(username) }),
    ...(password !== '' && { password: decodeURIComponent(password) }),
    db: Number(pathname.slice(1)),
    ...(protocol === 'rediss:' && { tls: ca === undefined ? {} : { ca } }),
    // One command less that an ACL has to allow.
    disableClientInfo: true,
    maxRetriesPerRequest: 0,
    // One that loads its data says how long it will take, and is mostly wrong.
    maxLoadingRetryTime: 500,
    connectTimeout: timeout,
    commandTimeout: timeout,
    // A host that is gone closes no connection, and the kernel keeps hoping for a quarter of an hour.
    socketTimeout: 4 * timeout,
    // A demoted or cut off master keeps the connection; the new one is found by connecting again.
    reconnectOnError: ({ message }) => /^(READONLY|MASTERDOWN|NOREPLICAS)\b/.test(message),
  };
}
