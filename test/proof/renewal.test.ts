import { test } from 'tap';
import { exploreRenewal } from './renewal-explore.ts';
import { RENEWAL_CLAIMS, RENEWAL_WEAKENINGS, ruleOf } from './renewal-worlds.ts';
import { realLeases } from './renewal.ts';

// The smaller worlds of `npm run proof`.

test('within a second of the last fault, every end is known where a replica serves', (t) => {
  for (const { name, world, large } of RENEWAL_CLAIMS) {
    if (large) continue;
    const { states, counterexample } = exploreRenewal(world, realLeases);
    t.ok(states > 400, `${name}: ${states} states`);
    t.strictSame(counterexample, null, name);
  }
  t.end();
});

test('every weakening of the lease leaves an end unknown', async (t) => {
  for (const weakening of RENEWAL_WEAKENINGS) {
    const { counterexample } = exploreRenewal(weakening.world, await ruleOf(weakening));
    t.ok(counterexample, weakening.name);
  }
});
