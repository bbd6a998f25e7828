import { openTab, type Network, type OwnersSession } from './owner.ts';
import { makeRandom } from '../../test/support/random.ts';
import type { Rule } from './rules.ts';
import { letLoose, type Kind } from './thief.ts';
import { makeTimeline } from './timeline.ts';

const GOOD = { lost: 0, tabs: 1, pages: 0, timeout: 5, slow: 0 };

export const NETWORKS: readonly Network[] = [
  { ...GOOD, name: '1% of answers lost', lost: 0.01 },
  { ...GOOD, name: '5% of answers lost', lost: 0.05 },
  { ...GOOD, name: '1% lost, 3 tabs', lost: 0.01, tabs: 3 },
  { ...GOOD, name: '5% lost, 3 tabs', lost: 0.05, tabs: 3 },
  { ...GOOD, name: '8 at once, 1 refresh in 10', pages: 0.1 },
  { ...GOOD, name: 'time-out 1 s, answers after 3 s', timeout: 1, slow: 600 },
  { ...GOOD, name: 'the same, 5% lost, 3 tabs', lost: 0.05, tabs: 3, timeout: 1, slow: 600 },
];

const START = 1_000_000;
const DAY = 86_400;

/** How often owners without a thief are signed out. */
export function falseSignOuts(rule: Rule, network: Network, refreshes: number, seed = 1) {
  const random = makeRandom(seed);
  const timeline = makeTimeline(START);
  let signOuts = 0;
  const logIn = () => {
    owner.session = rule(timeline.now());
    owner.held = owner.session.first;
    owner.storedAt = timeline.now();
  };
  const session = rule(START);
  const owner: OwnersSession = {
    session,
    held: session.first,
    storedAt: START,
    refreshes: 0,
    onTheft() {
      signOuts++;
      logIn();
    },
  };
  for (let tab = 0; tab < network.tabs; tab++) openTab(owner, network, timeline, random);
  timeline.run(Infinity, () => owner.refreshes >= refreshes);
  return { signOuts, refreshes: owner.refreshes, perThousand: (1000 * signOuts) / owner.refreshes };
}

/** Seconds until the thief of an owner on a good network is found; null if not within a day. */
export function untilFound(rule: Rule, thief: { kind: Kind; caller: string }, seed: number) {
  const random = makeRandom(seed);
  const timeline = makeTimeline(START);
  const found: number[] = [];
  const session = rule(START);
  const owner: OwnersSession = {
    session,
    held: session.first,
    storedAt: START,
    refreshes: 0,
    onTheft() {
      found.push(timeline.now());
    },
  };
  openTab(owner, { ...GOOD, name: 'good' }, timeline, random);

  let [before, last] = [0, owner.held];
  const strikesAt = START + random.between(4000, 8000);
  let haul = { pairs: 0 };
  const observe = () => {
    if (owner.held !== last) [before, last] = [last, owner.held];
    if (timeline.now() < strikesAt || before === 0) timeline.after(1, observe);
    else {
      const stolen = thief.kind === 'has a token one generation old' ? before : last;
      haul = letLoose({ ...thief, stolen }, owner, timeline, random);
    }
  };
  observe();
  timeline.run(strikesAt + DAY, () => found.length > 0);
  const [foundAt] = found;
  return { seconds: foundAt === undefined ? null : foundAt - strikesAt, pairs: haul.pairs };
}
