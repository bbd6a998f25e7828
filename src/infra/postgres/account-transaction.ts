import type { Timers } from '../../domain/clock.ts';
import { makeLanes, type LaneTurn } from '../../domain/limits/lanes.ts';
import type { Prisma, PrismaClient } from '../../generated/prisma/client.ts';

declare const IN_LANE: unique symbol;

/**
 * A transaction in the lane of one account, the only one of this process there. Whatever waits for the row of a user, or
 * for those of its tokens, takes this type, so that it cannot wait with a connection for another request of the replica.
 */
export type AccountTransaction = Prisma.TransactionClient & { readonly [IN_LANE]: true };

/**
 * Runs a transaction in the lane of an account, and gets its connection only then. A retry after a conflict
 * (`mapDatabaseErrors`) enters the lane again: while it pauses, others have their turn.
 * @param work uses nothing but its transaction: another connection could be one that waits for this one's.
 * @throws AuthError as `Lanes.run`; the driver's errors
 */
export type InLane = <Result>(
  userId: number,
  turn: LaneTurn,
  work: (tx: AccountTransaction) => Promise<Result>,
) => Promise<Result>;

/** @param patience milliseconds for which a transaction waits for its turn. */
export function makeInLane(prisma: PrismaClient, patience: number): InLane {
  const timers: Timers = {
    set: setTimeout,
    clear: (timer) => {
      clearTimeout(timer as NodeJS.Timeout);
    },
  };
  const lanes = makeLanes(patience, timers, { monotonic: () => performance.now() });
  return (userId, turn, work) =>
    lanes.run(userId, turn, () => prisma.$transaction((tx) => work(tx as AccountTransaction)));
}
