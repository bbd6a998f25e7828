import type { Test } from 'tap';
import { eventually } from '../../support/until.ts';
import type { Balancer } from './balancer.ts';
import { makeBrowser, type Browser, type BrowserParts } from './browser.ts';
import type { RevokedWatch } from './revoked-watch.ts';
import type { Tally } from './tally.ts';

interface Parts {
  balancer: Balancer;
  watch: RevokedWatch;
  tally: Tally;
  /** How the browser with this number behaves. */
  manner: (i: number) => Pick<BrowserParts, 'tabs' | 'isPatient' | 'hashing'>;
}

const BROWSERS = 20;

/** Browsers that use their sessions until the test ends, and a watch on the tokens that they revoked. */
export function startBrowsers(t: Test, { balancer, watch, tally, manner }: Parts) {
  const browsers: readonly Browser[] = Array.from({ length: BROWSERS }, (_, i) =>
    makeBrowser({ balancer, watch, tally, name: `browser-${i}`, ...manner(i) }),
  );
  const running = browsers.map((browser) => browser.run());
  watch.start();
  /** Closes the browsers and the watch, and waits for requests in flight. */
  const stop = async () => {
    for (const browser of browsers) browser.stop();
    await Promise.all([...running, watch.stop()]);
  };
  t.teardown(async () => {
    await stop();
    await balancer.close();
  });
  return {
    browsers,
    stop,
    /** Resolves once every browser has signed in or refreshed `times` times more. */
    renewed: async (seconds: number, times = 1): Promise<void> => {
      const before = browsers.map((browser) => browser.renewals());
      await eventually(seconds, () => {
        const waiting = browsers.filter((browser, i) => browser.renewals() < (before[i] ?? 0) + times).length;
        return Promise.resolve(waiting === 0 ? null : `${waiting} browsers have not renewed their session`);
      });
    },
  };
}
