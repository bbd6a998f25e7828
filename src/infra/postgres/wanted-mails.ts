import { canonicalAddress } from '../../domain/address.ts';
import {
  MAIL_KINDS,
  MAIL_WINDOW,
  type MailKind,
  type NoticeEvent,
  type TokenKind,
} from '../../domain/mail-kinds.ts';
import { MAIL_HIDDEN, MAIL_WANTED, MAX_MAILS, resetWindow } from '../../domain/mails/wanted-mail.ts';
import type {
  InvitationObstacle,
  MailStore,
  TakenMail,
  UndeliverableAccount,
} from '../../domain/mails/wanted-mail.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { WAITING as UNKEYED } from './address-keys.ts';
import { lockCaller } from './caller-lock.ts';
import type { Postgres } from './client.ts';
import { IS_STANDBY, mapDatabaseErrors, onPrimary, refuseStandby } from './errors.ts';
import { KNOWN_CALLERS } from './known-devices.ts';
import { completeKeys, hasAddress, inLaneOf, whereAccount } from './names.ts';
import { addTokens, keepUsed, proveAddress, repeatedProof, withToken } from './one-time-tokens.ts';
import {
  ACCOUNT_COLUMNS,
  GIVEN_ADDRESS,
  SERVED_COLUMNS,
  toAccount,
  toUser,
  type AccountRow,
  type ServedRow,
} from './rows.ts';

const NOW = Prisma.sql`clock_timestamp()`;
const MS = Prisma.sql`interval '1 millisecond'`;
/** Not `clock_timestamp()`, with which PostgreSQL compares every row, because it may change from one to the next. */
const START = Prisma.sql`statement_timestamp()`;
const ago = (ms: number) => Prisma.sql`${START} - ${ms} * ${MS}`;

/** By the kind of a row, in milliseconds. */
const WANTED_FOR = Prisma.raw(
  `CASE kind ${MAIL_KINDS.map((kind) => `WHEN '${kind}' THEN ${MAIL_WANTED[kind]}`).join(' ')} END`,
);
/** By the tries of a row, in milliseconds; null if it was never taken. */
const HIDDEN_FOR = Prisma.raw(`(ARRAY[${MAIL_HIDDEN.join(', ')}])[tries]`);
const MAX_TRIES = MAIL_HIDDEN.length;

const IN_TIME = Prisma.sql`wanted_at > ${START} - ${WANTED_FOR} * ${MS}`;
const WAITING = Prisma.sql`(settled_at IS NULL AND tries < ${MAX_TRIES}::int AND ${IN_TIME})`;
const TAKEABLE = Prisma.sql`(${WAITING} AND coalesce(taken_at <= ${START} - ${HIDDEN_FOR} * ${MS}, true))`;

/** Asking again renews a mail that no mailer has taken, after half its time: so it keeps its place, and the gauge its age. */
const IS_RENEWED = Prisma.sql`(taken_at IS NULL AND wanted_at < ${START} - ${WANTED_FOR} / 2 * ${MS})`;

/** The kinds as a table, each with the time after which its mails were wanted that still are. The column is in this order. */
const kindsOf = (kinds: readonly MailKind[]) => Prisma.sql`(
  SELECT kind COLLATE "C" AS kind, ${START} - wanted * ${MS} AS since
  FROM unnest(${[...kinds]}::text[], ${kinds.map((kind) => MAIL_WANTED[kind])}::int[]) AS given(kind, wanted))`;

/** The tries after which a mail can be taken again, each with the time before which it was taken. */
const TRIES = Prisma.sql`(
  SELECT tries, ${START} - hidden * ${MS} AS shown
  FROM unnest(${MAIL_HIDDEN.slice(0, -1).map((_, i) => i + 1)}::int[], ${MAIL_HIDDEN.slice(0, -1)}::int[])
    AS given(tries, hidden))`;

/**
 * Those that no mailer has taken, and then those that are hidden no longer, each in the order of the index. It is asked
 * for each kind and number of tries, so that no number of mails that nobody takes, or that are hidden, slows it down. A
 * mail is taken after it is wanted, so one that was taken before a time has expired with those that were wanted then.
 */
