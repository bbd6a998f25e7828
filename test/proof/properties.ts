import type { AccessCheck, Presentation, RotationOutcome } from '../../src/domain/tokens/session-state.ts';
import type { Rule } from './rule.ts';
import type { Situation } from './situation.ts';
import { MICROS, scaleOf, type World } from './world.ts';

export interface Refresh {
  by: 'owner' | 'thief' | 'any client';
  presented: Presentation;
  answer: RotationOutcome;
}

/** One event. */
export interface Move {
  what: string;
  before: Situation;
  after: Situation;
  refresh?: Refresh;
  access?: { generation: number; answer: AccessCheck };
}

/** A property holds in a world if it holds at every reachable move. */
export interface Property {
  name: string;
  holds(move: Move, world: World, rule: Rule): boolean;
}

export const staysSignedIn: Property = {
  name: 'the owner is not signed out',
  holds: ({ after }) => after.session !== null,
};

export const getsAPair: Property = {
  name: 'after the window the owner always gets a new pair',
  holds({ after }, world, rule) {
    if (!after.session) return true;
    const answer = late(after, after.held, world, rule);
    return answer.outcome === 'issued' && answer.state.latest > after.held;
  },
};

/** The answer to a refresh from a new address after the window, if nothing else happens. */
function late({ session, now }: Situation, generation: number, world: World, rule: Rule): RotationOutcome {
  if (!session) return { outcome: 'reused' };
  const { step, oldest } = scaleOf(world);
  return rule.rotate(session, {
    generation,
    caller: 'somewhere else',
    elapsed: 0,
    window: world.window * MICROS,
    now: Math.max(now, session.latest) + step * oldest,
  });
}

export const oldAccessEnds: Property = {
  name: 'a refresh ends every earlier access token at once',
  holds({ before, after, refresh }, _world, rule) {
    if (refresh?.answer.outcome !== 'issued' || !before.session || !after.session) return true;
    const earlier = [before.session.latest, before.held, refresh.presented.generation];
    const state = after.session;
    return (
      rule.checkAccess(state, state.latest).outcome === 'good' &&
      earlier.every((generation) => rule.checkAccess(state, generation).outcome === 'superseded')
    );
  },
};

export const overlappingGetOnePair: Property = {
  name: "one caller's refreshes sent at once get one pair",
  holds({ before, refresh }) {
    if (!refresh) return true;
    const { presented, answer } = refresh;
    const { issue } = before;
    const overlaps =
      presented.generation === issue.token &&
      presented.caller === issue.caller &&
      presented.caller !== '' &&
      presented.now - presented.elapsed <= issue.generation;
    if (!overlaps || answer.outcome === 'refused') return true;
    return answer.outcome === 'repeated' && answer.state.latest === issue.generation;
  },
};

/** Presented alone and beyond the window. */
function isAloneAndLate({ before, refresh }: Move): boolean {
  if (!refresh || !before.session) return false;
  const { now, window, generation } = refresh.presented;
  return now - Math.max(before.session.latest, generation) > window;
}

export const lostPairKills: Property = {
  name: "after a retry, the lost pair's refresh token ends the session",
  holds(move) {
    const { before, refresh } = move;
    if (!before.watched?.lost || refresh?.presented.generation !== before.watched.generation) return true;
    return !isAloneAndLate(move) || refresh.answer.outcome === 'reused';
  },
};

export const usedPairKills: Property = {
  name: 'after the use of a pair, the token it was issued for ends the session',
  holds(move) {
    const { before, refresh } = move;
    if (!before.watched?.used || refresh?.presented.generation !== before.watched.token) return true;
    return !isAloneAndLate(move) || refresh.answer.outcome === 'reused';
  },
};

export const onlyTheLastIsGood: Property = {
  name: 'of refreshes with one token only the last-issued pair is good',
  holds: ({ before, access }) =>
    !access || !before.watched?.lost || access.generation !== before.watched.generation
      ? true
      : access.answer.outcome === 'superseded',
};

export const notBothTheNewest: Property = {
  name: 'thief and owner never both hold the newest pair',
  holds({ after }) {
    const { session, held, thief } = after;
    if (session?.latest !== held) return true;
    return !thief.tokens.some(({ kind, generation }) => kind === 'received pair' && generation === held);
  },
};

/** After the theft the owner got a pair, then the thief. The owner's next refresh finds its pair superseded. */
export const foundOut: Property = {
  name: "the owner's next refresh after a pair of the thief's brings no pair",
  holds({ before, refresh }) {
    if (refresh?.by !== 'owner' || before.thief.turns !== 'OT') return true;
    if (refresh.presented.generation !== before.held) return true;
    return refresh.answer.outcome !== 'issued' && refresh.answer.outcome !== 'repeated';
  },
};

/** Together with the property above the session ends: the owner's pair counts as reuse when it returns. */
export const endsAfterTheWindow: Property = {
  name: 'and after the window it ends the session',
  holds({ after }, world, rule) {
    const { session, thief, held } = after;
    if (thief.turns !== 'OT' || !session) return true;
    return late(after, held, world, rule).outcome === 'reused';
  },
};

/** Does not hold: a stolen access token works until the next refresh. */
export const accessIsOfNoUse: Property = {
  name: 'a stolen access token is refused',
  holds: ({ what }) => what !== 'the thief uses an access token: good',
};
