import type { TokenKey } from '../../domain/principal.ts';
import type { Lifetimes } from '../../domain/tokens/claims.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

/** Tokens, or users, per transaction. */
const PAGE = 1000;

/** Tokens per statement that only reads. */
const SURVEY_PAGE = 20_000;

/**
 * By how much the versions of services and users rise: by more than they have changed since the backup. A service that
 * reads the feed keeps the highest version that it has seen, so it would refuse new tokens and ignore events of a lower one.
 */
const LOST_VERSIONS = 1_000_000;

/**
 * A higher version than any before. The seconds since 2020 make it so if the same backup is restored twice: both times,
 * LOST_VERSIONS alone would give the same version.
 */
const RAISED = Prisma.sql`greatest(version + ${LOST_VERSIONS}::int,
  extract(epoch FROM clock_timestamp() - timestamptz '2020-01-01 00:00:00Z')::int)`;

/** One number for each of the two id sequences. */
export interface Ids {
  users: number;
  tokens: number;
}

/** The ids that PostgreSQL assigned last, or 0. */
export async function lastIds(prisma: PrismaClient): Promise<Ids> {
  const [row] = await mapDatabaseErrors(
    () => prisma.$queryRaw<Record<keyof Ids, bigint>[]>`
      SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('users', 'id')::regclass), 0) AS users,
             coalesce(pg_sequence_last_value(pg_get_serial_sequence('tokens', 'id')::regclass), 0) AS tokens`,
  );
  return { users: Number(row?.users), tokens: Number(row?.tokens) };
}

/** What the record says about its tokens. */
export interface TokenSurvey {
  /** When a token on record was last created or used, in milliseconds since 1970; 0 if there is none. */
  newest: number;
  /** Sessions that are good by the record. */
  sessions: number;
  /** Long-lived tokens that are good by the record. */
  longLived: number;
}

/**
 * Reads every token record. The newest use tells the age of a backup, because only a replica writes it. Other changes, such
 * as a disabled account, may also be those of a command that ran after the restore, and of `recover` itself.
 * @param now milliseconds since 1970. A later time on record is a wrong clock's, and does not count.
 */
export async function surveyTokens(
  prisma: PrismaClient,
  now: number,
  { refreshToken, session }: Lifetimes,
): Promise<TokenSurvey> {
  const survey: TokenSurvey = { newest: 0, sessions: 0, longLived: 0 };
  const time = new Date(now);
  const micros = BigInt(Math.floor(now * 1000));
  const usedSince = micros - BigInt(refreshToken) * 1_000_000n;
  const createdSince = new Date(session === 0 ? 0 : now - session * 1000);
  for (let after = 0; ;) {
    const [page] = await mapDatabaseErrors(
      () => prisma.$queryRaw<Record<'last' | keyof TokenSurvey, bigint | null>[]>`
        SELECT max(id) AS last,
          coalesce(extract(epoch FROM greatest(
            max(created_at) FILTER (WHERE created_at <= ${time}::timestamptz),
            max(last_used_at) FILTER (WHERE last_used_at <= ${time}::timestamptz),
            to_timestamp(max(latest) FILTER (WHERE latest <= ${micros}::bigint) / 1e6)
          )) * 1000, 0)::bigint AS newest,
          count(*) FILTER (WHERE type = 'session' AND revoked_at IS NULL
            AND latest > ${usedSince}::bigint AND created_at > ${createdSince}::timestamptz) AS sessions,
          count(*) FILTER (WHERE type = 'llt' AND revoked_at IS NULL
            AND coalesce(expires_at > ${time}::timestamptz, true)) AS "longLived"
        FROM (SELECT * FROM tokens WHERE id > ${BigInt(after)}::bigint ORDER BY id LIMIT ${SURVEY_PAGE}) AS page`,
    );
    const last = page?.last ?? null;
    if (!page || last === null) return survey;
    survey.newest = Math.max(survey.newest, Number(page.newest));
    survey.sessions += Number(page.sessions);
    survey.longLived += Number(page.longLived);
    after = Number(last);
  }
}