export function oldestQuery(limit: number, kinds: readonly MailKind[]): Prisma.Sql {
  const oldest = (which: Prisma.Sql) => Prisma.sql`
    SELECT id, user_id, taken_at, wanted_at FROM wanted_mails
    WHERE settled_at IS NULL AND kind = kinds.kind AND wanted_at > kinds.since AND ${which}
    ORDER BY taken_at, wanted_at, id LIMIT ${limit}`;
  const untaken = Prisma.sql`tries = 0 AND taken_at IS NULL`;
  const taken = Prisma.sql`tries = tried.tries AND taken_at > kinds.since AND taken_at <= tried.shown`;
  return Prisma.sql`
    SELECT id, user_id AS "userId" FROM (
      (SELECT mails.* FROM ${kindsOf(kinds)} AS kinds, LATERAL (${oldest(untaken)}) AS mails) UNION ALL
      (SELECT mails.* FROM ${kindsOf(kinds)} AS kinds, ${TRIES} AS tried, LATERAL (${oldest(taken)}) AS mails)
    ) AS takeable ORDER BY taken_at NULLS FIRST, wanted_at, id LIMIT ${limit}`;
}

/** No account's id. */
const NOBODY = 0n;

/** How long each token is good, in seconds. */
type TokenLives = Readonly<Record<TokenKind, number>>;

interface MailWish {
  /** Of a reset: whether a device asks that the account knows. */
  isKnown?: boolean;
  /** Where the mail goes, as it was given, if not to the address in force. */
  address?: string;
  /** For how long it counts for the limit of the account, in milliseconds. */
  window?: number;
}

/**
 * Locks those who want a mail for an address, out of any account, until the transaction ends: between their counts and
 * their wishes, others would want more than the address may get. It comes after the user's row, and nothing that others
 * may hold is locked after it.
 */
async function lockAddress(tx: Prisma.TransactionClient, key: string): Promise<void> {
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(${ADDRESS_CLASS}::int, hashtext(${key}))`;
}

/** What the trigger leaves of the address when its account is deleted. */
const erasedKey = (key: string) => Prisma.sql`'erased ' || (hashtext(${key}) & 65535)`;

/** An arbitrary class of advisory locks, which no others use. */
const ADDRESS_CLASS = 411_720;

/**
 * Wants a mail for an account, under the lock of its row. One that waits already stands for this one too. A disabled
 * account wants none, and one whose address cannot be reached only proofs.
 * @returns the milliseconds until the account may want one; 0 if nothing but the state of the account is in the way.
 */
export async function wantMail(
  tx: Prisma.TransactionClient,
  userId: bigint,
  kind: TokenKind,
  { isKnown = false, address, window = MAIL_WINDOW }: MailWish = {},
): Promise<number> {
  const key = address === undefined ? null : canonicalAddress(address);
  if (key !== null) await lockAddress(tx, key);
  const ofAccount = Prisma.sql`user_id = ${userId} AND kind = ${kind} AND is_known = ${isKnown}`;
  const again = await tx.$executeRaw`
      UPDATE wanted_mails SET wanted_at = CASE WHEN ${IS_RENEWED} THEN ${NOW} ELSE wanted_at END
      WHERE ${ofAccount} AND ${WAITING}`;
  let freeIn = await timeUntilFree(tx, ofAccount, window);
  // Somebody with many accounts must not flood a mailbox whose owner has none.
  if (key !== null)
    freeIn = Math.max(
      freeIn,
      await timeUntilFree(
        tx,
        Prisma.sql`address_key IN (${key}, ${erasedKey(key)}) AND kind = ${kind}`,
        window,
      ),
    );
  const isProof: boolean = kind === 'email_verification' || kind === 'email_change';
  await tx.$executeRaw`
    INSERT INTO wanted_mails (user_id, kind, is_known, address, address_key, wanted_at)
    SELECT id, ${kind}, ${isKnown}::boolean, ${address ?? null}::text, ${key}::text, ${NOW} FROM users
    WHERE id = ${userId} AND ${again === 0 && freeIn === 0} AND disabled_at IS NULL
      AND (${isProof} OR undeliverable_at IS NULL)`;
  return again > 0 ? 0 : freeIn;
}

/** @returns the milliseconds until fewer than `MAX_MAILS` were wanted within the window; 0 if so few were. */
async function timeUntilFree(
  tx: Prisma.TransactionClient,
  which: Prisma.Sql,
  window: number,
): Promise<number> {
  const [latest] = await tx.$queryRaw<[{ count: number; freeIn: number }]>`
    SELECT count(*)::int AS count,
      coalesce(extract(epoch FROM min(wanted_at) - (${ago(window)})) * 1000, 0)::int AS "freeIn"
    FROM wanted_mails WHERE ${which} AND wanted_at > ${ago(window)}`;
  return latest.count < MAX_MAILS ? 0 : Math.max(1, latest.freeIn);
}

/**
 * Wants a notice for an account, under the lock of its row and before the change of which it tells: it goes to the
 * address that is in force before. An address that nobody has proved gets none, or anyone could have mails sent to it.
 */
export async function wantNotice(
  tx: Prisma.TransactionClient,
  userId: bigint,
  event: NoticeEvent,
): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO wanted_mails (user_id, kind, event, address, address_key, wanted_at)
    SELECT id, 'notice', ${event}, ${GIVEN_ADDRESS}, nullif(coalesce(email_key, email), ${UNKEYED}), ${NOW} FROM users
    WHERE id = ${userId} AND email_verified_at IS NOT NULL AND undeliverable_at IS NULL AND disabled_at IS NULL
      AND (
        SELECT count(*) FROM wanted_mails
        WHERE user_id = ${userId} AND kind = 'notice' AND event = ${event} AND wanted_at > ${ago(MAIL_WINDOW)}
      ) < ${MAX_MAILS}`;
}

