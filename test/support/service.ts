import { spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { bareEnvironment } from './environment.ts';
import { testDatabase } from './postgres.ts';
import type { Environment } from '../../src/config/config.ts';
import { leakWatch } from './leaks/leak-watch.ts';
import { rememberConfiguration, scrape, spansTo } from './leaks/watched-instance.ts';
import { until } from './until.ts';

const SERVER = new URL('../../src/server.js', import.meta.url).pathname;
const END_WITH_PARENT = new URL('end-with-parent.js', import.meta.url).href;

/** The number of characters kept of a log. */
const MAX_OUTPUT = 1_000_000;

/** By the name of the database. */
const folders = new Map<string, string>();

process.on('exit', () => {
  for (const folder of folders.values()) rmSync(folder, { recursive: true, force: true });
});

/**
 * A DATA_DIR, which all replicas of one database share, also one after the other: they have to have the same keys.
 * @param databaseUrl undefined for the embedded database, which has a folder of its own.
 */
function dataDirOf(t: Test, databaseUrl: string | undefined): string {
  const make = () => mkdtempSync(join(tmpdir(), 'latchkey-test-'));
  if (databaseUrl === undefined) {
    const folder = make();
    t.teardown(() => {
      rmSync(folder, { recursive: true, force: true });
    });
    return folder;
  }
  // The way there may lead through a proxy.
  const name = new URL(databaseUrl).pathname;
  const folder = folders.get(name) ?? make();
  folders.set(name, folder);
  return folder;
}

export interface Service {
  url: string;
  opsUrl: string;
  process: ChildProcess;
  /** The last megabyte of standard output and error. */
  log(): string;
  /** Ends it by a signal and waits. @returns its exit code; null if the signal killed it. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Starts a process that passes SIGTERM on to the service. */
export type Launch = (env: Environment) => ChildProcessWithoutNullStreams;

/** A built server.js in Node. It ends with the test, even if the test is killed. */
export function launchOf(server: string): Launch {
  return (env) =>
    spawn(process.execPath, ['--import', END_WITH_PARENT, server], { env: bareEnvironment(env) });
}

/** The built service as a separate process on free ports. */
export async function startService(
  t: Test,
  env: Environment = {},
  launch = launchOf(SERVER),
): Promise<Service> {
  const dataDir = dataDirOf(t, env.DATABASE_URL);
  const watched = leakWatch.watch(`an instance of "${t.name}"`);
  const child = launch({
    PORT: '0',
    OPS_PORT: '0',
    DATA_DIR: dataDir,
    SCRYPT_LOG_N: '4',
    RATE_LIMIT_LOGIN: '0',
    RATE_LIMIT_SIGNUP: '0',
    RATE_LIMIT_SIGNUP_NETWORK: '0',
    RATE_LIMIT_LLT: '0',
    RATE_LIMIT_LLT_NETWORK: '0',
    RATE_LIMIT_PROFILE: '0',
    SHED_LAG: '0',
    DRAIN_DELAY: '0',
    LOG_REQUESTS: 'all',
    ...(await spansTo(t, watched)),
    ...env,
  });
  let output = '';
  let opsUrl = '';
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const closed = new Promise((resolve) => child.once('close', resolve));
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) {
      await scrape(watched, opsUrl);
      child.kill(signal);
    }
    return exited;
  };
  t.teardown(async () => {
    await stop();
    await closed;
    rememberConfiguration(env, env.DATA_DIR ?? dataDir);
    watched.check();
  });

  const serving = await new Promise<{ url: string; ops: string }>((resolve, reject) => {
    let isServing = false;
    const read = (chunk: Buffer) => {
      watched.heard('log', chunk);
      output += chunk.toString();
      // Keeps only the end: minutes of load log too much to keep.
      if (output.length > 2 * MAX_OUTPUT) output = output.slice(-MAX_OUTPUT);
      if (isServing) return;
      const line = output.split('\n').find((text) => text.includes('"msg":"serving"') && text.endsWith('}'));
      if (line) resolve(JSON.parse(line) as { url: string; ops: string });
      isServing = line !== undefined;
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    void exited.then((code) => {
      reject(new Error(`the service ended (${code}) before it served:\n${output}`));
    });
  });
  opsUrl = serving.ops;
  watched.listensOn(serving.url);
  rememberConfiguration(env, env.DATA_DIR ?? dataDir);
  return { url: serving.url, opsUrl, process: child, log: () => output, stop };
}

/** Resolves once the service reports ready. */
export async function ready({ opsUrl }: Service): Promise<void> {
  await until(async () => (await fetch(`${opsUrl}/health/ready`)).status === 200);
}

/** The built service, once it is ready; on a new database unless `env` names one. */
export async function readyService(t: Test, env: Environment = {}, launch?: Launch): Promise<Service> {
  const { DATABASE_URL = (await testDatabase(t)).url, ...others } = env;
  const service = await startService(t, { DATABASE_URL, ...others }, launch);
  await ready(service);
  return service;
}

/** A start that must fail. @returns its output and exit code. */
export async function failedStart(
  t: Test,
  env: Environment,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const dataDir = mkdtempSync(join(tmpdir(), 'latchkey-e2e-'));
  const child = spawn(process.execPath, [SERVER], {
    env: bareEnvironment({ PORT: '0', OPS_PORT: '0', DATA_DIR: dataDir, SCRYPT_LOG_N: '4', ...env }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(() => {
    if (child.exitCode === null) child.kill('SIGKILL');
    rmSync(dataDir, { recursive: true, force: true });
  });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  rememberConfiguration(env, dataDir);
  const watched = leakWatch.watch(`a failed start of "${t.name}"`);
  watched.heard('log', stdout + stderr);
  watched.check();
  return { code, stdout, stderr };
}
