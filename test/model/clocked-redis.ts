import { source, type ScriptedRedis } from '../../src/infra/redis/connection/scripts.ts';

const PRELUDE = `
local real = redis
local redis = { call = function(command, ...)
  if command == 'TIME' then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
  return real.call(command, ...)
end }
`;

const SCRIPTS = ['rotate', 'check', 'put'] as const;

type ClockedScript = (typeof SCRIPTS)[number];
type Argument = string | number;

/** As rotate.lua says; the last one is the time of sending. */
const ROTATE_ARGUMENTS = 7;

/**
 * The real scripts in the real Redis, but TIME returns the test's time. So histories hit every limit to the microsecond
 * on both sides, and a replay is exact.
 */
export function makeClockedRedis(redis: ScriptedRedis) {
  for (const name of SCRIPTS) {
    redis.defineCommand(`clocked${name}`, {
      lua: PRELUDE + source(name),
      ...(name === 'put' && { numberOfKeys: 2 }),
    });
  }
  const commands = redis as unknown as Record<string, (...args: Argument[]) => Promise<never>>;

  /** A client with its own clock in microseconds. It runs `rotate`, `check` and `put`. */
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
      put: call('put'),
    };
    return clocked as unknown as ScriptedRedis;
  };
}

/** Half of a request's elapsed time is on the way to Redis, which must measure that half itself. */
function onItsWay([keyCount, ...rest]: Argument[], now: number): Argument[] {
  const keys = rest.slice(0, Number(keyCount));
  const args = rest.slice(Number(keyCount));
  const changed: Argument[] = [];
  for (let i = 0; i < args.length; i += ROTATE_ARGUMENTS) {
    const [generation = 0, elapsed = 0, ...others] = args.slice(i, i + ROTATE_ARGUMENTS - 1);
    const way = Math.floor(Number(elapsed) / 2);
    // A send time in the future does not make a request newer.
    changed.push(generation, Number(elapsed) - way, ...others, way > 0 ? now - way : now + 1_000_000);
  }
  return [keys.length, ...keys, ...changed];
}
