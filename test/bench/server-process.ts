import { spawn } from 'node:child_process';
import { closeSync, openSync, readFileSync, truncateSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A server under measurement: its own process, with its log in a file as in a container. */
export interface ServerProcess {
  url: string;
  /** CPU time used so far, in seconds; 0 if the system does not report it (only Linux does). */
  cpuSeconds(): number;
  /** Anonymous memory in bytes: heap, buffers and hashes, without mapped files; 0 if the system does not report it. */
  anonymousMemory(): number;
  /** Truncates the log: minutes of load fill a disk. */
  emptyLog(): void;
  stop(): Promise<void>;
}

interface ServerOptions {
  script: string;
  nodeOptions: readonly string[];
  env: NodeJS.ProcessEnv;
  logFile: string;
}

const START_TIMEOUT = 60_000;

/** Clock ticks a second in /proc (USER_HZ, 100 on every Linux that Node supports). */
const TICKS = 100;

/** Starts a server and waits until it says `serving`. */
export async function startServer({
  script,
  nodeOptions,
  env,
  logFile,
}: ServerOptions): Promise<ServerProcess> {
  const log = openSync(logFile, 'a');
  const child = spawn(process.execPath, [...nodeOptions, script], { env, stdio: ['ignore', log, 'inherit'] });
  closeSync(log);
  const ended = new Promise<void>((resolve) =>
    child.once('exit', () => {
      resolve();
    }),
  );
  const stop = async () => {
    child.kill('SIGTERM');
    await ended;
  };
  try {
    const url = await servingAt(logFile, () => child.exitCode !== null || child.signalCode !== null);
    const cpuSeconds = () => cpuSecondsOf(child.pid ?? 0);
    const anonymousMemory = () => anonymousMemoryOf(child.pid ?? 0);
    const emptyLog = () => {
      truncateSync(logFile);
    };
    return { url, cpuSeconds, anonymousMemory, emptyLog, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function servingAt(logFile: string, hasEnded: () => boolean): Promise<string> {
  const deadline = performance.now() + START_TIMEOUT;
  while (performance.now() < deadline && !hasEnded()) {
    const lines = readFileSync(logFile, 'utf8').split('\n');
    const line = lines.find((text) => text.includes('"msg":"serving"') && text.endsWith('}'));
    if (line) return (JSON.parse(line) as { url: string }).url;
    await sleep(50);
  }
  throw new Error(`the server does not serve:\n${readFileSync(logFile, 'utf8')}`);
}

function cpuSecondsOf(pid: number): number {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
      .replace(/^.*\) /s, '')
      .split(' ');
    return (Number(fields[11]) + Number(fields[12])) / TICKS;
  } catch {
    return 0;
  }
}

function anonymousMemoryOf(pid: number): number {
  try {
    const kib = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    return Number(kib ?? 0) * 1024;
  } catch {
    return 0;
  }
}