/** The wanted mails in PostgreSQL. What withdraws them is in a trigger, so that replicas of 1.0.0 do so too. */
export function makeMailStore(
  postgres: Pick<Postgres, 'prisma' | 'probe' | 'inLane'>,
  lives: TokenLives,
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

    wantReset: (name, isKnown) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          // A commit then takes as long with an account as without. A server that crashes may forget the wish, as a
          // killed replica may.
          await tx.$executeRaw`SET LOCAL synchronous_commit = off`;
          const [user] = await tx.$queryRaw<{ id: bigint; knownCallers: string[] }[]>`
            SELECT id, ${KNOWN_CALLERS} FROM users
            WHERE ${await whereAccount(tx, name)} AND disabled_at IS NULL FOR NO KEY UPDATE`;
          // The same statements for a name without an account, so that it costs the replica as much.
          await wantMail(tx, user?.id ?? NOBODY, 'password_reset', {
            isKnown: user !== undefined && isKnown({ ...user, userId: Number(user.id) }),
            window: resetWindow(lives.password_reset),
          });
        }),
      ),

    wantVerification: (caller) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, { token: caller.tokenId }, async (tx) => {
          await lockCaller(tx, { ...caller, withFactor: null });
          const id = BigInt(caller.userId);
          const { emailVerifiedAt, undeliverableAt } = await tx.user.findUniqueOrThrow({
            where: { id },
            select: { emailVerifiedAt: true, undeliverableAt: true },
          });
          // One that could not be reached has to be proved anew.
          if (emailVerifiedAt !== null && undeliverableAt === null) return { isVerified: true, freeIn: 0 };
          return { isVerified: false, freeIn: await wantMail(tx, id, 'email_verification') };
        }),
      ),

    wantInvitation: (userId) =>
      mapDatabaseErrors(() =>
        inLaneOf(postgres, { id: userId }, async (tx, isIt) => {
          const [user] = await tx.$queryRaw<{ id: bigint; obstacle: InvitationObstacle | null }[]>`
            SELECT id, CASE WHEN disabled_at IS NOT NULL THEN 'disabled'
              WHEN password_version > 0 OR EXISTS (SELECT FROM tokens WHERE user_id = users.id) THEN 'used'
              WHEN undeliverable_at IS NOT NULL THEN 'undeliverable' END AS obstacle
            FROM users WHERE ${isIt} FOR NO KEY UPDATE`;
          if (!user) return null;
          const { id, obstacle } = user;
          return { obstacle, freeIn: obstacle === null ? await wantMail(tx, id, 'invitation') : 0 };
        }),
      ),

    take: (limit, kinds, newToken) =>
      mapDatabaseErrors(() =>
        prisma.$transaction(async (tx) => {
          const oldest = await tx.$queryRaw<{ id: bigint; userId: bigint }[]>(oldestQuery(limit, kinds));
          if (oldest.length === 0) return [];
          // Accounts that another mailer or a change has locked come with the next call.
          const accounts = await tx.$queryRaw<MailedAccount[]>`
            SELECT ${ACCOUNT_COLUMNS}, ${GIVEN_ADDRESS} AS email FROM users
            WHERE id = ANY(${oldest.map(({ userId }) => userId)}) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`;
          // With a new id, so that a late mailer cannot settle what another one has taken.
          const rows = await tx.$queryRaw<MailRow[]>`
            UPDATE wanted_mails SET id = DEFAULT, taken_at = ${NOW}, tries = tries + 1
            WHERE id = ANY(${oldest.map(({ id }) => id)}) AND user_id = ANY(${accounts.map(({ id }) => id)})
              AND ${TAKEABLE}
            RETURNING id, user_id AS "userId", kind, event, address, wanted_at AS "wantedAt"`;
          return withTokens(tx, rows, accounts, (kind) => ({ token: newToken(kind), ttl: lives[kind] }));
        }),
      ),

    settle: (id) =>
      mapDatabaseErrors(async () => {
        const [row] = await prisma.$queryRaw<{ kind: MailKind }[]>`
          UPDATE wanted_mails SET settled_at = ${NOW} WHERE id = ${BigInt(id)} AND settled_at IS NULL RETURNING kind`;
        return row?.kind ?? null;
      }),

    markUndeliverable: (key) =>
      mapDatabaseErrors(async () => {
        await completeKeys(prisma, [key]);
        const owners = await onPrimary<{ id: bigint }>(
          prisma,
          Prisma.sql`
            SELECT id FROM users WHERE ${hasAddress(key)}
            UNION SELECT id FROM users WHERE pending_key = ${key}
            UNION SELECT user_id AS id FROM wanted_mails WHERE address_key = ${key} AND settled_at IS NULL`,
        );
        const marked: UndeliverableAccount[] = [];
        for (const { id } of owners) {
          const account = await inLane(Number(id), 'service', (tx) => markAccount(tx, id, key));
          if (account) marked.push(account);
        }
        return marked;
      }),

    verify: (tokenHash) =>
      mapDatabaseErrors(() =>
        withToken(postgres, ['email_verification'], tokenHash, async (tx, token, { user }) => {
          if (token.isUsed) return repeatedProof(tx, token.userId);
          const proved = await proveAddress(tx, token.userId);
          await keepUsed(tx, token, tokenHash);
          return { user: proved ?? user, isNew: true, isPending: true };
        }),
      ),

    oldest: () =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<{ kind: MailKind; age: number }[]>`
          SELECT kinds.kind, coalesce(extract(epoch FROM ${NOW} - (
            SELECT min(wanted_at) FROM wanted_mails WHERE kind = kinds.kind AND ${WAITING})) * 1000, 0)::int AS age
          FROM ${kindsOf(MAIL_KINDS)} AS kinds
          WHERE EXISTS (SELECT FROM service_clients WHERE 'mails' = ANY(rights) AND disabled_at IS NULL)`;
        const ages = new Map(rows.map(({ kind, age }) => [kind, age]));
        return Object.fromEntries(MAIL_KINDS.map((kind) => [kind, ages.get(kind) ?? 0])) as Record<
          MailKind,
          number
        >;
      }),

    dropOverdue: () =>
      mapDatabaseErrors(async () => {
        const rows = await prisma.$queryRaw<{ kind: MailKind }[]>`
          WITH overdue AS MATERIALIZED (
            SELECT id FROM wanted_mails WHERE id IN (
              SELECT mails.id FROM ${kindsOf(MAIL_KINDS)} AS kinds, LATERAL (
                SELECT id FROM wanted_mails WHERE settled_at IS NULL AND kind = kinds.kind AND wanted_at <= kinds.since
                UNION ALL SELECT id FROM wanted_mails
                WHERE settled_at IS NULL AND kind = kinds.kind AND tries = ${MAX_TRIES}::int
                  AND taken_at <= ${ago(MAIL_HIDDEN.at(-1) ?? 0)}
              ) AS mails LIMIT ${MOST_DROPPED})
            FOR UPDATE SKIP LOCKED
          )
          UPDATE wanted_mails SET settled_at = ${NOW} FROM overdue
          WHERE wanted_mails.id = overdue.id AND settled_at IS NULL RETURNING kind`;
        return rows.map(({ kind }) => kind);
      }),
  };
}

