import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { testFolder } from '../../support/folder.ts';
import { makeBalancer, type Balancer } from './balancer.ts';
import type { Browser } from './browser.ts';
import { startBrowsers } from './browsers.ts';
import { eventually } from '../../support/until.ts';
import { isReady, startReplica, type Replica } from './replica.ts';
import { makeRevokedWatch, type RevokedWatch } from './revoked-watch.ts';
import { sixOperations } from './six-operations.ts';
import { makeTally, type Tally } from './tally.ts';

/** Two replicas under load, with browsers and a watch on revoked tokens. */
export interface World {
  replicas: readonly [Replica, Replica];
  balancer: Balancer;
  watch: RevokedWatch;
  /** The replicas' database. */
  databaseUrl: string;
  tally: Tally;
  browsers: readonly Browser[];
  /** Resolves once all six operations work on every replica, and every browser has renewed its session since. */
  recovered(seconds: number): Promise<void>;
  /** Closes the browsers and the watch, and waits for requests in flight. */
  stop(): Promise<void>;
}

/** Milliseconds; the replicas' DATABASE_TIMEOUT. */
export const DATABASE_TIMEOUT = 1500;

/** @param stores the settings for PostgreSQL and Redis. */
export async function startWorld(t: Test, stores: Environment): Promise<World> {
  const dataDir = testFolder(t);
  const env = {
    // The replicas share the generated keys.
    DATA_DIR: dataDir,
    DATABASE_TIMEOUT: String(DATABASE_TIMEOUT),
    ...stores,
  };
  const replicas = [await startReplica(t, env), await startReplica(t, env)] as const;
  await Promise.all(replicas.map((replica) => isReady(replica)));

  const tally = makeTally();
  const balancer = makeBalancer(replicas, tally);
  const watch = makeRevokedWatch(balancer, replicas, tally);
  const manner = (i: number) => ({ tabs: i % 4 === 0 ? 2 : 1, isPatient: i % 2 === 0 });
  const { browsers, stop, renewed } = startBrowsers(t, { balancer, watch, tally, manner });

  return {
    replicas,
    balancer,
    watch,
    databaseUrl: stores.DATABASE_URL ?? '',
    tally,
    browsers,
    stop,
    async recovered(seconds) {
      for (const replica of replicas) {
        await eventually(seconds, () => sixOperations(balancer, replica, watch));
      }
      await renewed(seconds);
    },
  };
}
