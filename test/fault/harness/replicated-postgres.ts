import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { migrate } from '../../../src/infra/postgres/migrate.ts';
import { ask } from '../../support/embedded.ts';
import { faultProxy, type Fault } from '../../support/fault-proxy.ts';
import { testFolder } from '../../support/folder.ts';
import { freePort } from '../../support/free-port.ts';
import { startHaproxy } from '../../support/haproxy.ts';
import type { ServerProcess } from '../../support/server-process.ts';
import {
  makeDataFolder,
  runPostgresProgram,
  startPostgresProcess,
  systemPostgresMissing,
} from '../../support/system-postgres.ts';
import { toolsMissing } from '../../support/tools.ts';
import { until } from '../../support/until.ts';

/** Why the suites that replicate PostgreSQL cannot run here, or false. */
export const replicationMissing = systemPostgresMissing || toolsMissing('haproxy');

/** A migrated primary with a streaming standby. HAProxy sends connections to the primary. They end with the test. */
export interface ReplicatedPostgres {
  /** The database through HAProxy. */
  url: string;
  /** The database on the primary, without HAProxy. Changes at each promotion. */
  primary(): string;
  /** One statement on the primary, as the superuser. */
  ask(sql: string): Promise<unknown[]>;
  /** What happens to the stream: a number delays it, `hang` stops it, and the standby stays connected. */
  setReplication(fault: Fault): void;
  /** Resolves once the standby has replayed all that is committed now. */
  caughtUp(): Promise<void>;
  /** Kills the primary by SIGKILL. */
  killPrimary(): Promise<void>;
  /** Makes the standby the primary, without a standby of its own. HAProxy finds it. */
  promote(): Promise<void>;
  /** Makes the killed server a standby of the new primary, from a copy of its data. */
  rebuildStandby(): Promise<void>;
}

interface Server {
  /** Its `cluster_name`, by which `synchronous_standby_names` knows it. */
  name: string;
  url: string;
  folder: string;
  process: ServerProcess | null;
}

const DATABASE = 'latchkey';
const NAMES = ['north', 'south'] as const;

/** @param synchronous whether a commit waits until the standby has it on disk. */
export async function startReplicatedPostgres(
  t: Test,
  { synchronous }: { synchronous: boolean },
): Promise<ReplicatedPostgres> {
  let [primary, standby] = [await aServer(t, NAMES[0]), await aServer(t, NAMES[1])];
  const stream = await faultProxy(t, primary.url);
  const settings = [
    `primary_conninfo=host=127.0.0.1 port=${new URL(stream.url).port} user=postgres`,
    `synchronous_standby_names=${synchronous ? NAMES.join(', ') : ''}`,
    // A connection that a replica gave up stays busy while its commit waits for the standby.
    'max_connections=300',
  ];
  const start = ({ name, url, folder: data }: Server) =>
    startPostgresProcess(t, {
      data,
      url: withDatabase(url, 'postgres'),
      settings: [...settings, `cluster_name=${name}`],
    });
  const follow = async () => {
    const { hostname, port } = new URL(primary.url);
    const from = ['-h', hostname, '-p', port, '-U', 'postgres'];
    await runPostgresProgram('pg_basebackup', ...from, '-D', standby.folder, '-R', '-c', 'fast', '--no-sync');
    standby.process = await start(standby);
    const isFollowing = `SELECT FROM pg_stat_replication WHERE application_name = '${standby.name}'
      AND state = 'streaming' AND sync_state = '${synchronous ? 'sync' : 'async'}'`;
    await until(async () => (await ask(withDatabase(primary.url, 'postgres'), isFollowing)).length === 1);
  };

  await runPostgresProgram(
    'initdb',
    '-D',
    primary.folder,
    '-U',
    'postgres',
    '-A',
    'trust',
    '--no-sync',
    '--wal-segsize=1',
  );
  primary.process = await start(primary);
  await follow();
  await ask(withDatabase(primary.url, 'postgres'), `CREATE DATABASE ${DATABASE}`);
  await migrate(primary.url);
  const { url } = await startHaproxy(t, [primary.url, standby.url]);

  return {
    url,
    primary: () => primary.url,
    ask: (sql) => ask(primary.url, sql),
    setReplication: (fault) => {
      stream.set(fault);
    },
    async caughtUp() {
      const [now] = (await ask(primary.url, 'SELECT pg_current_wal_lsn() AS lsn')) as { lsn: string }[];
      const hasReplayed = `SELECT FROM pg_last_wal_replay_lsn() AS lsn WHERE lsn >= '${now?.lsn ?? ''}'`;
      await until(async () => (await ask(standby.url, hasReplayed)).length === 1);
    },
    async killPrimary() {
      if (primary.process) process.kill(primary.process.pid, 'SIGKILL');
      await primary.process?.end();
    },
    async promote() {
      await ask(standby.url, 'SELECT pg_promote(true, 120)');
      [primary, standby] = [standby, primary];
      stream.retarget(primary.url);
    },
    async rebuildStandby() {
      // The folder stays: by it the next server finds and frees the shared memory of the killed one.
      for (const name of readdirSync(standby.folder))
        rmSync(join(standby.folder, name), { recursive: true, maxRetries: 5 });
      await follow();
    },
  };
}

async function aServer(t: Test, name: string): Promise<Server> {
  const folder = makeDataFolder(testFolder(t));
  const port = await freePort();
  return { name, folder, url: `postgres://postgres@127.0.0.1:${port}/${DATABASE}`, process: null };
}

function withDatabase(url: string, name: string): string {
  return new URL(`/${name}`, url).href;
}
