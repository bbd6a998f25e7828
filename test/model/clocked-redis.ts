import { readFileSync } from 'node:fs';
import type { ScriptedRedis } from '../../src/infra/redis/connection/scripts.ts';

const PRELUDE = `
local real = redis
local redis = { call = function(command, ...)
  if command == 'TIME' then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
  return real.call(command, ...)
end }
`;

const SCRIPTS = {
  rotate: 'rotate',
  check: 'check',
  put: 'put',
} as const;

type ClockedScript = keyof typeof SCRIPTS;
type Argument = string | number;

/**
 * The real scripts in the real Redis, but TIME returns the test's time. So histories hit every limit to the microsecond
 * on both sides, and a replay is exact.
 */
export function makeClockedRedis(redis: ScriptedRedis) {
  for (const [name, file] of Object.entries(SCRIPTS)) {
    const source = readFileSync(new URL(`../../src/infra/redis/lua/${file}.lua`, import.meta.url), 'utf8');
    redis.defineCommand(`clocked${name}`, {
      lua: PRELUDE + source,
      ...(name !== 'check' && { numberOfKeys: 2 }),
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
function onItsWay(args: Argument[], now: number): Argument[] {
  const [elapsed, sentAt] = [3, 8];
  const way = Math.floor(Number(args[elapsed]) / 2);
  // A send time in the future does not make a request newer.
  return args.with(elapsed, Number(args[elapsed]) - way).with(sentAt, way > 0 ? now - way : now + 1_000_000);
}
