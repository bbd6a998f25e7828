import { spawn, type ChildProcess } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync, truncateSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

/** A server under measurement: its own process, with its log in a file as in a container. */
export interface ServerProcess {
  url: string;
  /** Tokens of sessions that only this server knows; null for the service. */
  tokens: BareTokens | null;
  /** CPU time used so far, in seconds; 0 if the system does not report it (only Linux does). */
  cpuSeconds(): number;
  /** Anonymous memory in bytes: heap, buffers and hashes, without mapped files; 0 if the system does not report it. */
  anonymousMemory(): number;
  /** All memory of the process in bytes, with mapped files. */
  residentMemory(): number;
  /** Truncates the log: minutes of load fill a disk. */
  emptyLog(): void;
  stop(): Promise<void>;
}

/** Each session's access token and refresh token. */
export interface BareTokens {
  access: string[];
  refresh: string[];
}

interface ServerOptions {
  script: string;
  args?: readonly string[];
  nodeOptions: readonly string[];
  env: NodeJS.ProcessEnv;
  logFile: string;
}

const START_TIMEOUT = 60_000;

/** Of the usual container: its memory is what the configuration check demands (src/config/config.ts). */
const USUAL_MEMORY = 768 * 1024 ** 2;

/** The options of Node in the image. */
const IMAGE_OPTIONS = (
  JSON.parse(
    /^CMD (\[.*\])$/m.exec(readFileSync(new URL('../../../Dockerfile', import.meta.url), 'utf8'))?.[1] ??
      '[]',
  ) as string[]
).filter((word) => word.startsWith('--'));

/**
 * The limits that V8 has in a container with this memory, of which it takes half for the old generation
 * (HeapSizeFromPhysicalMemory in its heap.cc). By the memory of this machine, it would collect garbage less often.
 */
export function limitsOfV8(memory = USUAL_MEMORY): string[] {
  return [...IMAGE_OPTIONS, `--max-old-space-size=${Math.floor(memory / 2 / 1024 ** 2)}`];
}

/** Starts the service or a bare server (floor.ts) as in the usual container, and waits until it says where it serves. */
export async function startServer({
  script,
  args = [],
  nodeOptions,
  env,
  logFile,
}: ServerOptions): Promise<ServerProcess> {
  const log = openSync(logFile, 'a');
  const child = spawn(process.execPath, [...limitsOfV8(), ...nodeOptions, script, ...args], {
    env,
    stdio: ['ignore', log, 'inherit'],
  });
  closeSync(log);
  const stop = stopperOf(child);
  try {
    const { url, tokens } = await servingAt(
      logFile,
      () => child.exitCode !== null || child.signalCode !== null,
    );
    const cpuSeconds = () => cpuSecondsOf(child.pid ?? 0);
    const anonymousMemory = () => memoryOf(child.pid ?? 0, 'RssAnon');
    const residentMemory = () => memoryOf(child.pid ?? 0, 'VmRSS');
    const emptyLog = () => {
      truncateSync(logFile);
    };
    return { url, tokens, cpuSeconds, anonymousMemory, residentMemory, emptyLog, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Call it directly after the spawn. @returns a function that ends the process, and resolves once it has ended. */
export function stopperOf(child: ChildProcess): () => Promise<void> {
  const ended = new Promise<void>((resolve) =>
    child.once('exit', () => {
      resolve();
    }),
  );
  return async () => {
    child.kill('SIGTERM');
    await ended;
  };
}

async function servingAt(
  logFile: string,
  hasEnded: () => boolean,
): Promise<Pick<ServerProcess, 'url' | 'tokens'>> {
  const deadline = performance.now() + START_TIMEOUT;
  while (performance.now() < deadline && !hasEnded()) {
    const lines = readFileSync(logFile, 'utf8').split('\n');
    // The last one may be incomplete.
    const serving = lines.slice(0, -1).map(servingLine).find(Boolean);
    if (serving) return serving;
    await sleep(50);
  }
  throw new Error(`the server does not serve:\n${readFileSync(logFile, 'utf8')}`);
}

/** What a line says of where the server serves; null for any other line. */
function servingLine(line: string): Pick<ServerProcess, 'url' | 'tokens'> | null {
  if (!line.startsWith('{')) return null;
  const { msg, url, access, refresh } = JSON.parse(line) as Partial<BareTokens> & {
    msg?: string;
    url?: string;
  };
  if (url === undefined) return null;
  if (access && refresh) return { url, tokens: { access, refresh } };
  return msg === 'serving' ? { url, tokens: null } : null;
}

/** The CPU time of all threads, and of the processes that they started: finer than the clock ticks of `stat`. */
export function cpuSecondsOf(pid: number): number {
  try {
    const seconds = readdirSync(`/proc/${pid}/task`).map((thread) => {
      const read = (name: string) => readFileSync(`/proc/${pid}/task/${thread}/${name}`, 'latin1').split(' ');
      const children = read('children').filter((child) => child !== '');
      const own = Number(read('schedstat')[0]) / 1e9;
      return children.reduce((sum, child) => sum + cpuSecondsOf(Number(child)), own);
    });
    return seconds.reduce((sum, each) => sum + each, 0);
  } catch {
    return 0;
  }
}

function memoryOf(pid: number, field: 'RssAnon' | 'VmRSS'): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}
