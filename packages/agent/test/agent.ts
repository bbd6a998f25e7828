import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Test } from 'tap';
import { bareEnvironment } from '../../../test/support/environment.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { until } from '../../../test/support/until.ts';

const MAIN = new URL('../src/main.js', import.meta.url).pathname;
const END_WITH_PARENT = new URL('../../../test/support/end-with-parent.js', import.meta.url).href;

export interface Agent {
  url: string;
  opsUrl: string;
  /** Its standard output and error so far. */
  log(): string;
  lines(): Record<string, unknown>[];
  /** Ends the reader of its standard output. */
  stopReading(): void;
  exited: Promise<number | null>;
  /** Sends the signal, and waits for nothing. */
  kill(signal: NodeJS.Signals): void;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** The agent as a process of its own, until the end of the test. @param main another build of it */
export async function startAgent(
  t: Test,
  env: Record<string, string | undefined>,
  main = MAIN,
): Promise<Agent> {
  const [listen, ops] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  const child = spawn(process.execPath, ['--import', END_WITH_PARENT, main], {
    env: bareEnvironment({ AGENT_LISTEN: listen, AGENT_OPS_LISTEN: ops, ...env }),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exited = once(child, 'close').then(([code]) => code as number | null);
  const stop = (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode === null) child.kill(signal);
    return exited;
  };
  t.teardown(() => stop());
  await until(() => output.includes('"msg":"serving"') || child.exitCode !== null);
  const lines = () =>
    output
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  return {
    url: `http://${listen}`,
    opsUrl: `http://${ops}`,
    log: () => output,
    lines,
    stopReading: () => child.stdout.destroy(),
    exited,
    kill: (signal) => void child.kill(signal),
    stop,
  };
}

export async function agentIsReady({ opsUrl }: Agent): Promise<void> {
  await until(() =>
    fetch(`${opsUrl}/health/ready`)
      .then(({ ok }) => ok)
      .catch(() => false),
  );
}
