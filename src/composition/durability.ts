import { randomUUID } from 'node:crypto';
import type { FastifyBaseLogger } from 'fastify';
import type { BackgroundTasks } from '../runtime/background-tasks.ts';
import type { OpenedTokenStates } from './open-token-states.ts';
import type { Audit } from '../domain/audit/event.ts';
import type { Clock } from '../domain/clock.ts';
import type { BoundedQueues } from '../domain/limits/bounded.ts';
import { AuthError, ignoreOutage } from '../domain/errors.ts';
import type { Standing } from '../domain/standing.ts';
import { makeEndForReuse } from '../domain/sessions/end-for-reuse.ts';
import { makeWriteBehind } from '../domain/tokens/write-behind.ts';
import { INTERVAL as RENEWAL_INTERVAL } from '../domain/tokens/lease.ts';
import { makeRenewChanges } from '../domain/tokens/renew-changes.ts';
import { makeRenewals } from '../domain/tokens/renewals.ts';
import { makeRevocations } from '../domain/tokens/revocations.ts';
import { makeRevokeTokens } from '../domain/tokens/revoke.ts';
import type { TokenStore } from '../domain/tokens/ports.ts';
import { makeChangedUsers } from '../infra/postgres/changed-users.ts';
import { makeRevocationStore } from '../infra/postgres/revocation-store.ts';
import { makeStateWriter } from '../infra/postgres/state-writer.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { pause } from '../infra/pause.ts';
import { atEndOfTick } from '../infra/tick.ts';

interface DurabilityParts {
  tokenStates: OpenedTokenStates;
  tokens: TokenStore;
  postgres: Postgres;
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
  /** DATABASE_POOL. */
  pool: number;
  /** DATABASE_TIMEOUT in milliseconds. */
  databaseTimeout: number;
  clock: Clock;
  boundedQueue: BoundedQueues;
  /** Whether the settings are those of the installation; until then, this replica does not even ask whose Redis it has. */
  settings: Standing;
  audit: Audit;
  tasks: Pick<BackgroundTasks, 'every'>;
  logger: FastifyBaseLogger;
}

/** Interval of each task, in milliseconds. */
const INTERVAL = 1000;

/** The background work that makes sessions and revocations survive the loss of a store (see ARCHITECTURE.md). */
export function makeDurability(parts: DurabilityParts) {
  const { tokenStates, tokens, postgres, cacheTtl, clock, boundedQueue, settings, audit, tasks, logger } =
    parts;
  const { gate } = tokenStates;
  const settled = makeRevocationStore(postgres);
  const writeBehind = makeWriteBehind({
    writer: makeStateWriter(postgres.prisma),
    tokenStates: tokenStates.tokenStates,
    revocations: settled,
    clock,
    boundedQueue,
  });
  const { unpublishedStates, feed, leases } = tokenStates;
  const unpublished = { tokenStates: unpublishedStates, feed, leases, clock };
  const changes = makeRenewChanges({ ...unpublished, users: makeChangedUsers(postgres) });
  const revocations = makeRevocations({ ...unpublished, revocations: settled });
  const renewals = makeRenewals({
    ...unpublished,
    self: randomUUID(),
    revocations: settled,
    changes,
    pause,
  });
  const revocation = {
    tokenStates: tokenStates.tokenStates,
    tokens,
    revocations: settled,
    clock,
    boundedQueue,
  };
  const endOfTick = () =>
    new Promise<void>((resolve) => {
      atEndOfTick(resolve);
    });
  const {
    revoke,
    revokeByCaller,
    settled: marksSettled,
  } = makeRevokeTokens({
    ...revocation,
    endOfTick,
    patience: parts.databaseTimeout,
    pause,
  });
  const endForReuse = makeEndForReuse({ ...revocation, audit, pool: parts.pool });
  tasks.every(INTERVAL, 'write check', () => tokenStates.check());
  const look = async () => {
    // A look may give Redis a mark.
    if (settings.objection() !== null) throw new AuthError('unavailable');
    await tokenStates.look();
  };
  // On its own, because a database that hangs must not delay the write check. Both stores report their failures.
  const lookAgain = () => look().catch(ignoreOutage);
  tasks.every(INTERVAL, null, lookAgain, lookAgain);
  tasks.every(INTERVAL, 'write-behind', () => writeBehind.flush());
  tasks.every(INTERVAL, 'revocation sweep', () => revocations.sweep());
  tasks.every(RENEWAL_INTERVAL, 'tombstone renewal', () => {
    renewals.tick();
  });
  tasks.every(INTERVAL, 'user sweep', () => changes.sweep());
  tasks.every(RENEWAL_INTERVAL, 'user renewal', () => changes.renewHeld(renewals.held()));
  tasks.every(INTERVAL, 'reuse queue', () => endForReuse.retry());
  return {
    writeBehind,
    revoke,
    revokeByCaller,
    endForReuse,
    revocations: settled,
    /** For the metrics. */
    pendingRevocations: () => revocations.pending(),
    reuseQueue: () => endForReuse.size(),

    /** Connects to the fast store. */
    connect(): void {
      if (!gate) void lookAgain();
      // An old snapshot brings keys back for at most one SESSION_CACHE_TTL; the replay covers twice that time.
      gate?.start(
        async () => {
          await look();
          await tokenStates.checkMasters();
          // A full Redis fails here, and serves what it holds.
          await tokenStates.check().catch(ignoreOutage);
          await revocations.sweep();
          await revocations.renew(2 * cacheTtl * 1000);
          await changes.renew(2 * cacheTtl * 1000);
        },
        {
          failed: (reason) => {
            logger.warn({ reason }, 'revocations cannot be replayed: sessions are not served yet');
          },
          replayed: () => {
            logger.info('revocations are replayed');
          },
        },
      );
      tokenStates.connect();
    },

    /** Of a replica that may not write: what it leaves undone. */
    abandon(): void {
      const [rotations, sessions] = [writeBehind.size(), endForReuse.size()];
      if (rotations + sessions > 0)
        logger.error(
          { rotations, sessions },
          'this replica may not serve: its last rotations are not written, nor that these stolen sessions have ended',
        );
    },

    /** Writes what is pending, once the background tasks have stopped. */
    async finish(): Promise<void> {
      // Otherwise another replica takes over a little later.
      const released = renewals.release().catch(() => undefined);
      await marksSettled();
      await endForReuse.retry().catch(() => undefined);
      if (endForReuse.size() > 0) {
        logger.error({ sessions: endForReuse.size() }, 'stolen sessions are not on record as ended');
      }
      await writeBehind.flush().catch((error: unknown) => {
        logger.error({ reason: (error as Error).message }, 'the last rotations could not be written');
      });
      await released;
    },
  };
}

export type Durability = ReturnType<typeof makeDurability>;
