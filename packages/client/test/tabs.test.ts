// suite: browser
import tap, { test } from 'tap';
import { chromiumMissing } from '../../../test/support/browser.ts';
import { testScale } from '../../../test/support/environment.ts';
import { redisServersMissing } from '../../../test/support/redis-server.ts';
import '../../../test/support/watch-leaks.ts';
import { badDays, openTabs, startWorld } from './tabs.ts';

/** 1,000 refreshes; 10,000 with TEST_SCALE=10. A day with the long window waits longer and has more of them. */
const RUNS = [
  { window: 1, days: 4, refreshes: 150 },
  { window: 10, days: 1, refreshes: 400 },
];

tap.jobs = RUNS.length;

for (const { window, days, refreshes } of RUNS)
  test(
    `five tabs stay signed in on bad days, with a retry window of ${window} s`,
    { skip: chromiumMissing || redisServersMissing, buffered: true },
    async (t) => {
      const world = await startWorld(t, window);
      const tabs = await openTabs(t, world);
      const { site } = tabs;
      const all = Math.max(1, Math.round(days * testScale));
      await badDays(world, tabs, all, refreshes);

      const faults = ['dying', 'restored', 'offline'];
      for (const fault of faults) t.ok(site.noted(fault) >= all, `${fault}: ${site.noted(fault)}`);
      t.strictSame([...new Set(site.notes)].sort(), faults.sort(), 'and nothing that must not happen');
      t.ok(site.refreshes >= all * refreshes, `${site.refreshes} refreshes`);
      t.ok(site.lost > site.refreshes / 10, `${site.lost} lost answers`);
      for (const calls of site.calls) t.ok(calls > all, `${calls} calls`);
      t.equal(world.restarts, all);
    },
  );
