import type { FaultProxy } from '../../support/fault-proxy.ts';
import type { RedisServer } from '../../support/redis-server.ts';
import type { Fault } from './fault.ts';

/** The contract allows one second for an outage of Redis; the rest is a margin for a busy machine. */
const BOUND = 3000;

/** Faults of a single Redis. Once healed, it must be as before. */
export function redisFaults(redis: RedisServer, proxy: FaultProxy): Fault[] {
  const through = (name: string, fault: Parameters<FaultProxy['set']>[0]): Fault => ({
    name: `Redis ${name}`,
    bound: BOUND,
    seconds: 3,
    strike: () => {
      proxy.set(fault);
    },
    heal: () => {
      proxy.set('pass');
    },
  });
  const config = (name: string, value: string) => redis.ask('CONFIG', 'SET', name, value);

  return [
    { name: 'Redis emptied', bound: BOUND, seconds: 0, strike: () => redis.ask('FLUSHALL') },
    {
      name: 'Redis killed, and back empty',
      bound: BOUND,
      seconds: 2,
      strike: () => redis.kill(),
      heal: () => redis.start('--dbfilename', 'none.rdb'),
    },
    {
      name: 'Redis killed, and back from an old snapshot',
      bound: BOUND,
      seconds: 3,
      async strike() {
        await redis.ask('SAVE');
        // Long enough for sessions to rotate and end after the snapshot.
        await new Promise((resolve) => setTimeout(resolve, 3000));
        await redis.kill();
        await redis.start();
      },
    },
    {
      name: 'Redis hung',
      bound: BOUND,
      seconds: 3,
      strike: () => {
        redis.hang();
      },
      heal: () => {
        redis.goOn();
      },
    },
    through('gone without a word (black hole)', 'vanish'),
    through('refusing connections', 'refuse'),
    through('slow, 100 ms each way', 100),
    through('slow, 1 s each way', 1000),
    {
      ...through('connections closed', 'refuse'),
      seconds: 0,
    },
    {
      name: 'Redis full (maxmemory, noeviction)',
      bound: BOUND,
      seconds: 3,
      strike: () => config('maxmemory', '1'),
      heal: () => config('maxmemory', '0'),
    },
    {
      name: 'Redis read-only (a demoted master)',
      bound: BOUND,
      seconds: 3,
      // Makes it the replica of an unreachable master; its data stays.
      strike: () => redis.ask('REPLICAOF', '127.0.0.1', 1),
      heal: () => redis.ask('REPLICAOF', 'NO', 'ONE'),
    },
  ];
}
