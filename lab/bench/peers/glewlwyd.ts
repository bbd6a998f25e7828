import { spawn, spawnSync } from 'node:child_process';
import { closeSync, openSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../../test/support/free-port.ts';
import { scratchDatabase, withClient } from '../../../test/support/postgres.ts';
import { basic } from '../../../test/support/registered-service.ts';
import { CONNECTIONS } from '../operations.ts';
import { stopperOf } from '../../../test/support/measured-server.ts';
import type { World } from '../world.ts';
import { processCpuSeconds } from './cpu-time.ts';
import { CLIENT, makeTokens } from './glewlwyd-tokens.ts';
import type { BenchedServer } from './servers.ts';
import { introspecting, rotating } from './workloads.ts';

export const GLEWLWYD = 'Glewlwyd';

/** Debian's package. */
const PROGRAM = 'glewlwyd';
const CONFIG = '/etc/glewlwyd/glewlwyd.conf';
const SCHEMA = '/usr/share/dbconfig-common/data/glewlwyd/install';
const START_TIMEOUT = 20_000;

/** Why Glewlwyd cannot run here, or null. */
export function glewlwydMissing(): string | null {
  return versionOf() === null ? 'Glewlwyd is not installed (apt-get install glewlwyd)' : null;
}

function versionOf(): string | null {
  const { status, stdout } = spawnSync(PROGRAM, ['--version'], { encoding: 'utf8' });
  return status === 0 ? stdout.trim() : null;
}

/** Starts Glewlwyd with Debian's configuration and a PostgreSQL database of its own. */
export async function startGlewlwyd({ env, folder }: World): Promise<BenchedServer> {
  const database = await scratchDatabase(env.DATABASE_URL ?? '');
  try {
    await withClient(database.url, async (client) => {
      await client.query('CREATE EXTENSION pgcrypto');
      for (const file of ['pgsql', 'postgre.default.sql'])
        await client.query(readFileSync(`${SCHEMA}/${file}`, 'utf8'));
    });
    const port = await freePort();
    const url = `http://127.0.0.1:${port}`;
    const config = `${folder}/glewlwyd.conf`;
    const logFile = `${folder}/glewlwyd.log`;
    writeFileSync(
      config,
      configWith(readFileSync(CONFIG, 'utf8'), { port, logFile, database: database.url }),
    );
    const child = await startProgram(config, url, logFile);
    const stop = async () => {
      await child.stop();
      await database.drop();
    };
    try {
      const { access, refresh } = await makeTokens(url, CONNECTIONS);
      const emptyLog = () => {
        truncateSync(logFile);
      };
      return {
        name: GLEWLWYD,
        version: versionOf() ?? '',
        url,
        stop,
        emptyLog,
        redisPrefix: null,
        databaseUrl: database.url,
        cpuSeconds: () => processCpuSeconds(child.pid),
        offers: {
          introspection: {
            request: 'POST /api/oidc/introspect',
            signatures: 'none: found by the hash',
            expected: '"active":true',
            workload: introspecting('/api/oidc/introspect', basic(CLIENT), access),
          },
          refresh: {
            request: 'POST /api/oidc/token',
            signatures: '1 ES256 made',
            expected: '"refresh_token":',
            workload: rotating('/api/oidc/token', basic(CLIENT), refresh),
          },
        },
      };
    } catch (error) {
      await child.stop();
      throw error;
    }
  } catch (error) {
    await database.drop();
    throw error;
  }
}

/** Debian's configuration with our own port, log and database. @throws Error if it lacks one of these settings. */
export function configWith(
  debian: string,
  { port, logFile, database }: { port: number; logFile: string; database: string },
): string {
  const changes: [RegExp, string][] = [
    [/^port=.*$/m, `port=${port}\nbind_address="127.0.0.1"`],
    [/^external_url=.*$/m, `external_url="http://127.0.0.1:${port}/"`],
    [/^log_level=.*$/m, 'log_level="ERROR"'],
    [/^log_file=.*$/m, `log_file="${logFile}"`],
    [
      /^@include ".*glewlwyd-db\.conf"$/m,
      `database =\n{\n  type = "postgre"\n  conninfo = "${database}"\n};`,
    ],
  ];
  return changes.reduce((config, [setting, value]) => {
    if (!setting.test(config)) throw new Error(`${CONFIG} has no ${setting.source}`);
    return config.replace(setting, () => value);
  }, debian);
}

async function startProgram(
  config: string,
  url: string,
  logFile: string,
): Promise<{ pid: number; stop: () => Promise<void> }> {
  const log = openSync(logFile, 'a');
  const child = spawn(PROGRAM, [`--config-file=${config}`], { stdio: ['ignore', log, log] });
  closeSync(log);
  const stop = stopperOf(child);
  const deadline = performance.now() + START_TIMEOUT;
  while (!(await answers(url))) {
    const hasEnded = child.exitCode !== null || child.signalCode !== null;
    if (hasEnded || performance.now() > deadline) {
      await stop();
      throw new Error(`Glewlwyd does not serve:\n${readFileSync(logFile, 'utf8')}`);
    }
    await sleep(100);
  }
  return { pid: child.pid ?? 0, stop };
}

async function answers(url: string): Promise<boolean> {
  return fetch(url).then(
    () => true,
    () => false,
  );
}
