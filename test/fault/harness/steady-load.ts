import type { Test } from 'tap';
import { makeBalancer, type Backend } from './balancer.ts';
import { startBrowsers } from './browsers.ts';
import { makeRevokedWatch } from './revoked-watch.ts';
import { makeTally, type Tally } from './tally.ts';

/** Browsers that use their sessions through a proxy, and count what they see. */
export interface SteadyLoad {
  tally: Tally;
  /** Resolves once every browser has signed in or refreshed `times` times more. */
  renewed(times: number): Promise<void>;
  /** Ends the load, and waits for requests in flight. */
  stop: () => Promise<void>;
}

/** Seconds allowed for steps that take about one. */
export const PATIENCE = 60;

/**
 * @param options.ca of the proxy's certificate, PEM.
 * @param options.hashing as in BrowserParts: less where hashes cost what they do in production.
 */
export function startSteadyLoad(
  t: Test,
  proxy: string,
  replicas: readonly Backend[],
  { ca, hashing }: { ca?: string | undefined; hashing?: number | undefined } = {},
): SteadyLoad {
  const tally = makeTally();
  const balancer = makeBalancer([{ url: proxy, inRotation: true }], tally, ca);
  const watch = makeRevokedWatch(balancer, replicas, tally);
  // One tab each: with overlapping tabs the protocol itself requires retries.
  const manner = () => ({ tabs: 1, isPatient: true, hashing });
  const { renewed, stop } = startBrowsers(t, { balancer, watch, tally, manner });
  return { tally, stop, renewed: (times) => renewed(PATIENCE, times) };
}