/** How many mails one call gives up; the next one goes on. */
const MOST_DROPPED = 1000;

type MailedAccount = AccountRow & { email: string };

interface MailRow {
  id: bigint;
  userId: bigint;
  kind: MailKind;
  event: NoticeEvent | null;
  address: string | null;
  wantedAt: Date;
}

/** The taken mails, each with a token unless it is a notice. @param accounts theirs, under the locks of their rows. */
async function withTokens(
  tx: Prisma.TransactionClient,
  rows: readonly MailRow[],
  accounts: readonly MailedAccount[],
  newToken: (kind: TokenKind) => { token: string; ttl: number },
): Promise<TakenMail[]> {
  const given = rows.flatMap((row) =>
    row.kind === 'notice' ? [] : [{ id: row.id, userId: row.userId, kind: row.kind, ...newToken(row.kind) }],
  );
  const ends = await addTokens(tx, given);
  const tokens = new Map(given.map(({ id, token }, i) => [id, { token, expiresAt: ends[i] }]));
  return rows.map((row) => {
    const account = accounts.find(({ id }) => id === row.userId);
    const { kind, event } = row;
    if (!account) throw new Error('a mail without its account');
    const user = toAccount(account);
    const common = {
      id: Number(row.id),
      email: row.address ?? account.email,
      verified: row.address === null ? user.emailVerified : kind === 'notice',
      user,
      locale: account.locale,
    };
    if (kind === 'notice') {
      if (event === null) throw new Error('a notice of nothing');
      return { ...common, kind, event, at: row.wantedAt.getTime() };
    }
    const { token, expiresAt } = tokens.get(row.id) ?? {};
    if (token === undefined || expiresAt === undefined) throw new Error('a mail without its token');
    return { ...common, kind, token, expiresAt };
  });
}

