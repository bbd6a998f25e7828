import type { MailKind } from '../../domain/mail-kinds.ts';
import { hashOneTimeToken } from '../../domain/passwords/one-time-token.ts';
import { MAIL_HIDDEN, MAIL_WANTED, MAX_MAILS } from '../../domain/mails/wanted-mail.ts';
import type { MailStore, TakenMail } from '../../domain/mails/wanted-mail.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { lockCaller } from './caller-lock.ts';
import type { Postgres } from './client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { whereAccount } from './names.ts';
import { replaceTokens, UNEXPIRED, withToken } from './password-resets.ts';
import { ACCOUNT_COLUMNS, GIVEN_ADDRESS, toAccount, type AccountRow } from './rows.ts';

const NOW = Prisma.sql`clock_timestamp()`;
/** Not `clock_timestamp()`, with which PostgreSQL compares every row, because it may change from one to the next. */
const ago = (ms: number) => Prisma.sql`statement_timestamp() - ${ms} * interval '1 millisecond'`;

/** A mail that counts for the limit of its account. */
const RECENT = Prisma.sql`wanted_at > ${ago(MAIL_WANTED)}`;
const WAITING = Prisma.sql`(settled_at IS NULL AND ${RECENT})`;
const TAKEABLE = Prisma.sql`(${WAITING} AND coalesce(taken_at <= ${ago(MAIL_HIDDEN)}, true))`;

/** Asking again renews a mail that no mailer has taken, after half its time: so it keeps its place, and the gauge its age. */
const IS_RENEWED = Prisma.sql`(taken_at IS NULL AND wanted_at < ${ago(MAIL_WANTED / 2)})`;

/**
 * Those that no mailer has taken, and then those that are hidden no longer, each in the order of the index. A mail is
 * taken after it is wanted, so one that was taken an hour ago has expired.
 */
export function oldestQuery(limit: number): Prisma.Sql {
  const oldest = (which: Prisma.Sql) => Prisma.sql`
    SELECT id, user_id, taken_at, wanted_at FROM wanted_mails WHERE ${WAITING} AND ${which}
    ORDER BY taken_at, wanted_at, id LIMIT ${limit}`;
  return Prisma.sql`
    SELECT id, user_id AS "userId" FROM (
      (${oldest(Prisma.sql`taken_at IS NULL`)}) UNION ALL
      (${oldest(Prisma.sql`taken_at > ${ago(MAIL_WANTED)} AND taken_at <= ${ago(MAIL_HIDDEN)}`)})
    ) AS takeable ORDER BY taken_at NULLS FIRST, wanted_at, id LIMIT ${limit}`;
}

/** No account's id. */
const NOBODY = 0n;

interface Lifetimes {
  /** PASSWORD_RESET_TTL in seconds. */
  reset: number;
  /** EMAIL_VERIFICATION_TTL in seconds. */
  verification: number;
}

/** The table of each kind's tokens, with the setting that limits their life. */
const TOKENS = {
  password_reset: ['mailed_resets', 'reset'],
  email_verification: ['email_verifications', 'verification'],
} as const satisfies Record<MailKind, readonly [string, keyof Lifetimes]>;

/**
 * Wants a mail for an account, under the lock of its row. One that waits already stands for this one too.
 * @returns the milliseconds until the account may want one; 0 if it wants one now.
 */
export async function wantMail(
  tx: Prisma.TransactionClient,
  userId: bigint,
  kind: MailKind,
): Promise<number> {
  const ofAccount = Prisma.sql`user_id = ${userId} AND kind = ${kind}`;
  const again = await tx.$executeRaw`
      UPDATE wanted_mails SET wanted_at = CASE WHEN ${IS_RENEWED} THEN ${NOW} ELSE wanted_at END
      WHERE ${ofAccount} AND ${WAITING}`;
  const [latest] = await tx.$queryRaw<[{ count: number; freeIn: number }]>`
    SELECT count(*)::int AS count,
      coalesce(extract(epoch FROM min(wanted_at) - (${ago(MAIL_WANTED)})) * 1000, 0)::int AS "freeIn"
    FROM wanted_mails WHERE ${ofAccount} AND ${RECENT}`;
  const isFree = again === 0 && latest.count < MAX_MAILS;
  await tx.$executeRaw`
    INSERT INTO wanted_mails (user_id, kind, wanted_at)
    SELECT id, ${kind}, ${NOW} FROM users WHERE id = ${userId} AND ${isFree}`;
  return again > 0 || isFree ? 0 : Math.max(1, latest.freeIn);
}

