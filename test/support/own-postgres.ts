import type { Test } from 'tap';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { testFolder } from './folder.ts';
import { ask, host, postmaster, urlOf, type Host } from './embedded.ts';

/** A PostgreSQL server that the test can stop, crash and reconfigure. It ends with the test. */
export interface OwnPostgres {
  /** Changes at each start. */
  url(): string;
  /** A shutdown by an operator, which disconnects every session. */
  stop(): Promise<void>;
  /** Kills the postmaster by SIGKILL. The next start recovers committed data from the log. */
  crash(): Promise<void>;
  start(): Promise<void>;
  /** One statement as the superuser. */
  ask(sql: string): Promise<unknown[]>;
}

/** Starts a migrated server. Its host process stops it even if the test is killed. */
export async function startPostgres(t: Test): Promise<OwnPostgres> {
  const folder = testFolder(t);
  let running: Host = await host(t, folder);
  await migrate(urlOf(running));

  return {
    url: () => urlOf(running),
    stop: () => running.finish(),
    async crash() {
      process.kill(postmaster(folder), 'SIGKILL');
      await running.finish();
    },
    async start() {
      running = await host(t, folder);
    },
    ask: (sql) => ask(urlOf(running), sql),
  };
}
