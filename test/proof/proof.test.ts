import { test } from 'tap';
import { signsOut, splits } from './bound.ts';
import { explore } from './explore.ts';
import { realRule } from './rule.ts';
import { weakened, WEAKENINGS } from './weakenings.ts';
import { CLAIMS, LIMITS } from './worlds.ts';

// The smaller worlds of `npm run proof`; docs/rotation.md says what they show.

test('the claims about the rotation hold in every history', (t) => {
  for (const { name, world, properties, large } of CLAIMS) {
    if (large) continue;
    const { states, complete, counterexamples } = explore(world, realRule, properties);
    t.ok(complete && states > 400, `${name}: ${states} states`);
    for (const property of properties) t.strictSame(counterexamples.get(property), undefined, property.name);
  }
  t.end();
});

test('the documented limits are real', (t) => {
  for (const { name, world, properties } of LIMITS) {
    const { counterexamples } = explore(world, realRule, properties);
    for (const property of properties) t.ok(counterexamples.has(property), `${name}: ${property.name}`);
  }
  t.end();
});

test('the delays of an answer and the next request may add up to the window, but no more', (t) => {
  for (const [answer, request] of splits(9))
    t.notOk(signsOut(answer, request), `${answer} s and ${request} s`);
  for (const [answer, request] of splits(12)) t.ok(signsOut(answer, request), `${answer} s and ${request} s`);
  t.end();
});

test('removing any line of the rotation breaks a claim', async (t) => {
  for (const weakening of WEAKENINGS) {
    const [name, property] = weakening.breaks;
    const claim = CLAIMS.find((candidate) => candidate.name === name);
    t.ok(claim?.properties.includes(property), `${name} is claimed`);
    if (!claim) continue;
    const { counterexamples } = explore(claim.world, await weakened(weakening), [property]);
    t.ok(counterexamples.has(property), `${weakening.name}: ${property.name}`);
  }
});