/** PostgreSQL's clock, in milliseconds since 1970. */
export async function databaseTime(prisma: PrismaClient): Promise<number> {
  const [row] = await mapDatabaseErrors(
    () => prisma.$queryRaw<{ now: bigint }[]>`
      SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now`,
  );
  return Number(row?.now);
}

/** Makes the next ids greater than these, and never lowers them. */
export async function skipIds(prisma: PrismaClient, { users, tokens }: Ids): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$queryRaw`
      SELECT setval(pg_get_serial_sequence('users', 'id'),
               greatest(nextval(pg_get_serial_sequence('users', 'id')), ${users}::bigint)),
             setval(pg_get_serial_sequence('tokens', 'id'),
               greatest(nextval(pg_get_serial_sequence('tokens', 'id')), ${tokens}::bigint))`,
  );
}

/**
 * Revokes in the record the tokens that still have a tombstone in Redis. The reason was lost with the record. The
 * tombstones remain, and the service's replay renews them.
 * @returns how many were live in the record.
 */
export async function endAgain(prisma: PrismaClient, tombstones: readonly TokenKey[]): Promise<number> {
  return mapDatabaseErrors(
    () => prisma.$executeRaw`
      UPDATE tokens SET revoked_at = now(), pending = true
      FROM unnest(${tombstones.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
        ${tombstones.map(({ userId }) => BigInt(userId))}::bigint[]) AS given(id, user_id)
      WHERE tokens.id = given.id AND tokens.user_id = given.user_id AND tokens.revoked_at IS NULL`,
  );
}

/** Returns the tokens that have no record. */
export async function withoutRecord(prisma: PrismaClient, tokens: readonly TokenKey[]): Promise<TokenKey[]> {
  const rows = await mapDatabaseErrors(
    () => prisma.$queryRaw<{ id: bigint; user_id: bigint }[]>`
      SELECT given.id, given.user_id
      FROM unnest(${tokens.map(({ tokenId }) => BigInt(tokenId))}::bigint[],
        ${tokens.map(({ userId }) => BigInt(userId))}::bigint[]) AS given(id, user_id)
      LEFT JOIN tokens USING (id, user_id) WHERE tokens.id IS NULL`,
  );
  return rows.map(({ id, user_id: userId }) => ({ tokenId: Number(id), userId: Number(userId) }));
}

/** Ends the service tokens of every client: after the backup, an operator may have ended those of some. */
export async function endServiceTokens(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`UPDATE service_clients SET version = ${RAISED}`);
}

/**
 * Lets every later change of a user have a higher version than any before the restore. This is no change itself, so it marks
 * nobody as pending.
 */
export async function raiseUserVersions(prisma: PrismaClient): Promise<void> {
  for (let after: bigint | null = 0n; after !== null;) {
    const page: { last: bigint | null }[] = await mapDatabaseErrors(
      () => prisma.$queryRaw`
        WITH page AS (
          SELECT max(id) AS last FROM (SELECT id FROM users WHERE id > ${after} ORDER BY id LIMIT ${PAGE}) AS ids
        ), raised AS (
          UPDATE users SET version = ${RAISED}
          WHERE id > ${after} AND id <= (SELECT last FROM page)
        )
        SELECT last FROM page`,
    );
    after = page[0]?.last ?? null;
  }
}

/**
 * Ends every session and long-lived token in the record, also what seems to have expired: it may have been used after the
 * backup. The service sets their tombstones.
 * @returns how many.
 */
export async function endAll(prisma: PrismaClient): Promise<number> {
  let total = 0;
  for (let after: bigint | null = 0n; after !== null;) {
    const page: { last: bigint | null; ended: bigint }[] = await mapDatabaseErrors(
      () => prisma.$queryRaw`
        WITH page AS (
          SELECT max(id) AS last FROM (SELECT id FROM tokens WHERE id > ${after} ORDER BY id LIMIT ${PAGE}) AS ids
        ), ended AS (
          UPDATE tokens SET revoked_at = now(), pending = true, end_reason = 'admin'
          WHERE id > ${after} AND id <= (SELECT last FROM page) AND revoked_at IS NULL
          RETURNING id
        )
        SELECT last, (SELECT count(*) FROM ended) AS ended FROM page`,
    );
    total += Number(page[0]?.ended ?? 0);
    after = page[0]?.last ?? null;
  }
  return total;
}
