import type { TokenKey } from '../principal.ts';
import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { ignoreOutage } from '../errors.ts';
import type { BoundedQueues } from '../limits/bounded.ts';
import type { RevocationStore, TokenStore } from '../tokens/ports.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';

interface EndForReusePorts {
  tokens: Pick<TokenStore, 'revokeForReuse'>;
  tokenStates: Pick<TokenStateStore, 'revoke' | 'revokeAll'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Clock;
  audit: Audit;
  boundedQueue: BoundedQueues;
  /** DATABASE_POOL. */
  pool: number;
}

/** Thefts that may wait for their record. */
const MAX_THEFTS = 10_000;
/** The most retries at once. Half of a pool is for requests, unless it has one connection alone. */
const AT_ONCE = 8;

interface Theft extends TokenKey {
  /** The smallest generation of a reused refresh token; undefined if it is not known. */
  since: number | undefined;
  /** The request that found the theft. Read at once, so that the queue keeps no request. */
  from: Sourced;
}

/**
 * Ends sessions whose superseded refresh token was presented again, and the long-lived tokens that they created since.
 * The step that found the theft has already left a tombstone in the fast store. The record must follow, or a rebuild
 * would bring the session back. While the record cannot be written, the theft stays queued here, and each retry renews
 * the tombstone, which tells the other replicas. One that finds the queue full is tried once; after that, the replica that
 * meets the tombstone next queues it again.
 */
export function makeEndForReuse(ports: EndForReusePorts) {
  const { tokens, tokenStates, revocations, clock, audit, boundedQueue } = ports;
  const atOnce = Math.max(1, Math.min(AT_ONCE, Math.floor(ports.pool / 2)));
  const queued = boundedQueue<number, Theft>({ queue: 'thefts', most: MAX_THEFTS, patience: null });

  /** @returns the theft, and whether it waits for a retry. */
  function enqueue({ userId, tokenId }: TokenKey, since: number | undefined, from: Sourced) {
    const known = queued.get(tokenId);
    const source = (known?.from ?? from).source;
    const theft: Theft = { userId, tokenId, since: oldest(known, since), from: { source } };
    return { theft, isQueued: queued.set(tokenId, theft) };
  }

  /** Record first, then the tombstones, as in tokens/revoke.ts. */
  async function write(theft: Theft): Promise<void> {
    const { userId, tokenId, since, from } = theft;
    const stolen = await tokens.revokeForReuse(userId, tokenId, clock.now(), since);
    // Keep it if a smaller generation was presented meanwhile.
    if (queued.get(tokenId) === theft) queued.delete(tokenId);
    if (!stolen) return;
    const { ended, pending } = stolen;
    // Audited before the next steps: if they fail, a retry finds nothing left to report.
    if (ended.length > 0) audit({ event: 'llt.ended_for_reuse', userId, tokenIds: ended, by: tokenId }, from);
    const tokenIds = [...ended, ...pending, tokenId];
    // If one of these fails, the next sweep does both again for the tokens that this has ended.
    await tokenStates.revoke(...tokenIds.map((tokenId) => ({ userId, tokenId })));
    await revocations.settle(tokenIds);
  }

  async function attempt(theft: Theft): Promise<void> {
    try {
      await write(theft);
    } catch (error) {
      ignoreOutage(error);
    }
  }

  /** A failure may have taken a timeout of the database, and is the last of its worker: the next round tries the rest. */
  async function attemptAll(thefts: Theft[]): Promise<void> {
    const attemptSome = async () => {
      for (let theft = thefts.shift(); theft; theft = thefts.shift()) {
        const { tokenId } = theft;
        try {
          await attempt(theft);
        } finally {
          // To the end: rows that somebody holds must not keep the others from their turn.
          if (queued.get(tokenId) === theft) {
            queued.delete(tokenId);
            queued.set(tokenId, theft);
          }
        }
        if (queued.get(tokenId) === theft) return;
      }
    };
    // All of them have to end: the next round must not begin beside one that still works.
    const rounds = await Promise.allSettled(Array.from({ length: atOnce }, attemptSome));
    for (const round of rounds) if (round.status === 'rejected') throw round.reason;
  }

  return {
    /** @param since the reused generation; undefined if only the tombstone of an earlier theft was found. */
    async end(key: TokenKey, since: number | undefined, from: Sourced): Promise<void> {
      // Queue first, so that any failure below is retried.
      await attempt(enqueue(key, since, from).theft);
    },
    /**
     * Queues a theft of unknown generation for the next retry.
     * @returns false if it is queued already, or there is no room.
     */
    queue(key: TokenKey, from: Sourced): boolean {
      return queued.get(key.tokenId) === undefined && enqueue(key, undefined, from).isQueued;
    },
    /** Renews the tombstones of queued thefts, and retries to write their records. */
    async retry(): Promise<void> {
      const thefts = queued.entries().map(([, theft]) => theft);
      if (thefts.length === 0) return;
      const keys = thefts.map(({ userId, tokenId }) => ({ userId, tokenId }));
      try {
        await tokenStates.revokeAll(keys, 'reused');
      } finally {
        // Also while the fast store is away: a shutdown would lose the thefts.
        await attemptAll(thefts);
      }
    },
    size: () => queued.size(),
  };
}

/**
 * A tombstone found after a theft of known generation most likely belongs to that theft. One found before it belongs to
 * another theft, whose generation is not known.
 */
function oldest(known: Theft | undefined, since: number | undefined): number | undefined {
  if (known?.since === undefined || since === undefined) return known ? known.since : since;
  return Math.min(known.since, since);
}

export type EndForReuse = ReturnType<typeof makeEndForReuse>;
