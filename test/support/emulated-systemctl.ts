import { spawn, spawnSync, type SpawnOptions } from 'node:child_process';
import { mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive } from './free-port.ts';
import { readUnit } from './systemd-unit.ts';

// `systemctl` for tests: FOLDER COMMAND [OPTION...] UNIT... It starts and stops units below FOLDER as systemd documents:
// the command, its folder, its variables and no others, and the time to stop. Hardening, restarts and the clock of timers
// are left out.

const [folder = '', command = '', ...rest] = process.argv.slice(2);
const words = JSON.parse(readFileSync(join(folder, 'words.json'), 'utf8')) as [string, string][];
const units = rest.filter((arg) => !arg.startsWith('--'));
const actions: Record<string, (unit: string) => Promise<void> | void> = {
  enable: start,
  start,
  stop,
  restart: async (unit) => {
    await stop(unit);
    start(unit);
  },
  'is-active': (unit) => {
    if (!isAlive(pidOf(unit))) process.exitCode = 3;
  },
};

if (command !== 'daemon-reload') {
  const act = actions[command];
  if (!act) throw new Error(`the emulated systemctl has no ${command}`);
  for (const unit of units) await act(unit);
}

function start(unit: string): void {
  const { one, all } = settingsOf(unit);
  if (unit.endsWith('.timer')) {
    one('OnCalendar');
    settingsOf(unit.replace('.timer', '.service'));
    return;
  }
  const variables = all('Environment').flatMap((value) => value.split(' '));
  const files = all('EnvironmentFile').flatMap((path) => readFileSync(path, 'utf8').trim().split('\n'));
  const env = Object.fromEntries(
    [...variables, ...files].map((line) => {
      const at = line.indexOf('=');
      return [line.slice(0, at), line.slice(at + 1).replace(/^'(.*)'$/, '$1')];
    }),
  );
  const [program, ...args] = one('ExecStart').split(' ');
  if (program !== 'node') throw new Error(`${unit} starts ${program ?? 'nothing'}`);
  mkdirSync(join(folder, 'run'), { recursive: true });
  const log = openSync(join(folder, 'run', `${unit}.log`), 'a');
  const options: SpawnOptions = {
    cwd: one('WorkingDirectory'),
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', log, log],
  };
  if (all('Type').includes('oneshot')) {
    process.exitCode = spawnSync(process.execPath, args, options).status ?? 1;
    return;
  }
  const child = spawn(process.execPath, args, { ...options, detached: true });
  child.unref();
  writeFileSync(pidFile(unit), String(child.pid));
}

async function stop(unit: string): Promise<void> {
  const pid = pidOf(unit);
  if (pid === undefined || !isAlive(pid)) return;
  const deadline = performance.now() + Number(settingsOf(unit).one('TimeoutStopSec')) * 1000;
  process.kill(pid, 'SIGTERM');
  while (isAlive(pid)) {
    if (performance.now() > deadline) {
      process.kill(pid, 'SIGKILL');
      throw new Error(`${unit} did not stop in time`);
    }
    await sleep(50);
  }
}

/** The unit's settings, with its instance and the words that differ in the test. */
function settingsOf(unit: string) {
  const [name = '', instance] = unit.split('@');
  const file = instance === undefined ? name : `${name}@.service`;
  const text = readFileSync(join(folder, 'etc/systemd/system', file), 'utf8');
  return readUnit(
    words.reduce(
      (adapted, [word, here]) => adapted.replaceAll(word, here),
      text.replaceAll('%i', instance ?? ''),
    ),
  );
}

function pidFile(unit: string): string {
  return join(folder, 'run', `${unit}.pid`);
}

function pidOf(unit: string): number | undefined {
  try {
    return Number(readFileSync(pidFile(unit), 'utf8'));
  } catch {
    return undefined;
  }
}
