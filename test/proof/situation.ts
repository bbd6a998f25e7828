import type { SessionState } from '../../src/domain/tokens/session-state.ts';

/**
 * Everything that decides what can happen next. Times are microseconds by the store's clock, as the rule gets them
 * (time.ts keeps them few); durations count the world's steps.
 */
export interface Situation {
  now: number;
  /** null: the session has ended, and nothing more happens. */
  session: SessionState | null;
  /** The state after a loss of the store's state; null if it never loses state. */
  record: SessionState | null;
  /** The generation whose pair the owner holds; all its tabs share it. */
  held: number;
  messages: readonly Message[];
  /** How many more messages may get lost. */
  drops: number;
  issue: Issue;
  thief: Thief;
  /** The watched pair. The search tries every pair as this one, so its properties hold for each. */
  watched: Watched | null;
  /** The watched pair at the time of the record. */
  watchedInRecord: Watched | null;
}

/** A refresh of the owner in flight: sent, inside the service, or its answer. Each may get lost. */
export interface Message {
  at: 'sent' | 'inside' | 'answer';
  /** The generation of its refresh token; for an answer, of its pair. */
  generation: number;
  caller: string;
  /** When it arrived, if it is inside; otherwise 0. */
  arrived: number;
  /** Steps since it was sent; for an answer, since its pair was first issued. */
  delay: number;
  /** Whether the answer was given after the theft and after the last loss of state. */
  counts: boolean;
}

/** The last pair that was issued, even if the state no longer shows it. */
export interface Issue {
  generation: number;
  /** The generation whose refresh token was presented for it. */
  token: number;
  caller: string;
  /** Steps since then, capped at the age that exceeds every limit. */
  age: number;
}

export interface Token {
  generation: number;
  kind: 'refresh' | 'access' | 'received pair';
}

export interface Thief {
  hasStolen: boolean;
  /** The stolen token, then the received ones. */
  tokens: readonly Token[];
  /** The thief's refresh inside the service. */
  inside: { generation: number; arrived: number } | null;
  /** Who received the last new pairs since the theft, or since the last loss of state: T, O, TO or OT. */
  turns: string;
}

export interface Watched {
  generation: number;
  /** The generation whose refresh token was presented for it. */
  token: number;
  /** Whether one of its tokens was used while it was the newest pair. */
  used: boolean;
  /** Whether another pair was issued for the same token although this pair's refresh token was not used. */
  lost: boolean;
}

/** Notes who got a pair; only the last two turns matter. */
export function takeTurn(thief: Thief, who: 'T' | 'O'): Thief {
  return thief.turns.endsWith(who) ? thief : { ...thief, turns: thief.turns.slice(-1) + who };
}

/** The same situation with every time in it replaced. */
export function mapTimes(s: Situation, map: (time: number) => number): Situation {
  const ofState = (state: SessionState | null) =>
    state && {
      ...state,
      latest: map(state.latest),
      parent: map(state.parent),
      first: map(state.first),
    };
  const ofWatched = (watched: Watched | null) =>
    watched && { ...watched, generation: map(watched.generation), token: map(watched.token) };
  const { issue, thief } = s;
  return {
    now: s.now,
    session: ofState(s.session),
    record: ofState(s.record),
    held: map(s.held),
    drops: s.drops,
    messages: s.messages.map((message) => ({
      ...message,
      generation: map(message.generation),
      arrived: map(message.arrived),
    })),
    issue: { ...issue, generation: map(issue.generation), token: map(issue.token) },
    thief: {
      ...thief,
      tokens: thief.tokens.map(({ generation, kind }) => ({ generation: map(generation), kind })),
      inside: thief.inside && {
        generation: map(thief.inside.generation),
        arrived: map(thief.inside.arrived),
      },
    },
    watched: ofWatched(s.watched),
    watchedInRecord: ofWatched(s.watchedInRecord),
  };
}

/**
 * A list of numbers for a situation, so that equal situations have equal lists.
 * @param time receives each time and its index in the list
 */
export function listOf(s: Situation, time: (value: number, at: number) => number): number[] {
  const list: number[] = [];
  const add = (number: number) => list.push(number + 1);
  const addTime = (value: number) => list.push(time(value, list.length));
  const addClient = (name: string) => add(name === '' ? 0 : name.charCodeAt(0));
  const addState = (state: SessionState | null) => {
    add(state ? 1 + Number(state.confirmed) : 0);
    if (!state) return;
    addTime(state.latest);
    addTime(state.parent);
    addTime(state.first);
    addClient(state.caller);
  };
  const addWatched = (watched: Watched | null) => {
    add(watched ? 1 + Number(watched.used) + 2 * Number(watched.lost) : 0);
    if (!watched) return;
    addTime(watched.generation);
    addTime(watched.token);
  };
  const { issue, thief, messages } = s;

  addState(s.session);
  addState(s.record);
  addTime(s.held);
  add(s.drops === Infinity ? 0 : s.drops);
  addTime(issue.generation);
  addTime(issue.token);
  addClient(issue.caller);
  add(issue.age);
  addWatched(s.watched);
  addWatched(s.watchedInRecord);

  add(Number(thief.hasStolen) + 2 * Number(thief.inside !== null) + 4 * thief.tokens.length);
  for (const turn of thief.turns) addClient(turn);
  add(0);
  for (const { generation, kind } of thief.tokens) {
    addTime(generation);
    add(kind.charCodeAt(0));
  }
  if (thief.inside) {
    addTime(thief.inside.generation);
    addTime(thief.inside.arrived);
  }
  for (const message of messages) {
    add(2 * message.at.charCodeAt(0) + Number(message.counts));
    addTime(message.generation);
    addTime(message.arrived);
    addClient(message.caller);
    add(message.delay);
  }
  return list;
}
