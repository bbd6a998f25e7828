import { readFileSync } from 'node:fs';
import type { ScriptedRedis } from '../../src/infra/redis/scripts.ts';

const PRELUDE = `
local real = redis
local redis = { call = function(command, ...)
  if command == 'TIME' then return { ARGV[#ARGV - 1], ARGV[#ARGV] } end
  return real.call(command, ...)
end }
`;

const SCRIPTS = {
  rotate: 'rotate',
  checkAccess: 'check-access',
  put: 'put',
} as const;

type ClockedScript = keyof typeof SCRIPTS;
type Argument = string | number;

/**
 * The very scripts, in the very Redis, but TIME answers what the test says: to the microsecond on either side of every
 * limit, and the same again when a history is played again.
 */
export function makeClockedRedis(redis: ScriptedRedis) {
  for (const [name, file] of Object.entries(SCRIPTS)) {
    const source = readFileSync(new URL(`../../src/infra/redis/lua/${file}.lua`, import.meta.url), 'utf8');
    redis.defineCommand(`clocked${name}`, { lua: PRELUDE + source, numberOfKeys: 2 });
  }
  const commands = redis as unknown as Record<string, (...args: Argument[]) => Promise<never>>;

  /** A client with a clock of its own, in microseconds; it knows `rotate`, `checkAccess` and `put`. */
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
      checkAccess: call('checkAccess'),
      put: call('put'),
    };
    return clocked as unknown as ScriptedRedis;
  };
}

/** Half of what a request has been inside it was on its way to Redis, which has to find that itself. */
function onItsWay(args: Argument[], now: number): Argument[] {
  const [elapsed, sentAt] = [3, 8];
  const way = Math.floor(Number(args[elapsed]) / 2);
  // One that comes from the future is no younger for that.
  return args.with(elapsed, Number(args[elapsed]) - way).with(sentAt, way > 0 ? now - way : now + 1_000_000);
}
