import { chmodSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { testFolder } from './folder.ts';
import { freePort, isAlive } from './free-port.ts';
import { until } from './until.ts';

const SYSTEMCTL = fileURLToPath(new URL('./emulated-systemctl.js', import.meta.url));
const FOLDERS = ['/etc/latchkey', '/etc/nginx', '/etc/systemd/system', '/opt/latchkey', '/var/lib/latchkey'];

/** The host of docs/installing.md: its folders below one of the test, and an emulated systemd. */
export interface EmulatedHost {
  /** The path here of one on the host. */
  path(path: string): string;
  /** What the documents' commands and the unit say, and what it is here. */
  words: Readonly<Record<string, string>>;
  /** What the test adds to service.env: ports that are free. */
  settings: string;
  /** The address of a replica. */
  urlOf(replica: 1 | 2): string;
  opsPort: string;
}

/** The units that it has started end with the test. */
export async function emulatedHost(t: Test): Promise<EmulatedHost> {
  const folder = testFolder(t);
  chmodSync(folder, 0o755);
  const [port, opsPort] = [String(await freePort()), String(await freePort())];
  for (const name of FOLDERS) mkdirSync(join(folder, name), { recursive: true });
  const unitWords = FOLDERS.map((name) => [name, join(folder, name)] as const);
  writeFileSync(join(folder, 'words.json'), JSON.stringify(unitWords));
  t.teardown(() => endUnits(join(folder, 'run')));
  return {
    path: (path) => join(folder, path),
    words: {
      ...Object.fromEntries(unitWords),
      ':3000': `:${port}`,
      ':9464': `:${opsPort}`,
      'systemctl ': `${process.execPath} ${SYSTEMCTL} ${folder} `,
      // There is no user latchkey here.
      'runuser -u latchkey -- ': '',
      'chown -R latchkey:': ':',
      'install -d -o latchkey -g latchkey': 'install -d',
    },
    settings: `PORT=${port}\nOPS_PORT=${opsPort}`,
    urlOf: (replica) => `http://127.0.0.${replica}:${port}`,
    opsPort,
  };
}

async function endUnits(folder: string): Promise<void> {
  const pids = readdirSync(folder)
    .filter((name) => name.endsWith('.pid'))
    .map((name) => Number(readFileSync(join(folder, name), 'utf8')));
  for (const pid of pids.filter(isAlive)) process.kill(pid, 'SIGTERM');
  await until(() => !pids.some(isAlive));
}
