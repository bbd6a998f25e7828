import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { testFolder } from '../../support/folder.ts';
import { startNginx, type Nginx } from '../../support/nginx.ts';
import type { Launch } from '../../support/service.ts';
import { eventually } from '../../support/until.ts';
import { isReady, startReplica, type Replica } from './replica.ts';
import { PATIENCE, startSteadyLoad, type SteadyLoad } from './steady-load.ts';

/** Replicas behind a real nginx that start and stop under steady load. */
export interface Fleet extends SteadyLoad {
  nginx: Nginx;
  /** The running replicas, oldest first. */
  replicas: readonly Replica[];
  /** Starts a replica, of another version if it is given. Resolves once it gets requests. */
  add(version?: Launch): Promise<Replica>;
  /** Sends SIGTERM. @returns the exit code. */
  remove(replica: Replica): Promise<number | null>;
}

/** Milliseconds between two readiness probes: as Kubernetes does, only more often. */
const PROBE_INTERVAL = 200;

/** Default drain, long timeouts: other work on the machine must not cause a 503. */
const STEADY = {
  DRAIN_DELAY: '5',
  TRUST_PROXY: 'loopback',
  REDIS_TIMEOUT: '5000',
  DATABASE_TIMEOUT: '20000',
  HASH_QUEUE_TIMEOUT: '60',
};

/**
 * @param versions one entry per replica: undefined for this version's.
 * @param hashing as in BrowserParts.
 */
export async function startFleet(
  t: Test,
  env: Environment,
  versions: readonly (Launch | undefined)[],
  hashing?: number,
): Promise<Fleet> {
  const dataDir = testFolder(t);
  const replicas: Replica[] = [];
  const start = async (version?: Launch) => {
    const replica = await startReplica(t, { ...STEADY, DATA_DIR: dataDir, ...env }, version);
    replicas.push(replica);
    return replica;
  };
  for (const version of versions) await isReady(await start(version), PATIENCE);
  const nginx = await startNginx(t, addressesOf(replicas));
  const routed = followReadiness(t, nginx, replicas);

  return {
    ...startSteadyLoad(t, nginx.url, replicas, { hashing }),
    nginx,
    replicas,
    async add(version) {
      const replica = await start(version);
      const isRouted = () => Promise.resolve(routed().includes(replica.url) ? null : 'not routed');
      await eventually(PATIENCE, isRouted);
      return replica;
    },
    async remove(replica) {
      const code = await replica.stop('SIGTERM');
      replicas.splice(replicas.indexOf(replica), 1);
      return code;
    },
  };
}

function addressesOf(replicas: readonly Replica[]): string[] {
  return replicas.map(({ url }) => url);
}

/** Points nginx to the ready replicas. @returns their addresses. */
function followReadiness(t: Test, nginx: Nginx, replicas: readonly Replica[]): () => readonly string[] {
  let routed: readonly string[] = addressesOf(replicas);
  const stopping = new AbortController();
  const look = async () => {
    const ready = await Promise.all(
      replicas.map(async (replica) => {
        const { url } = replica;
        return (await replica.readiness().catch(() => 0)) === 200 ? [url] : [];
      }),
    );
    const next = ready.flat();
    if (next.join() === routed.join()) return;
    await nginx.route(next);
    routed = next;
  };
  const following = (async () => {
    while (!stopping.signal.aborted) {
      await look();
      await sleep(PROBE_INTERVAL);
    }
  })();
  t.teardown(async () => {
    stopping.abort();
    await following;
  });
  return () => routed;
}
