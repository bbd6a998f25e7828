/**
 * The rotation of refresh tokens, as a pure function: the table that docs/rotation.md discusses.
 * `infra/redis/lua/rotate.lua` implements the same table. The model test runs the same histories through both and
 * compares every answer and state. Change both or neither. docs/threat-model.md says which thieves it does not find.
 *
 * A generation is the time of issue of a token pair in microseconds, always greater than the one before it.
 */
import type {
  AccessCheck,
  Presentation,
  RotationOutcome,
  RotationRow,
  SessionState,
} from '../tokens/session-state.ts';

/** A request that took longer, in microseconds, changes nothing: its client has retried by then. */
export const MAX_ELAPSED = 5_000_000;
/**
 * Microseconds. A pair is recent for the retry window. If `latest` is ahead of the clock by more than this and more than
 * the window, the clock is wrong, and no pair counts as recent.
 */
export const MAX_LEAD_FOR_RECENT = 1_000_000;
/** Microseconds. If `latest` is ahead of the clock by more than this, no pair is issued. */
export const MAX_LEAD = 60_000_000;

/**
 * Newer than every pair. As an access token's generation it asks only whether the session lives: `checkAccess` then
 * neither compares pairs nor confirms one.
 */
export const ANY_GENERATION = Number.MAX_SAFE_INTEGER;

/** The state of a session that has just been created, in microseconds of the state store's clock. */
export function initialState(generation: number, caller: string): SessionState {
  return { latest: generation, parent: 0, first: generation, confirmed: false, caller };
}

/**
 * When a session was opened, in milliseconds since 1970. By the state store's clock, as the `iat` of its pairs, because the
 * replica's may be wrong (ADR 3).
 * @param generation its first one.
 */
export function openedAt(generation: number): number {
  return Math.floor(generation / 1000);
}

/** Presents a refresh token, in one atomic step. The first row that matches applies. */
export function rotate(state: SessionState, presented: Presentation): RotationOutcome {
  const { generation, now, elapsed, window, caller } = presented;
  if (elapsed > MAX_ELAPSED) return { outcome: 'refused', reason: 'stale' };
  // If a token that we signed is newer than the state, state was lost. The client holds this token, so it is the
  // newest.
  const latest = Math.max(state.latest, generation);
  const { parent, first } = state;

  if (generation === latest) {
    return issue({
      row: generation > state.latest ? 'ahead' : 'current',
      latest,
      parent: generation,
      now,
      caller,
    });
  }
  if (isRecent(latest, presented)) {
    if (generation === parent && caller !== '' && caller === state.caller)
      return { outcome: 'repeated', state };
    return { outcome: 'held', retryAfter: Math.max(0, latest + window - now) };
  }
  if (parent < generation && generation < first) {
    return issue({ row: 'gap', latest, parent: generation, first, now, caller });
  }
  if (generation === parent && !state.confirmed) {
    return issue({ row: 'unconfirmed', latest, parent, first, now, caller });
  }
  return { outcome: 'reused' };
}

/** The service received the request before `latest` was issued, or within the window after it. */
function isRecent(latest: number, { now, elapsed, window }: Presentation): boolean {
  if (latest - now > Math.max(MAX_LEAD_FOR_RECENT, window)) return false;
  return now - elapsed <= latest || now - latest <= window;
}

interface Issue {
  row: RotationRow;
  latest: number;
  parent: number;
  first?: number;
  now: number;
  caller: string;
}

function issue({ row, latest, parent, first, now, caller }: Issue): RotationOutcome {
  if (latest - now > MAX_LEAD) return { outcome: 'refused', reason: 'clock' };
  const next = Math.max(latest + 1, now);
  return {
    outcome: 'issued',
    row,
    state: { latest: next, parent, first: first ?? next, confirmed: false, caller },
  };
}

/**
 * Presents an access token: it is good only if no newer pair was issued. Its first use confirms that the client holds
 * the pair. A token newer than the state (state was lost) changes nothing: only a refresh token may move the state.
 */
export function checkAccess(state: SessionState, generation: number): AccessCheck {
  if (generation < state.latest) return { outcome: 'superseded' };
  if (generation > state.latest || state.confirmed) return { outcome: 'good', state };
  return { outcome: 'good', state: { ...state, confirmed: true } };
}
