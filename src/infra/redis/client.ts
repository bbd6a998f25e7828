import { Redis } from 'ioredis';
import { defineScripts, type ScriptedRedis } from './scripts.ts';

export interface RedisOptions {
  url: string;
  /** How long one command may take, in milliseconds. */
  timeout: number;
}

/**
 * Gathers what one turn of the event loop sends into one write: under load a write for each command costs more than
 * the command. ioredis's own auto-pipelining gathers too, but its bookkeeping costs more than it saves on scripts.
 */
class GatheringRedis extends Redis {
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
 * A client that fails at once while Redis is away instead of queueing, so that requests are answered 503 within their
 * time, and that goes on trying to come back.
 * Whoever makes it listens to its `error` events: they are expected while Redis is away.
 */
export function makeRedisClient({ url, timeout }: RedisOptions): ScriptedRedis {
  const redis = new GatheringRedis(url, {
    lazyConnect: true,
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    connectTimeout: timeout,
    commandTimeout: timeout,
    // A host that is gone closes no connection, and the kernel keeps hoping for a quarter of an hour.
    socketTimeout: 4 * timeout,
    // A demoted master keeps the connection; the new one is found by connecting again.
    reconnectOnError: ({ message }) => /^(READONLY|MASTERDOWN)\b/.test(message),
    retryStrategy: (attempt) => Math.min(attempt * 50, 500),
  });
  return defineScripts(redis);
}
