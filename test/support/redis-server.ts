import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis, type RedisOptions } from 'ioredis';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';
import { freePort } from './free-port.ts';
import { startServerProcess, type ServerProcess } from './server-process.ts';
import { toolsMissing } from './tools.ts';
import { eventually } from './until.ts';

/** Why the suites that start Redis servers cannot run here, or false. */
export const redisServersMissing = toolsMissing('bash', 'openssl', 'redis-server', 'redis-sentinel');

/** A Redis (or Sentinel) process. It ends with the test, even if the test is killed. */
export interface RedisServer {
  url: string;
  port: number;
  /** The folder of its snapshot (dump.rdb) and log. */
  folder: string;
  /** Runs one command on a new connection. */
  ask(...command: (string | number)[]): Promise<unknown>;
  /** The same as an ACL user that needs no password. */
  askAs(username: string, ...command: (string | number)[]): Promise<unknown>;
  /** A field of INFO. */
  info(field: string): Promise<string | undefined>;
  /** Kills it by SIGKILL, like a machine failure. */
  kill(): Promise<void>;
  /** SIGSTOP: the process hangs, and its connections stay open. */
  hang(): void;
  /** Resumes a hung process. */
  goOn(): void;
  /** Restarts it after `kill` at the same address, from its last snapshot, with additional arguments. */
  start(...args: string[]): Promise<void>;
}

export interface ServerOptions {
  /** Arguments as of redis-server; `{port}` and `{folder}` are filled in. */
  args?: string[];
  program?: 'redis-server' | 'redis-sentinel';
  /** A command that runs the program, for example valgrind; `{folder}` is filled in. */
  under?: string[];
  env?: Record<string, string>;
  /** A free port by default. */
  port?: number;
  /** Writes files for the arguments into the folder before the start. */
  prepare?: (folder: string) => void;
  /** Connection options of the test itself. */
  client?: RedisOptions;
}

/** No automatic snapshots, and DEBUG is enabled. */
const QUIET = ['--save', '', '--appendonly', 'no', '--enable-debug-command', 'yes'];

const ASKING: RedisOptions = {
  host: '127.0.0.1',
  lazyConnect: true,
  enableReadyCheck: false,
  connectTimeout: 5000,
  commandTimeout: 5000,
  retryStrategy: () => null,
};

/** Starts a Redis on a free port in a temporary folder, and waits until it answers. */
export async function startRedis(t: Test, options: ServerOptions = {}): Promise<RedisServer> {
  const { args = [], program = 'redis-server', under = [], env = {}, client = {}, prepare } = options;
  const { port = await freePort() } = options;
  const folder = testFolder(t);
  prepare?.(folder);
  const fill = (text: string) => text.replaceAll('{port}', String(port)).replaceAll('{folder}', folder);
  const own = ['--port', '{port}', '--bind', '127.0.0.1', '--dir', '{folder}', '--logfile', '{folder}/log'];

  const askAs = async (username: string | undefined, ...[name, ...rest]: (string | number)[]) => {
    const as = username === undefined ? {} : { username, password: 'any' };
    const redis = new Redis(port, { ...ASKING, ...client, ...as } as RedisOptions & {
      replyMapping: 'legacy';
    });
    redis.on('error', () => undefined);
    try {
      await redis.connect();
      return await redis.call(String(name), ...rest);
    } finally {
      redis.disconnect();
    }
  };
  const ask: RedisServer['ask'] = (...command) => askAs(undefined, ...command);
  const info = async (field: string) =>
    new RegExp(`^${field}:(.*)\r$`, 'm').exec(String(await ask('INFO')))?.[1];

  const run = (...more: string[]) => {
    const quiet = program === 'redis-server' ? QUIET : [];
    const config = program === 'redis-sentinel' ? ['{folder}/sentinel.conf'] : [];
    const command = [...under, program, ...config, ...own, ...quiet, ...args, ...more].map(fill);
    return startServerProcess(t, command as [string, ...string[]], {
      env,
      signal: 'KILL',
      log: () => readFileSync(join(folder, 'log'), 'utf8'),
      // Another server may answer at this port: checks that it is ours.
      answers: async (pid) => (await info('process_id').catch(() => '')) === String(pid),
    });
  };
  let running: ServerProcess = await run();

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    folder,
    ask,
    askAs,
    info,
    async start(...more) {
      running = await run(...more);
    },
    hang: () => void process.kill(running.pid, 'SIGSTOP'),
    goOn: () => void process.kill(running.pid, 'SIGCONT'),
    kill: () => running.end(),
  };
}

/** @throws Error if there is no such server. */
export function existing<Item>(item: Item | undefined): Item {
  if (item === undefined) throw new Error('no such server');
  return item;
}

/** Resolves once all other servers follow a master: the next failover needs a replica to choose. */
export async function allFollow(servers: readonly RedisServer[], masters: number): Promise<void> {
  await eventually(60, async () => {
    const links = await Promise.all(
      servers.map((server) => server.info('master_link_status').catch(() => 'away')),
    );
    const following = links.filter((link) => link === 'up').length;
    return following === servers.length - masters ? null : `${following} of ${servers.length} servers follow`;
  });
}
