import {
  BARE_SESSIONS,
  bareOpenWorkload,
  bareWorkload,
  OPERATIONS,
  serviceOpenWorkload,
  serviceWorkload,
  type Operation,
  type OpenWorkload,
  type Workload,
  type Yardstick,
} from './operations.ts';
import { startServer, type ServerProcess } from '../../test/support/measured-server.ts';
import { HASH_CONCURRENCY, PRODUCTION_COST, type World } from './world.ts';

export type ServerName = 'floor' | 'service' | 'ruler';

/** A server in the run. */
export interface Subject {
  name: ServerName;
  process: ServerProcess;
  /** What it runs for this operation of the service: a bare server runs the yardstick. */
  runs(operation: Operation): string;
  /** @param seconds for how long it will run in all. */
  workload(operation: Operation, seconds: number): Promise<Workload>;
  /** null for an operation that only the closed loop measures. */
  openWorkload(operation: Operation): Promise<OpenWorkload | null>;
}

export const SERVICE = new URL('../../src/server.js', import.meta.url).pathname;

/** @param profile a folder for CPU profiles. */
export async function startSubject(
  name: ServerName,
  script: string,
  world: World,
  profile: string | undefined,
): Promise<Subject> {
  const prefix = `${world.env.REDIS_PREFIX ?? ''}${name}:`;
  const { logN, r, p } = PRODUCTION_COST;
  const process = await startServer({
    script,
    args: [String(BARE_SESSIONS)],
    nodeOptions: profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`],
    env: {
      ...world.unlimited,
      // Of the bare servers.
      FLOOR_PREFIX: prefix,
      RULER_PREFIX: prefix,
      SCRYPT_LOG_N: String(logN),
      SCRYPT_R: String(r),
      SCRYPT_P: String(p),
    },
    logFile: `${world.folder}/${name}.log`,
  });
  const { tokens } = process;
  if (tokens) {
    const runs = (operation: Operation): Yardstick => OPERATIONS[operation].yardstick;
    return {
      name,
      process,
      runs,
      workload: (operation) => Promise.resolve(bareWorkload(runs(operation), tokens, HASH_CONCURRENCY)),
      openWorkload: (operation) => Promise.resolve(bareOpenWorkload(runs(operation), tokens)),
    };
  }
  return {
    name,
    process,
    runs: (operation) => operation,
    workload: (operation, seconds) => serviceWorkload(operation, world, seconds),
    openWorkload: (operation) => serviceOpenWorkload(operation, world),
  };
}
