import type { FastifyBaseLogger } from 'fastify';
import { makeBackground, reasonOf } from './background.ts';
import type { States } from './compose-states.ts';
import type { Clock } from './domain/clock.ts';
import type { Observe } from './domain/metrics/observe.ts';
import { makeEndForReuse } from './domain/sessions/end-for-reuse.ts';
import { makeWriteBehind } from './domain/sessions/write-behind.ts';
import { makeRevocations } from './domain/tokens/revocations.ts';
import { makeRevoke } from './domain/tokens/revoke.ts';
import type { TokenStore } from './domain/tokens/ports.ts';
import { makeRevocationStore } from './infra/postgres/revocation-store.ts';
import { makeStateWriter } from './infra/postgres/state-writer.ts';
import type { PrismaClient } from './generated/prisma/client.ts';

interface DurabilityParts {
  states: States;
  tokens: TokenStore;
  prisma: PrismaClient;
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
  clock: Clock;
  observe: Observe;
  logger: FastifyBaseLogger;
}

/** Between two runs of each task, in milliseconds. */
const INTERVAL = 1000;

/** What makes sessions and revocations survive a store's loss, and runs beside the requests (see ARCHITECTURE.md). */
export function makeDurability(parts: DurabilityParts) {
  const { states, tokens, prisma, cacheTtl, clock, observe, logger } = parts;
  const { gate } = states;
  const check = () => states.check();
  const settled = makeRevocationStore(prisma);
  const writeBehind = makeWriteBehind({
    writer: makeStateWriter(prisma),
    states: states.states,
    revocations: settled,
    clock,
  });
  const revocations = makeRevocations({
    revocations: settled,
    states: states.unpublished,
    feed: states.feed,
    clock,
  });
  const revoke = makeRevoke({ states: states.states, tokens, revocations: settled, clock });
  const endForReuse = makeEndForReuse({ revoke, states: states.states });
  const background = makeBackground(logger, observe);
  return {
    writeBehind,
    revoke,
    endForReuse,
    revocations: settled,
    /** For the metrics. */
    pendingRevocations: () => revocations.pending(),
    reuseQueue: () => endForReuse.size(),

    /** Connects to the fast store. */
    connect(): void {
      let failure: string | null = null;
      // Keys that an old snapshot brings back live for one SESSION_CACHE_TTL at most; twice that is replayed.
      gate?.start(
        async () => {
          await check();
          await revocations.sweep();
          await revocations.renew(2 * cacheTtl * 1000);
          if (failure !== null) logger.info('revocations are replayed');
          failure = null;
        },
        (error) => {
          // Tried again at once: only what has changed is worth a line.
          const reason = reasonOf(error);
          if (reason === failure) return;
          failure = reason;
          logger.warn({ reason }, 'revocations cannot be replayed: sessions are not served yet');
        },
      );
      states.connect();
    },

    /** Starts what runs beside the requests. */
    start(): void {
      background.every(INTERVAL, 'write check', check);
      background.every(INTERVAL, 'write-behind', () => writeBehind.flush());
      background.every(INTERVAL, 'revocation sweep', () => revocations.sweep());
      background.every(INTERVAL, 'tombstone renewal', () => revocations.renewRecent());
      background.every(INTERVAL, 'reuse queue', () => endForReuse.retry());
    },

    /** Ends that, and writes what is still noted. */
    async stop(): Promise<void> {
      await background.stop();
      await endForReuse.retry().catch(() => undefined);
      if (endForReuse.size() > 0) {
        logger.error({ sessions: endForReuse.size() }, 'stolen sessions are not on record as ended');
      }
      await writeBehind.flush().catch((error: unknown) => {
        logger.error({ reason: (error as Error).message }, 'the last rotations could not be written');
      });
    },
  };
}

export type Durability = ReturnType<typeof makeDurability>;
