import type { Clock, Timers } from '../clock.ts';
import { AuthError } from '../errors.ts';
import { makeFifo, makeRoundRobin, waitForTurn, type FairQueue, type Waiter } from './fair-queue.ts';

/**
 * Whose turn a piece of work takes in the lane of an account: that of registered services and operators, that of callers
 * who have just proved a password, a code or a one-time token, that of callers who repeat such a proof, or that of callers
 * who hold no more than a token. A proof is checked before the lane, because one that the transaction would only refuse
 * must not take a place from the owner's login. Who ends the token in hand has a line beside it: a thief who keeps the
 * token's own line full must not keep the owner from signing out, and cannot loop this, because the first success ends
 * the token.
 */
export type LaneTurn = 'service' | 'proof' | 'repeat' | { token: number } | { ending: number };

/** How many wait for each account. */
export const LANE_PLACES = 32;
/** Seconds: a full lane is through with its work before that, unless the database is slow. */
const RETRY_AFTER = 1;

export interface Lanes {
  /**
   * Runs work on an account once no other work of this process is under way there.
   * @param work must not enter a lane, which could be one that waits for this one.
   * @throws AuthError `rate_limited` with the reason `lane` if too many wait already; `unavailable` instead of it if the
   * work under way takes half the patience, and if the turn does not come within the patience, because then it is the
   * database that is slow; and the errors of the work
   */
  run<Result>(account: number, turn: LaneTurn, work: () => Promise<Result>): Promise<Result>;
}

/**
 * A lane for each account, in which one piece of work is under way at a time. Work on one account locks the same rows,
 * so a second transaction would only wait for the first with a connection in hand: a single account that is changed in
 * a loop would take all connections of the replica. In the lane it waits without one.
 *
 * Services, proofs, repeats and tokens take turns, and so do tokens among themselves. So neither the owner's login nor a
 * service waits for more than one piece of work of a stolen token, however often that is presented. If the lane is full, a
 * newcomer replaces the newest of the turn, and of its token, that has most.
 * @param patience milliseconds.
 */
export function makeLanes(patience: number, timers: Timers, clock: Pick<Clock, 'monotonic'>): Lanes {
  /** What waits, by accounts with work under way, and when that began. */
  const lanes = new Map<number, { waiting: FairQueue<Waiter>; since: number }>();

  function noRoom(since: number): AuthError {
    if (clock.monotonic() - since >= patience / 2) return new AuthError('unavailable');
    return new AuthError('rate_limited', { reason: 'lane', retryAfter: RETRY_AFTER });
  }

  function enter(account: number, turn: LaneTurn): Promise<void> {
    const lane = lanes.get(account);
    if (!lane) {
      const waiting = makeRoundRobin(() => makeRoundRobin(() => makeFifo<Waiter>()));
      lanes.set(account, { waiting, since: clock.monotonic() });
      return Promise.resolve();
    }
    const { waiting } = lane;
    const path = pathOf(turn);
    if (waiting.size() >= LANE_PLACES) {
      const loser = waiting.loserTo(path);
      if (!loser) return Promise.reject(noRoom(lane.since));
      loser.giveUp('dropped');
    }
    const refusalOf = (reason: 'dropped' | 'timeout') =>
      reason === 'timeout' ? new AuthError('unavailable') : noRoom(lane.since);
    return waitForTurn(waiting, path, { timers, patience, refusalOf });
  }

  /** Hands the lane over, so that no newcomer overtakes what waits. */
  function leave(account: number): void {
    const lane = lanes.get(account);
    // Stryker disable next-line OptionalChaining: an account with work under way has a lane
    const next = lane?.waiting.takeNext();
    if (lane && next) {
      lane.since = clock.monotonic();
      next.start();
    } else lanes.delete(account);
  }

  return {
    async run(account, turn, work) {
      await enter(account, turn);
      try {
        return await work();
      } finally {
        leave(account);
      }
    },
  };
}

function pathOf(turn: LaneTurn): [turn: string, token: string] {
  // Stryker disable next-line StringLiteral: any other text names the level as well
  if (typeof turn === 'string') return [turn, ''];
  return 'token' in turn ? ['token', String(turn.token)] : ['ending', String(turn.ending)];
}
