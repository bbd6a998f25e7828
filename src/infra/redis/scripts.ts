import { readFileSync } from 'node:fs';
import type { Cluster, Redis } from 'ioredis';

/** Every script by name, and how many keys it takes; undefined where the caller says. */
const SCRIPTS = {
  rotate: 2,
  checkAccess: 2,
  checkLongLived: 2,
  put: 2,
  revoke: 1,
  lastUses: undefined,
  clock: 1,
  feed: 3,
} as const;

type ScriptName = keyof typeof SCRIPTS;
type Argument = string | number;

/** Our scripts as commands; their contracts stand at the top of each file in `lua/`. */
export interface Scripts {
  rotate(...args: Argument[]): Promise<string[]>;
  checkAccess(...args: Argument[]): Promise<string[]>;
  checkLongLived(...args: Argument[]): Promise<string[]>;
  put(...args: Argument[]): Promise<number>;
  revoke(...args: Argument[]): Promise<unknown>;
  lastUses(...args: Argument[]): Promise<[string | null, string | null][]>;
  clock(...args: Argument[]): Promise<[string, string]>;
  feed(...args: Argument[]): Promise<[string, string, number, number, [string, [string, string]][]]>;
}

export type ScriptedRedis = Redis & Scripts;
export type ScriptedCluster = Cluster & Scripts;

/** Defines the scripts on a client: sent as EVALSHA, and once whole where the server does not know them yet. */
export function defineScripts<Client extends Redis | Cluster>(client: Client): Client & Scripts {
  for (const [name, numberOfKeys] of Object.entries(SCRIPTS) as [ScriptName, number | undefined][]) {
    client.defineCommand(name, { lua: source(name), ...(numberOfKeys !== undefined && { numberOfKeys }) });
  }
  return client as Client & Scripts;
}

function source(name: ScriptName): string {
  const file = name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
  return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), 'utf8');
}
