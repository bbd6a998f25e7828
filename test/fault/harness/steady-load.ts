import type { Test } from 'tap';
import { eventually } from '../../support/until.ts';
import { makeBalancer, type Backend } from './balancer.ts';
import { makeBrowser } from './browser.ts';
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

const BROWSERS = 20;
/** Seconds allowed for steps that take about one. */
export const PATIENCE = 60;

/** @param ca of the proxy's certificate, PEM. */
export function startSteadyLoad(
  t: Test,
  proxy: string,
  replicas: readonly Backend[],
  ca?: string,
): SteadyLoad {
  const tally = makeTally();
  const balancer = makeBalancer([{ url: proxy, inRotation: true }], tally, ca);
  const watch = makeRevokedWatch(balancer, replicas, tally);
  // One tab each: with overlapping tabs the protocol itself requires retries.
  const browsers = Array.from({ length: BROWSERS }, (_, i) =>
    makeBrowser({ balancer, watch, tally, name: `browser-${i}`, tabs: 1, isPatient: true }),
  );
  const running = browsers.map((browser) => browser.run());
  watch.start();
  const stop = async () => {
    for (const browser of browsers) browser.stop();
    await Promise.all([...running, watch.stop()]);
  };
  t.teardown(async () => {
    await stop();
    await balancer.close();
  });

  return {
    tally,
    stop,
    async renewed(times) {
      const before = browsers.map((browser) => browser.renewals());
      await eventually(PATIENCE, () => {
        const waiting = browsers.filter((browser, i) => browser.renewals() < (before[i] ?? 0) + times).length;
        return Promise.resolve(waiting === 0 ? null : `${waiting} browsers have not renewed their session`);
      });
    },
  };
}
