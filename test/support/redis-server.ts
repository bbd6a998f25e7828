import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomInt } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Redis, type RedisOptions } from 'ioredis';
import type { Test } from 'tap';
import { toolsMissing } from './tools.ts';
import { until } from './until.ts';

/** Why the suites that start Redis servers cannot run here; false where they can. */
export const redisServersMissing = toolsMissing('bash', 'openssl', 'redis-server', 'redis-sentinel');

/** A Redis (or Sentinel) process of the test's own; it ends with the test, and also when the test is killed. */
export interface RedisServer {
  url: string;
  port: number;
  /** Where it keeps its snapshot (dump.rdb) and log. */
  folder: string;
  /** One command on a connection of its own. */
  ask(...command: (string | number)[]): Promise<unknown>;
  /** The same as an ACL user that needs no password. */
  askAs(username: string, ...command: (string | number)[]): Promise<unknown>;
  /** A field of INFO. */
  info(field: string): Promise<string | undefined>;
  /** Ends it by SIGKILL, as when its machine fails. */
  kill(): Promise<void>;
  /** Stops the process without ending it: it hangs, and its connections stay. */
  hang(): void;
  /** Lets a hung one go on. */
  goOn(): void;
  /** Starts it again at the same address after `kill`, from its last snapshot, with these arguments on top. */
  start(...args: string[]): Promise<void>;
}

export interface ServerOptions {
  /** Arguments as of redis-server; `{port}` and `{folder}` are filled in. */
  args?: string[];
  program?: 'redis-server' | 'redis-sentinel';
  env?: Record<string, string>;
  /** One that is free, by default. */
  port?: number;
  /** Writes files that the arguments name into the folder, before the start. */
  prepare?: (folder: string) => void;
  /** How the test itself connects. */
  client?: RedisOptions;
}

/** Writes no snapshot unless told to, and lets a test use DEBUG. */
const QUIET = ['--save', '', '--appendonly', 'no', '--enable-debug-command', 'yes'];

const ASKING: RedisOptions = {
  host: '127.0.0.1',
  lazyConnect: true,
  enableReadyCheck: false,
  connectTimeout: 5000,
  commandTimeout: 5000,
  retryStrategy: () => null,
};

/** Ends what it started when its standard input closes, which it does however the test ends. */
const GUARD = '"$@" & echo $!; cat >/dev/null; exec 2>/dev/null; kill -9 %1; wait';

/** Starts a Redis on a free port in a temporary folder, and waits until it answers. */
export async function startRedis(t: Test, options: ServerOptions = {}): Promise<RedisServer> {
  const { args = [], program = 'redis-server', env = {}, client = {}, prepare } = options;
  const { port = await freePort() } = options;
  const folder = mkdtempSync(join(tmpdir(), 'lk-redis-'));
  prepare?.(folder);
  const fill = (text: string) => text.replaceAll('{port}', String(port)).replaceAll('{folder}', folder);
  const own = ['--port', '{port}', '--bind', '127.0.0.1', '--dir', '{folder}', '--logfile', '{folder}/log'];
  let pid = 0;
  let release = () => Promise.resolve();

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

  const start = async (...more: string[]) => {
    const quiet = program === 'redis-server' ? QUIET : [];
    const config = program === 'redis-sentinel' ? ['{folder}/sentinel.conf'] : [];
    const command = [program, ...config, ...own, ...quiet, ...args, ...more].map(fill);
    const guard = spawn('bash', ['-c', GUARD, 'guard', ...command], {
      stdio: ['pipe', 'pipe', 'inherit'],
      env: { ...process.env, ...env },
    });
    const ended = once(guard, 'exit');
    release = async () => {
      guard.stdin.end();
      await ended;
    };
    const [line] = (await once(createInterface({ input: guard.stdout }), 'line')) as [string];
    pid = Number(line);
    // Somebody else's server might answer at this port: it has to be ours.
    await until(async () => {
      if (!isAlive(pid)) throw new Error(`${program} ended:\n${readFileSync(join(folder, 'log'), 'utf8')}`);
      return (await info('process_id').catch(() => '')) === String(pid);
    });
  };
  t.teardown(async () => {
    await release();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  await start();

  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    folder,
    ask,
    askAs,
    info,
    start,
    hang: () => void process.kill(pid, 'SIGSTOP'),
    goOn: () => void process.kill(pid, 'SIGCONT'),
    kill: () => release(),
  };
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** A port that nobody listens on, below those that the system gives to outgoing connections. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(15_000, 32_000);
    const server = net.createServer();
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => {
        resolve(false);
      });
      server.listen(port, '127.0.0.1', () => {
        server.close(() => {
          resolve(true);
        });
      });
    });
    if (isFree) return port;
  }
}

/** What has to be there. */
export function existing<Item>(item: Item | undefined): Item {
  if (item === undefined) throw new Error('no such server');
  return item;
}