/** The wanted mails in PostgreSQL. What withdraws them is in a trigger, so that replicas of 1.0.0 do so too. */
export function makeMailStore(
  postgres: Pick<Postgres, 'prisma' | 'probe' | 'inLane'>,
  ttls: Lifetimes,
): MailStore {
  const { prisma, probe, inLane } = postgres;
  let checking: Promise<void> | null = null;
  return {
    // One at a time for all requests: readiness and the clock's check need that connection too.
    check: () =>
      (checking ??= mapDatabaseErrors(async () => {
        const { rows } = await probe.query<{ isStandby: boolean }>(`SELECT ${IS_STANDBY.text}`);
        refuseStandby(rows);
      }).finally(() => {
        checking = null;
      })),

    wantReset: (name) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          // A commit then takes as long with an account as without. A server that crashes may forget the wish, as a
          // killed replica may.
          await tx.$executeRaw`SET LOCAL synchronous_commit = off`;
          const [user] = await tx.$queryRaw<{ id: bigint }[]>`
            SELECT id FROM users WHERE ${await whereAccount(tx, name)} AND disabled_at IS NULL FOR NO KEY UPDATE`;
          // The same statements for a name without an account, so that it costs the replica as much.
          await wantMail(tx, user?.id ?? NOBODY, 'password_reset');
        }),
      ),

    wantVerification: (caller) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, { token: caller.tokenId }, async (tx) => {
          await lockCaller(tx, { ...caller, withFactor: null });
          const id = BigInt(caller.userId);
          const { emailVerifiedAt } = await tx.user.findUniqueOrThrow({
            where: { id },
            select: { emailVerifiedAt: true },
          });
          if (emailVerifiedAt !== null) return { isVerified: true, freeIn: 0 };
          return { isVerified: false, freeIn: await wantMail(tx, id, 'email_verification') };
        }),
      ),

    take: (limit, newToken) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const oldest = await tx.$queryRaw<{ id: bigint; userId: bigint }[]>(oldestQuery(limit));
          if (oldest.length === 0) return [];
          // Accounts that another mailer or a change has locked come with the next call.
          const accounts = await tx.$queryRaw<(AccountRow & { email: string })[]>`
            SELECT ${ACCOUNT_COLUMNS}, ${GIVEN_ADDRESS} AS email FROM users
            WHERE id = ANY(${oldest.map(({ userId }) => userId)}) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`;
          // With a new id, so that a late mailer cannot settle what another one has taken.
          const rows = await tx.$queryRaw<MailRow[]>`
            UPDATE wanted_mails SET id = DEFAULT, taken_at = ${NOW}
            WHERE id = ANY(${oldest.map(({ id }) => id)}) AND user_id = ANY(${accounts.map(({ id }) => id)})
              AND ${TAKEABLE}
            RETURNING id, user_id AS "userId", kind`;
          const mails: TakenMail[] = [];
          for (const [kind, [table, ttl]] of Object.entries(TOKENS) as [
            MailKind,
            (typeof TOKENS)[MailKind],
          ][]) {
            const ofKind = rows
              .filter((row) => row.kind === kind)
              .map((row) => {
                const token = newToken(kind);
                return { ...row, token, tokenHash: hashOneTimeToken(token) };
              });
            const ends = await replaceTokens(tx, table, ofKind, ttls[ttl]);
            for (const { id, userId, token } of ofKind) {
              const account = accounts.find((row) => row.id === userId);
              const expiresAt = ends.get(userId);
              if (!account || expiresAt === undefined) throw new Error('a mail without its account');
              const user = toAccount(account);
              const { email } = account;
              mails.push({
                id: Number(id),
                kind,
                email,
                verified: user.emailVerified,
                token,
                expiresAt,
                user,
              });
            }
          }
          return mails;
        }),
      ),

    settle: (id) =>
      mapDatabaseErrors(async () => {
        await prisma.$executeRaw`
          UPDATE wanted_mails SET settled_at = ${NOW} WHERE id = ${BigInt(id)} AND settled_at IS NULL`;
      }),

    verify: (tokenHash) =>
      mapDatabaseErrors(() =>
        withToken(postgres, ['email_verifications'], tokenHash, async (tx, userId) => {
          await tx.$executeRaw`UPDATE users SET email_verified_at = now() WHERE id = ${BigInt(userId)}`;
          return userId;
        }),
      ),

    oldest: () =>
      mapDatabaseErrors(async () => {
        const [row] = await prisma.$queryRaw<[{ age: number }]>`
          SELECT coalesce(extract(epoch FROM ${NOW} - min(wanted_at)) * 1000, 0)::int AS age
          FROM wanted_mails WHERE ${WAITING}
            AND EXISTS (SELECT FROM service_clients WHERE 'mails' = ANY(rights) AND disabled_at IS NULL)`;
        return row.age;
      }),
  };
}

interface MailRow {
  id: bigint;
  userId: bigint;
  kind: string;
}

/** Deletes mails that are wanted no longer and count for no limit, and expired tokens. @throws AuthError `unavailable` */
export async function purgeMails(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM wanted_mails WHERE NOT ${RECENT}`);
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM email_verifications WHERE NOT ${UNEXPIRED}`);
}

/** Voids every verification token: after a restore, one that was used since the backup would be good again. */
export async function voidAllVerifications(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM email_verifications`);
}
