import type { Objection } from '../../domain/standing.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from '../postgres/errors.ts';

/**
 * Says in a database that a seed has filled it, so that its accounts have passwords that others know. The
 * mark goes along with a backup, and nothing takes it away. Everything may throw AuthError `unavailable`.
 */
export interface SeedMark {
  isSet(): Promise<boolean>;
  /** Marks a database without accounts and services. @returns whether it is marked now, or was already. */
  set(): Promise<boolean>;
}

/** What a replica in production says when it finds the mark. */
export const SEEDED: Objection = {
  about: 'DATABASE_URL',
  problem:
    'a seed has filled this database, so others know the passwords of its accounts, and production does not serve it',
  action: 'give production a database that no SEED_FILE has filled',
};

/** An arbitrary id that no other advisory lock uses. */
const SEED_LOCK = 4_117_200_954;

export function makeSeedMark(prisma: PrismaClient): SeedMark {
  return {
    isSet: () =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<{ isStandby: boolean; isSet: boolean }[]>`
          SELECT ${IS_STANDBY}, ${IS_SET} AS "isSet"`;
        return refuseStandby(rows)[0].isSet;
      }),

    set: () =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          // Of several replicas that start at once, one marks, and the others see its mark.
          await tx.$executeRaw`SELECT pg_advisory_xact_lock(${SEED_LOCK})`;
          const [marked] = await tx.$queryRaw<[{ isSet: boolean }]>`SELECT ${IS_SET} AS "isSet"`;
          if (marked.isSet) return true;
          // No signup commits between the look and the mark.
          await tx.$executeRaw`LOCK TABLE users, service_clients IN SHARE ROW EXCLUSIVE MODE`;
          const added = await tx.$executeRaw`
            INSERT INTO seed_mark (at) SELECT statement_timestamp()
            WHERE NOT EXISTS (SELECT FROM users) AND NOT EXISTS (SELECT FROM service_clients)`;
          return added === 1;
        }),
      ),
  };
}

const IS_SET = Prisma.sql`EXISTS (SELECT FROM seed_mark)`;
