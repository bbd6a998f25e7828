import { spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { until } from './until.ts';
import type { Environment } from '../../src/config.ts';

const SERVER = new URL('../../src/server.js', import.meta.url).pathname;

/** Characters of a log that are kept. */
const MAX_OUTPUT = 1_000_000;

export interface Service {
  url: string;
  opsUrl: string;
  process: ChildProcess;
  /** What was written to standard output and error, the last megabyte of it. */
  log(): string;
  /** Ends it by a signal and waits. @returns its exit code; null when the signal ended it. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** Only what a process needs, so that nothing of the tester's own environment is tested. */
export function bareEnvironment(env: Environment): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR } = process.env;
  return { PATH, HOME, ...(TMPDIR && { TMPDIR }), ...env };
}

/**
 * The built service as a process of its own, on free ports; ended when the test ends.
 * @param server the built server.js: this version's, or an earlier one's.
 */
export async function startService(t: Test, env: Environment = {}, server = SERVER): Promise<Service> {
  const dataDir = mkdtempSync(join(tmpdir(), 'latchkey-e2e-'));
  const child = spawn(process.execPath, [server], {
    env: bareEnvironment({
      PORT: '0',
      OPS_PORT: '0',
      DATA_DIR: dataDir,
      SCRYPT_LOG_N: '4',
      RATE_LIMIT_LOGIN: '0',
      RATE_LIMIT_SIGNUP: '0',
      SHED_LAG: '0',
      DRAIN_DELAY: '0',
      ...env,
    }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  const exited = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return exited;
  };
  t.teardown(async () => {
    await stop();
    rmSync(dataDir, { recursive: true, force: true });
  });

  const serving = await new Promise<{ url: string; ops: string }>((resolve, reject) => {
    let isServing = false;
    const read = (chunk: Buffer) => {
      output += chunk.toString();
      // Minutes of load log more than anybody reads.
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
  return { url: serving.url, opsUrl: serving.ops, process: child, log: () => output, stop };
}

/** Resolves once the service says that it is ready. */
export async function ready({ opsUrl }: Service): Promise<void> {
  await until(async () => (await fetch(`${opsUrl}/health/ready`)).status === 200);
}

/** A start that is meant to fail. @returns what it said and its exit code. */
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
  return { code, stdout, stderr };
}
