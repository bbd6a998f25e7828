/**
 * The rotation of refresh tokens, as a pure function: the table that ARCHITECTURE.md and the threat model argue about.
 * It stands once more as `infra/redis/lua/rotate.lua`; the model test drives both with the same histories and compares
 * every answer and every state. Change both or neither.
 *
 * A generation is the time of issue of a token pair in microseconds, always greater than the one before it.
 */

/** The state of a session: all that has to be kept, however often it is refreshed. */
export interface SessionState {
  /** The newest generation issued. */
  latest: number;
  /** The generation whose refresh token `latest` was issued for; 0 after login. */
  parent: number;
  /** The oldest generation issued since `parent`; equal to `latest` unless answers were lost. */
  first: number;
  /** A token of the latest pair has been used, so its client holds it. */
  confirmed: boolean;
  /** Keyed hash of who asked for the latest pair; empty where the address means nothing. */
  client: string;
}

/** A refresh token on the counter. All times in microseconds. */
export interface Presentation {
  generation: number;
  /** The state store's clock. */
  now: number;
  /** How long the complete request has been inside the service, by the replica's monotonic clock. */
  elapsed: number;
  /** REFRESH_RETRY_WINDOW; 0 turns it off. */
  window: number;
  /** Keyed hash of who asks; empty where the address means nothing, and then never the same client as any other. */
  client: string;
}

export type RotationOutcome =
  /** A new pair was issued: the normal refresh, or again after a lost answer or lost state. */
  | { outcome: 'issued'; row: 'current' | 'ahead' | 'gap' | 'unconfirmed'; state: SessionState }
  /** The pair that was issued a moment ago is issued again, the same claims; nothing changed. */
  | { outcome: 'repeated'; state: SessionState }
  /** Too late or from elsewhere, but too soon to call it theft: nothing changed, retry after so many microseconds. */
  | { outcome: 'held'; retryAfter: number }
  /** A clock is wrong or the request has been inside for too long: nothing changed. */
  | { outcome: 'refused'; reason: 'clock' | 'stale' }
  /** A superseded token came back: theft. */
  | { outcome: 'reused' };

/** A request that has been inside for longer may not change anything: its client has long tried again. */
export const MAX_ELAPSED = 5_000_000;
/** Beyond this lead of `latest` over the clock, or beyond the window where that is longer, nothing counts as recent. */
export const MAX_LEAD_FOR_RECENT = 1_000_000;
/** Beyond this lead of `latest` over the clock nothing is issued. */
export const MAX_LEAD = 60_000_000;

/** The state of a session that has just been created, in microseconds of the state store's clock. */
export function initialState(generation: number, client: string): SessionState {
  return { latest: generation, parent: 0, first: generation, confirmed: false, client };
}

/** Presenting a refresh token: one atomic step; the first line that fits decides. */
export function rotate(state: SessionState, presented: Presentation): RotationOutcome {
  const { generation, now, elapsed, window, client } = presented;
  if (elapsed > MAX_ELAPSED) return { outcome: 'refused', reason: 'stale' };
  // A token that we signed is newer than our state: state was lost. The client holds it, so it is the newest.
  const latest = Math.max(state.latest, generation);
  const { parent, first } = state;

  if (generation === latest) {
    return issue({
      row: generation > state.latest ? 'ahead' : 'current',
      latest,
      parent: generation,
      now,
      client,
    });
  }
  if (isRecent(latest, presented)) {
    if (generation === parent && client !== '' && client === state.client)
      return { outcome: 'repeated', state };
    return { outcome: 'held', retryAfter: Math.max(0, latest + window - now) };
  }
  if (parent < generation && generation < first) {
    return issue({ row: 'gap', latest, parent: generation, first, now, client });
  }
  if (generation === parent && !state.confirmed) {
    return issue({ row: 'unconfirmed', latest, parent, first, now, client });
  }
  return { outcome: 'reused' };
}

/** The request was inside the service before `latest` was issued, or came within the window after it. */
function isRecent(latest: number, { now, elapsed, window }: Presentation): boolean {
  if (latest - now > Math.max(MAX_LEAD_FOR_RECENT, window)) return false;
  return now - elapsed <= latest || now - latest <= window;
}

interface Issue {
  row: 'current' | 'ahead' | 'gap' | 'unconfirmed';
  latest: number;
  parent: number;
  first?: number;
  now: number;
  client: string;
}

function issue({ row, latest, parent, first, now, client }: Issue): RotationOutcome {
  if (latest - now > MAX_LEAD) return { outcome: 'refused', reason: 'clock' };
  const next = Math.max(latest + 1, now);
  return {
    outcome: 'issued',
    row,
    state: { latest: next, parent, first: first ?? next, confirmed: false, client },
  };
}

export type AccessCheck = { outcome: 'good'; state: SessionState } | { outcome: 'superseded' };

/**
 * Presenting an access token: good only if nothing newer was issued. Its first use confirms that its client holds the
 * pair. One that is newer than the state (state was lost) changes nothing: only a refresh token may move the state.
 */
export function checkAccess(state: SessionState, generation: number): AccessCheck {
  if (generation < state.latest) return { outcome: 'superseded' };
  if (generation > state.latest || state.confirmed) return { outcome: 'good', state };
  return { outcome: 'good', state: { ...state, confirmed: true } };
}
