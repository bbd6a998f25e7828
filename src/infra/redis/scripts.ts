import { readFileSync } from 'node:fs';
import type { Redis } from 'ioredis';

/** Every script by name, and how many keys it takes; undefined where the caller says. */
const SCRIPTS = {
  rotate: 2,
  checkAccess: 2,
  checkLongLived: 2,
  put: 2,
  revoke: 1,
  lastUses: undefined,
} as const;

type ScriptName = keyof typeof SCRIPTS;
type Argument = string | number;

/** A client that knows our scripts as commands; their contracts stand at the top of each file in `lua/`. */
export type ScriptedRedis = Redis & {
  rotate(...args: Argument[]): Promise<string[]>;
  checkAccess(...args: Argument[]): Promise<string[]>;
  checkLongLived(...args: Argument[]): Promise<string[]>;
  put(...args: Argument[]): Promise<number>;
  revoke(...args: Argument[]): Promise<number>;
  lastUses(...args: Argument[]): Promise<[string | null, string | null][]>;
};

/** Defines the scripts on a client: sent as EVALSHA, and once whole where the server does not know them yet. */
export function defineScripts(redis: Redis): ScriptedRedis {
  for (const [name, numberOfKeys] of Object.entries(SCRIPTS) as [ScriptName, number | undefined][]) {
    redis.defineCommand(name, { lua: source(name), ...(numberOfKeys !== undefined && { numberOfKeys }) });
  }
  return redis as ScriptedRedis;
}

function source(name: ScriptName): string {
  const file = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), 'utf8');
}
