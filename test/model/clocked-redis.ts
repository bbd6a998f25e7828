import { source, type ScriptedRedis } from '../../src/infra/redis/connection/scripts.ts';

const PRELUDE = `
local real = redis
local redis = { call = function(command, ...)
  if command == 'TIME' then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
  return real.call(command, ...)
end }
`;

const SCRIPTS = ['rotate', 'check', 'preparePut', 'put'] as const;

/** The number of keys of those that have a fixed number. */
const KEYS: Partial<Record<ClockedScript, number>> = { preparePut: 1, put: 2 };

type ClockedScript = (typeof SCRIPTS)[number];
type Argument = string | number;

/**
 * The real scripts in the real Redis, but TIME returns the test's time. So histories hit every limit to the microsecond
 * on both sides, and a replay is exact.
 */
export function makeClockedRedis(redis: ScriptedRedis) {
  for (const name of SCRIPTS) {
    const numberOfKeys = KEYS[name];
    redis.defineCommand(`clocked${name}`, {
      lua: PRELUDE + source(name),
      ...(numberOfKeys !== undefined && { numberOfKeys }),
    });
  }
  const commands = redis as unknown as Record<string, (...args: Argument[]) => Promise<never>>;

  /** A client with its own clock in microseconds. It runs the scripts above. */
  return function withClock(now: () => number): ScriptedRedis {
    const call =
      (name: ClockedScript) =>
      (...args: Argument[]) => {
        const time = now();
        return commands[`clocked${name}`]?.(...args, Math.floor(time / 1_000_000), time % 1_000_000);
      };
    const rotate = call('rotate');
    const clocked = {
      rotate: (...args: Argument[]) => rotate(...onItsWay(args, now())),
      check: call('check'),
      preparePut: call('preparePut'),
      put: call('put'),
    };
    return clocked as unknown as ScriptedRedis;
  };
}

/** Half of a request's elapsed time is on the way to Redis, which must measure that half itself. */
function onItsWay([keyCount, ...rest]: Argument[], now: number): Argument[] {
  const keys = rest.slice(0, Number(keyCount));
  const args = rest.slice(Number(keyCount));
  const changed = args.map((text) => {
    // As rotate.lua says; the last one is the time of sending.
    const [generation, elapsed, ...others] = String(text).split(' ').slice(0, -1);
    const way = Math.floor(Number(elapsed) / 2);
    // A send time in the future does not make a request newer.
    const sentAt = way > 0 ? now - way : now + 1_000_000;
    return [generation, Number(elapsed) - way, ...others, sentAt].join(' ');
  });
  return [keys.length, ...keys, ...changed];
}
