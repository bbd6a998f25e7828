import { readFileSync } from 'node:fs';
import type { Cluster, Redis } from 'ioredis';

/** Every script by name, and its number of keys; undefined if the caller passes the number. */
const SCRIPTS = {
  rotate: undefined,
  check: undefined,
  preparePut: 1,
  put: 2,
  putUser: undefined,
  revoke: undefined,
  lastUses: undefined,
  clock: 1,
  feed: 3,
  reserve: 1,
  release: 1,
  setMark: 1,
  lease: 1,
} as const;

export type ScriptName = keyof typeof SCRIPTS;
export type Argument = string | number;

/** The reply of feed.lua. */
export type FeedReply = [
  epoch: string,
  last: string,
  added: number,
  isThere: number,
  entries: [id: string, [kind: string, text: string]][],
  asked: number,
  served: number,
];

/** The reply of lease.lua. */
export type LeaseReply = [replica: string, moves: string, server: string, full: string, id: string];

/** Our scripts as commands. The header of each file in `lua/` documents input and output. */
export interface Scripts {
  rotate(...args: Argument[]): Promise<string[]>;
  check(...args: Argument[]): Promise<string[]>;
  preparePut(...args: Argument[]): Promise<string>;
  put(...args: Argument[]): Promise<number>;
  putUser(...args: Argument[]): Promise<unknown>;
  revoke(...args: Argument[]): Promise<unknown>;
  lastUses(...args: Argument[]): Promise<[string | null, string | null][]>;
  clock(...args: Argument[]): Promise<[string, string]>;
  feed(...args: Argument[]): Promise<FeedReply>;
  reserve(...args: Argument[]): Promise<[taken: 1, earlier: number] | [taken: 0, freeIn: number]>;
  release(...args: Argument[]): Promise<unknown>;
  setMark(...args: Argument[]): Promise<number>;
  lease(...args: Argument[]): Promise<LeaseReply>;
}

export type ScriptedRedis = Redis & Scripts;
export type ScriptedCluster = Cluster & Scripts;

/** Defines the scripts on a client. ioredis sends EVALSHA, and EVAL if the server does not know the script. */
export function defineScripts<Client extends Redis | Cluster>(client: Client): Client & Scripts {
  for (const [name, numberOfKeys] of Object.entries(SCRIPTS) as [ScriptName, number | undefined][]) {
    client.defineCommand(name, { lua: source(name), ...(numberOfKeys !== undefined && { numberOfKeys }) });
  }
  return client as Client & Scripts;
}

/** A script as it is sent to Redis: the file, and the pieces that its head includes before or after it. */
export function source(name: ScriptName): string {
  const script = read(name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`));
  const included = (place: string) =>
    [...script.matchAll(new RegExp(`^ {4}${place}: ([\\w-]+)\\.lua`, 'gm'))].map(([, piece = '']) =>
      read(piece),
    );
  return [...included('before'), script, ...included('after')].join('');
}

function read(file: string): string {
  return readFileSync(new URL(`../lua/${file}.lua`, import.meta.url), 'utf8');
}
