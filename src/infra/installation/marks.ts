import { randomBytes } from 'node:crypto';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from '../postgres/errors.ts';
import { isSilent, type Recorded, type RedisMark } from './binding.ts';

/** What PostgreSQL records of its Redis: the id of the one in use, and the newest marks. Times are by its clock. */
export interface Marks {
  /** @param marks those that Redis holds. @throws AuthError `unavailable` */
  read(marks: readonly string[]): Promise<Recorded>;
  /**
   * Shows that a replica serves with the Redis of this id, at most once in ten seconds for all replicas.
   * @param addsMark whether to record the next mark too.
   * @throws AuthError `unavailable`
   */
  beat(id: string, addsMark: boolean): Promise<void>;
  /** Records a new mark. @throws AuthError `unavailable` */
  add(): Promise<string>;
  /**
   * Names another Redis under a new id, unless another replica has done so meanwhile or is about to.
   * @param former the id that PostgreSQL named before.
   * @param label writes the id and this mark, which is recorded, to Redis. @returns whether it did
   * @param ifSilent only if no replica shows that it serves.
   * @returns the new id; null if nothing was changed, or only Redis.
   * @throws AuthError `unavailable`
   */
  claim(
    former: string | null,
    mark: string,
    label: (mark: RedisMark) => Promise<boolean>,
    ifSilent?: boolean,
  ): Promise<string | null>;
}

/** Milliseconds between two marks. */
export const INTERVAL = 10_000;

/** Marks that stay: 28 hours of service. */
const KEPT = 10_000;

/** For how long PostgreSQL knows a mark at least, in milliseconds. */
export const KNOWN_FOR = KEPT * INTERVAL;

/** An arbitrary id that no other advisory lock uses. */
const LOCK = 4_117_200_903;

/** The fact that holds the id; its time is that of the last sign of a serving replica. */
const FACT = 'redis_id';

/** Of the row `fact`. Not the statement's begin, which is before a wait for the row's lock. */
const QUIET_FOR = Prisma.sql`extract(epoch FROM clock_timestamp() - fact.at)::float8 * 1000 AS "quietFor"`;

interface Row {
  isStandby: boolean;
  id: string | null;
  quietFor: number | null;
  newest: string[];
  known: string[];
}

export function makeMarks(prisma: PrismaClient): Marks {
  return {
    read: (marks) =>
      mapDatabaseErrors(async () => {
        // A standby, or a primary that was replaced, lacks the newest marks.
        const [row] = refuseStandby(
          await prisma.$queryRaw<Row[]>`
            SELECT ${IS_STANDBY}, fact.value AS id,
              ${QUIET_FOR},
              ARRAY(SELECT mark FROM installation_marks ORDER BY at DESC LIMIT 2) AS newest,
              ARRAY(SELECT mark FROM installation_marks WHERE mark = ANY(${[...marks]}::text[])) AS known
            FROM (SELECT) AS one LEFT JOIN installation AS fact ON fact.name = ${FACT}`,
        );
        const { id, quietFor, known } = row;
        const [newest = null, before = null] = row.newest;
        return { id, quietFor, newest, before, known: new Set(known) };
      }),

    async beat(id, addsMark) {
      // Of several replicas, PostgreSQL lets one update the row, because it reads it again under its lock. A time that
      // is ahead comes from a server whose clock was.
      await mapDatabaseErrors(
        () => prisma.$executeRaw`
          WITH turn AS (
            UPDATE installation SET at = statement_timestamp()
            WHERE name = ${FACT} AND value = ${id}
              AND (at <= statement_timestamp() - ${INTERVAL} * interval '1 millisecond'
                OR at > statement_timestamp() + ${INTERVAL} * interval '1 millisecond')
            RETURNING 1
          ), gone AS (
            DELETE FROM installation_marks WHERE ${addsMark} AND EXISTS (SELECT FROM turn)
              AND at < (SELECT at FROM installation_marks ORDER BY at DESC OFFSET ${KEPT - 2} LIMIT 1)
          )
          INSERT INTO installation_marks (mark, at)
          SELECT ${random()}, greatest(statement_timestamp(),
            (SELECT max(at) + interval '1 millisecond' FROM installation_marks))
          FROM turn WHERE ${addsMark}`,
      );
    },

    async add() {
      const mark = random();
      await mapDatabaseErrors(
        () => prisma.$executeRaw`
          INSERT INTO installation_marks (mark, at) SELECT ${mark}, greatest(statement_timestamp(),
            (SELECT max(at) + interval '1 millisecond' FROM installation_marks))`,
      );
      return mark;
    },

    claim: (former, mark, label, ifSilent = false) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const [row] = await tx.$queryRaw<{ isFirst: boolean }[]>`
            SELECT pg_try_advisory_xact_lock(${LOCK}) AS "isFirst"`;
          if (row?.isFirst !== true) return null;
          // Nobody shows meanwhile that it serves: that waits for the row.
          const [fact] = await tx.$queryRaw<{ value: string; quietFor: number }[]>`
            SELECT value, ${QUIET_FOR} FROM installation AS fact WHERE name = ${FACT} FOR UPDATE`;
          if ((fact?.value ?? null) !== former) return null;
          if (ifSilent && fact && !isSilent(fact.quietFor)) return null;
          const id = random();
          // Redis first: if we end here, PostgreSQL still names the former one, and the next replica claims it.
          if (!(await label({ id, mark }))) return null;
          await tx.$executeRaw`
            INSERT INTO installation (name, value, at) VALUES (${FACT}, ${id}, statement_timestamp())
            ON CONFLICT (name) DO UPDATE SET value = excluded.value, at = excluded.at`;
          return id;
        }),
      ),
  };
}

function random(): string {
  return randomBytes(16).toString('base64url');
}
