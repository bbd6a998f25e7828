import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';
import { migrate } from '../../src/infra/postgres/migrate.ts';
import { ask, host, postmaster, urlOf, type Host } from './embedded.ts';

/** A PostgreSQL server of the test's own, which may be stopped, crashed and reconfigured; it ends with the test. */
export interface OwnPostgres {
  /** Changes at each start. */
  url(): string;
  /** A shutdown as by an operator, which cuts every session off. */
  stop(): Promise<void>;
  /** Ends its first process by SIGKILL: what was committed is recovered from its log at the next start. */
  crash(): Promise<void>;
  start(): Promise<void>;
  /** One statement as the superuser. */
  ask(sql: string): Promise<unknown[]>;
}

/** Starts one with our schema in it. It lives in a process that stops it when ours ends, however that happens. */
export async function startPostgres(t: Test): Promise<OwnPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'lk-postgres-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
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
