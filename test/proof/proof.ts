import { signsOut, splits } from './bound.ts';
import { explore } from './explore.ts';
import type { Property } from './properties.ts';
import { exploreRenewal } from './renewal-explore.ts';
import { RENEWAL_CLAIMS, RENEWAL_WEAKENINGS, ruleOf } from './renewal-worlds.ts';
import { realLeases, type LeaseRule, type RenewalWorld } from './renewal.ts';
import { realRule } from './rule.ts';
import { weakened, WEAKENINGS } from './weakenings.ts';
import { CLAIMS, LIMITS, type Claim } from './worlds.ts';

// `npm run proof [-- NAME…]`: the claims, the limits, and the purpose of every line (docs/rotation.md).
const filters = process.argv.slice(2);
const isChosen = (name: string) => filters.length === 0 || filters.some((text) => name.includes(text));
const say = (line: string) => process.stdout.write(`${line}\n`);
let failures = 0;
let total = 0;

function line(name: string, property: Property, states: number, verdict: string): void {
  say(`| ${name.padEnd(56)} | ${property.name.padEnd(70)} | ${String(states).padStart(9)} | ${verdict} |`);
}

function show({ name, world, properties }: Claim, isLimit: boolean): void {
  const { states, counterexamples } = explore(world, realRule, properties);
  total += states;
  for (const property of properties) {
    const found = counterexamples.get(property);
    line(name, property, states, found ? `broken in ${found.length} events` : 'holds');
    if (found) for (const event of found) say(`    ${event}`);
    if ((found !== undefined) !== isLimit) failures++;
  }
}

say('# What holds: every situation that can be reached, in histories of any length\n');
for (const claim of CLAIMS) if (isChosen(claim.name)) show(claim, false);
say('\n# Limits: what does not hold, each with a shortest history\n');
for (const claim of LIMITS) if (isChosen(claim.name)) show(claim, true);
say('\n# The bound: seconds from issue to storing, and from sending to taking, at most; window 10\n');
if (isChosen('bound')) {
  for (const sum of [6, 9, 12, 15]) {
    for (const [answer, request] of splits(sum)) {
      const found = signsOut(answer, request);
      say(`${answer} + ${request}: ${found ? 'an owner is signed out' : 'no owner is signed out'}`);
      if (found !== sum > 10) failures++;
    }
  }
}
say('\n# Weakenings: each breaks a property that holds above\n');
for (const weakening of WEAKENINGS) {
  if (!isChosen(weakening.name)) continue;
  const [name, property] = weakening.breaks;
  const claim = CLAIMS.find((candidate) => candidate.name === name);
  if (!claim?.properties.includes(property)) throw new Error(`nothing is claimed of ${name}`);
  const { states, counterexamples } = explore(claim.world, await weakened(weakening), [property]);
  const found = counterexamples.get(property);
  line(
    `${weakening.name} (${name})`,
    property,
    states,
    found ? `broken in ${found.length} events` : 'SURVIVED',
  );
  if (!found) failures++;
}
say(
  '\n# Renewal: within a second of the last fault, every end is known where a replica serves; and its weakenings\n',
);
function showRenewal(name: string, world: RenewalWorld, rule: LeaseRule, isWeakened: boolean): void {
  const { states, counterexample } = exploreRenewal(world, rule);
  total += isWeakened ? 0 : states;
  const verdict = counterexample ? `broken in ${counterexample.length} events` : 'holds';
  say(`| ${name.padEnd(56)} | ${String(states).padStart(9)} | ${verdict} |`);
  for (const event of counterexample ?? []) say(`    ${event}`);
  if ((counterexample !== null) !== isWeakened) failures++;
}
for (const { name, world } of RENEWAL_CLAIMS) if (isChosen(name)) showRenewal(name, world, realLeases, false);
for (const weakening of RENEWAL_WEAKENINGS)
  if (isChosen(weakening.name)) showRenewal(weakening.name, weakening.world, await ruleOf(weakening), true);
const seconds = process.cpuUsage().user / 1e6;
say(`\n${total} states, ${seconds.toFixed(0)} s of processor time, ${failures} failures`);
process.exitCode = failures === 0 ? 0 : 1;