/** @returns null if the account has gone, or has the address no longer. */
async function markAccount(
  tx: AccountTransaction,
  id: bigint,
  key: string,
): Promise<UndeliverableAccount | null> {
  const [before] = await tx.$queryRaw<
    (ServedRow & { isInForce: boolean; isPending: boolean; isMarked: boolean })[]
  >`
    SELECT ${SERVED_COLUMNS}, ${hasAddress(key)} AS "isInForce", coalesce(pending_key = ${key}, false) AS "isPending",
      undeliverable_at IS NOT NULL AS "isMarked"
    FROM users WHERE id = ${id} AND deleted_at IS NULL FOR NO KEY UPDATE`;
  if (!before) return null;
  const { isInForce, isPending, isMarked } = before;
  // Before the row changes, whose trigger would settle some.
  const settled = await tx.$queryRaw<{ kind: MailKind }[]>`
    UPDATE wanted_mails SET settled_at = ${NOW}
    WHERE user_id = ${id} AND settled_at IS NULL
      AND (address_key = ${key} OR (${isInForce} AND address_key IS NULL))
    RETURNING kind`;
  if (isPending)
    await tx.$executeRaw`UPDATE users SET pending_email = NULL, pending_key = NULL WHERE id = ${id}`;
  const isNew = isInForce && !isMarked;
  // Services see it of the account, so they hear of a change.
  const [after] = isNew
    ? await tx.$queryRaw<ServedRow[]>`
        UPDATE users SET undeliverable_at = ${NOW}, version = version + 1, changed_at = ${NOW}, pending = true
        WHERE id = ${id} RETURNING ${SERVED_COLUMNS}`
    : [before];
  return {
    user: toUser(after ?? before),
    isInForce,
    isNews: isNew || isPending,
    settled: settled.map(({ kind }) => kind),
  };
}

/** Deletes mails that are wanted no longer and count for no limit. @throws AuthError `unavailable` */
export async function purgeMails(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(() => prisma.$executeRaw`DELETE FROM wanted_mails WHERE NOT (${IN_TIME})`);
}
