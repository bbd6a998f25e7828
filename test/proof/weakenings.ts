import { readFileSync } from 'node:fs';
import * as hold from './properties.ts';
import type { Property } from './properties.ts';
import type { Rule } from './rule.ts';

/** A mistake in the text of rotation.ts, and a claim (worlds.ts) with a property that it breaks. */
export interface Weakening {
  name: string;
  find: string;
  replace: string;
  breaks: [claim: string, property: Property];
}

const weaken = (name: string, find: string, replace: string, ...breaks: Weakening['breaks']): Weakening => ({
  name,
  find,
  replace,
  breaks,
});

const RETRY_LINE = "generation === parent && caller !== '' && caller === state.caller";
const HELD = "return { outcome: 'held', retryAfter: Math.max(0, latest + window - now) };";

export const WEAKENINGS: readonly Weakening[] = [
  weaken(
    'lost state is not noticed',
    'Math.max(state.latest, generation)',
    'state.latest',
    'owner, losses, one at a time',
    hold.staysSignedIn,
  ),
  weaken(
    'parent stays',
    'latest,\n            parent: generation,',
    'latest,\n            parent: state.parent,',
    'tokens',
    hold.usedPairKills,
  ),
  weaken(
    'the window is open to every client',
    RETRY_LINE,
    'generation === parent',
    'thief elsewhere',
    hold.notBothTheNewest,
  ),
  weaken(
    'unknown addresses are the same',
    " && caller !== ''",
    '',
    'thief, addresses mean nothing',
    hold.notBothTheNewest,
  ),
  weaken('no line for retries', RETRY_LINE, 'false', 'owner', hold.overlappingGetOnePair),
  weaken('no client is held', HELD, '', 'owner', hold.staysSignedIn),
  weaken(
    'a changed address is not held',
    HELD,
    `if (caller === state.caller) ${HELD}`,
    'owner',
    hold.staysSignedIn,
  ),
  weaken('no window', ' || now - latest <= window', '', 'owner', hold.staysSignedIn),
  weaken(
    'overlap inside is not looked at',
    'now - elapsed <= latest || ',
    '',
    'owner, window 0, overlap',
    hold.overlappingGetOnePair,
  ),
  weaken(
    'elapsed is ignored',
    'now - elapsed <=',
    'now <=',
    'owner, window 0, overlap',
    hold.overlappingGetOnePair,
  ),
  weaken(
    'a second of lead and no more',
    'Math.max(MAX_LEAD_FOR_RECENT, window)',
    'MAX_LEAD_FOR_RECENT',
    'owner, clock 5 s back',
    hold.staysSignedIn,
  ),
  weaken(
    'no line for what was issued in a lost state',
    'parent < generation && generation < first',
    'false',
    'owner, losses, overlap, one dropped',
    hold.staysSignedIn,
  ),
  weaken(
    'that line includes first',
    'generation < first)',
    'generation <= first)',
    'tokens',
    hold.lostPairKills,
  ),
  weaken(
    'that line includes parent',
    'parent < generation &&',
    'parent <= generation &&',
    'tokens',
    hold.usedPairKills,
  ),
  weaken(
    'that line forgets first',
    'parent: generation, first, now',
    'parent: generation, now',
    'thief elsewhere, losses, nothing waits',
    hold.foundOut,
  ),
  weaken(
    'that line keeps the parent',
    'latest, parent: generation, first',
    'latest, parent, first',
    'tokens, window 0, losses',
    hold.usedPairKills,
  ),
  weaken(
    'trying again is theft',
    'generation === parent && !state.confirmed',
    'false',
    'owner',
    hold.staysSignedIn,
  ),
  weaken(
    'trying again forgets first',
    "row: 'unconfirmed', latest, parent, first, now",
    "row: 'unconfirmed', latest, parent, now",
    'tokens',
    hold.lostPairKills,
  ),
  weaken('confirmed is ignored', ' && !state.confirmed', '', 'tokens', hold.usedPairKills),
  weaken('theft is held for ever', "return { outcome: 'reused' };", HELD, 'tokens', hold.usedPairKills),
  weaken(
    'generations follow the clock back',
    'Math.max(latest + 1, now)',
    'now',
    'owner, clock 5 s back',
    hold.oldAccessEnds,
  ),
  weaken(
    'a new pair counts as used',
    'first ?? next, confirmed: false',
    'first ?? next, confirmed: true',
    'owner',
    hold.staysSignedIn,
  ),
  weaken(
    'the client is not kept',
    'first ?? next, confirmed: false, caller',
    "first ?? next, confirmed: false, caller: ''",
    'owner',
    hold.overlappingGetOnePair,
  ),
  weaken(
    'superseded access tokens are good',
    'generation < state.latest',
    'generation < state.parent',
    'owner',
    hold.oldAccessEnds,
  ),
  weaken(
    'the latest access token is not',
    'generation < state.latest',
    'generation <= state.latest',
    'owner',
    hold.oldAccessEnds,
  ),
  weaken(
    'access tokens do not confirm',
    '{ ...state, confirmed: true }',
    'state',
    'tokens',
    hold.usedPairKills,
  ),
];

const SOURCE = readFileSync(
  new URL('../../src/domain/sessions/rotation.js', import.meta.url),
  'utf8',
).replace(/^\/\/# sourceMappingURL.*/m, '');

/** The original text with one piece replaced. */
export async function weakened({ name, find, replace }: Weakening): Promise<Rule> {
  if (SOURCE.split(find).length !== 2) throw new Error(`"${name}": the text must hold this once: ${find}`);
  const text = SOURCE.replace(find, () => replace);
  return (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as Rule;
}
