import { canonicalAddress, givenAddress, needsKey } from '../../domain/address.ts';
import type { AccountKey } from '../../domain/identifiers.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import {
  refuseTaken,
  takenIn,
  UNIQUE_FIELDS,
  type UniqueField,
  type WantedNames,
} from '../../domain/users/taken.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { fillAddressKeys } from './address-keys.ts';
import type { Postgres } from './client.ts';
import { duplicateOf, mapDatabaseErrors, onPrimary } from './errors.ts';

/** What a duplicate has taken, by the name of its constraint or column. */
const TAKEN: Readonly<Record<string, UniqueField>> = {
  users_username_key: 'username',
  username: 'username',
  users_username_skeleton_key: 'username',
  username_skeleton: 'username',
  users_email_key: 'email',
  email: 'email',
  users_external_id_key: 'external_id',
  external_id: 'external_id',
};

/**
 * Runs a transaction that gives an account names. If another one was first, the transaction has met one name of it, so
 * all that is taken is looked up again.
 * @throws AuthError `username_taken`, `email_taken`, `external_id_taken`, `unavailable`
 */
export async function writeNames<Result>(
  work: () => Promise<Result>,
  findAll: () => Promise<UniqueField[]>,
): Promise<Result> {
  try {
    return await mapDatabaseErrors(work);
  } catch (error) {
    const duplicate = TAKEN[duplicateOf(error) ?? ''];
    const met = duplicate ? [duplicate] : takenIn(error);
    if (met.length > 0) refuseTaken([...met, ...(await mapDatabaseErrors(findAll))], error);
    throw error;
  }
}

/** Whether a row of `users` has the address. @param key a canonical form. @param table another name of `users` */
export function hasAddress(key: string, table: 'users' | 'twin' = 'users'): Prisma.Sql {
  const [email, emailKey] = [Prisma.raw(`${table}.email`), Prisma.raw(`${table}.email_key`)];
  return Prisma.sql`(${email} = ${key} OR ${emailKey} = ${key})`;
}

/**
 * For statements on `users`. No key names a deleted account, and no address that is not plain ASCII names one of two
 * accounts that both have it: 1.0.0 took its spellings for several (docs/adr/0010-names-and-addresses.md).
 */
export async function whereAccount(db: RawQueries, key: AccountKey): Promise<Prisma.Sql> {
  const named =
    'id' in key
      ? Prisma.sql`id = ${key.id}`
      : 'email' in key
        ? await hasAddressAlone(db, key.email)
        : 'externalId' in key
          ? Prisma.sql`external_id = ${key.externalId}`
          : Prisma.sql`username = ${key.username}`;
  return Prisma.sql`(${named} AND deleted_at IS NULL)`;
}

async function hasAddressAlone(db: RawQueries, key: string): Promise<Prisma.Sql> {
  await completeKeys(db, [key]);
  const others = Prisma.sql`SELECT FROM users AS twin WHERE ${hasAddress(key, 'twin')} AND twin.id <> users.id`;
  // A plain address names its own account in any case. Otherwise another spelling of it, which 1.0.0 let anyone sign up
  // with, would lock its owner out.
  const isOwn = needsKey(key) ? Prisma.sql`false` : Prisma.sql`email = ${key}`;
  return Prisma.sql`(${hasAddress(key)} AND (${isOwn} OR NOT EXISTS (${others})))`;
}

/**
 * Runs a transaction in the lane of the account that a service or an operator names. A first read, without a lock, finds
 * it.
 * @param work gets the condition on `users` under which a locking statement finds this account, if the key still names it.
 * @returns null if there is no such account, as `work` does.
 * @throws AuthError `unavailable`, and as `Lanes.run`
 */
export async function inLaneOf<Result>(
  { prisma, inLane }: Pick<Postgres, 'prisma' | 'inLane'>,
  key: AccountKey,
  work: (tx: AccountTransaction, isIt: Prisma.Sql) => Promise<Result | null>,
): Promise<Result | null> {
  const where = await whereAccount(prisma, key);
  const named: { id: number | bigint }[] =
    'id' in key
      ? [key]
      : await onPrimary<{ id: bigint }>(prisma, Prisma.sql`SELECT id FROM users WHERE ${where}`);
  const [found] = named;
  if (!found) return null;
  const id = Number(found.id);
  return inLane(id, 'service', (tx) => work(tx, Prisma.sql`(id = ${id} AND ${where})`));
}

type RawQueries = Pick<Prisma.TransactionClient, '$queryRawUnsafe'>;

/** Replicas of 1.0.0 may have written one of the addresses in another spelling since the migration. */
export async function completeKeys(db: RawQueries, keys: string[]): Promise<void> {
  if (keys.some(needsKey)) await fillAddressKeys((sql, values) => db.$queryRawUnsafe(sql, ...values));
}

/** An arbitrary id that no other advisory lock uses. */
const ADDRESS_LOCK = 4_117_200_953;

/**
 * Until the transaction ends, no other one of this version gives an account an address whose spellings the unique
 * constraint cannot tell to be one.
 */
export async function lockSpellings(tx: Prisma.TransactionClient, keys: string[]): Promise<void> {
  if (!keys.some(needsKey)) return;
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(${ADDRESS_LOCK})`;
  await completeKeys(tx, keys);
}

/**
 * The hashes under which the names may be reserved, each with its field. A name is reserved if an account that had it was
 * deleted not long ago, and an address also if an account that had proved it has another one now.
 */
export type ReservedHashes = (names: WantedNames) => ['username' | 'email', string][];

/**
 * Which of the names other accounts have, or are reserved; a username also by a lookalike.
 * @param except the account whose own names do not count.
 */
export async function findTaken(
  db: Pick<Prisma.TransactionClient, '$queryRaw'> & RawQueries,
  wanted: WantedNames,
  reserved: ReservedHashes,
  except = 0n,
): Promise<UniqueField[]> {
  const { username, email, externalId = null } = wanted;
  if (username === undefined && email === undefined && externalId === null) return [];
  const key = email === undefined ? null : canonicalAddress(email);
  if (key !== null) await completeKeys(db, [key]);
  const [name, address, id] = [
    username === undefined ? NONE : Prisma.sql`username_skeleton = ${skeletonOf(username)}`,
    key === null ? NONE : hasAddress(key),
    externalId === null ? NONE : Prisma.sql`external_id = ${externalId}`,
  ];
  const found = await db.$queryRaw<Record<UniqueField, boolean | null>[]>`
    SELECT ${name} AS username, ${address} AS email, ${id} AS external_id
    FROM users WHERE id <> ${except} AND (${name} OR ${address} OR ${id})`;
  // Asked second: an account that is deleted between the two is found by one of them.
  const held = await findReserved(db, except, reserved(wanted));
  return UNIQUE_FIELDS.filter((field) => found.some((user) => user[field] === true) || held.includes(field));
}

const NONE = Prisma.sql`false`;

/**
 * The names that have to be free: not the address that the account has in this very spelling, which may be reserved for
 * a deleted account that shared it.
 */
export function newNamesOf(names: WantedNames, before: Parameters<typeof givenAddress>[0]): WantedNames {
  const { email, ...others } = names;
  return email === undefined || email === givenAddress(before) ? others : names;
}

/** @throws AuthError `username_taken`, `email_taken`, `external_id_taken` */
export async function requireFree(...wanted: Parameters<typeof findTaken>): Promise<void> {
  refuseTaken(await findTaken(...wanted));
}

/**
 * For a transaction that has written an account's names. The unique constraints know neither reserved names nor the
 * spellings of an address: since the look-up, another account may have got the name, and may have been deleted.
 * @throws AuthError `username_taken`, `email_taken`
 */
export async function requireStillFree(
  tx: Prisma.TransactionClient,
  id: bigint,
  names: WantedNames,
  reserved: ReservedHashes,
): Promise<void> {
  const key = names.email === undefined ? null : canonicalAddress(names.email);
  if (key !== null && needsKey(key)) {
    await lockSpellings(tx, [key]);
    const others = await tx.$queryRaw<object[]>`SELECT FROM users WHERE id <> ${id} AND ${hasAddress(key)}`;
    if (others.length > 0) refuseTaken(['email']);
  }
  refuseTaken(await findReserved(tx, id, reserved(names)));
}

/** @returns the fields whose names are reserved now, and not for this account. */
async function findReserved(
  db: Pick<Prisma.TransactionClient, '$queryRaw'>,
  userId: bigint,
  hashes: ReturnType<ReservedHashes>,
): Promise<UniqueField[]> {
  const held = await findHeld(db, hashes, userId);
  return hashes.flatMap(([field, hash]) => (held.has(hash) ? [field] : []));
}

/** @returns those of the hashes that are reserved now, and not for this account. */
export async function findHeld(
  db: Pick<Prisma.TransactionClient, '$queryRaw'>,
  hashes: ReturnType<ReservedHashes>,
  userId = 0n,
): Promise<Set<string>> {
  if (hashes.length === 0) return new Set();
  const rows = await db.$queryRaw<{ hash: string }[]>`
    SELECT name_hash AS hash FROM reserved_names
    WHERE name_hash = ANY(${hashes.map(([, hash]) => hash)}) AND until > clock_timestamp()
      AND user_id IS DISTINCT FROM ${userId}`;
  return new Set(rows.map(({ hash }) => hash));
}

/**
 * Reserves names that an account leaves.
 * @param hashes under the newest secret. @param grace milliseconds.
 * @param userId the account that may come back; null if none may. A name that is reserved for others already is so for
 * nobody then.
 */
export async function reserveNames(
  tx: Prisma.TransactionClient,
  hashes: string[],
  grace: number,
  userId: bigint | null,
): Promise<void> {
  await tx.$executeRaw`
    INSERT INTO reserved_names (name_hash, until, user_id)
    SELECT hash, clock_timestamp() + ${grace} * interval '1 millisecond', ${userId}::bigint
    FROM unnest(${hashes}::text[]) AS hash
    ON CONFLICT (name_hash) DO UPDATE SET until = greatest(reserved_names.until, excluded.until),
      user_id = CASE WHEN reserved_names.until <= clock_timestamp() OR reserved_names.user_id = excluded.user_id
        THEN excluded.user_id END`;
}

/** @throws AuthError `unavailable` */
export async function hasReservedNames(prisma: PrismaClient): Promise<boolean> {
  const found = await mapDatabaseErrors(
    () => prisma.$queryRaw<object[]>`SELECT 1 FROM reserved_names WHERE until > clock_timestamp() LIMIT 1`,
  );
  return found.length > 0;
}

/** Forgets names that are reserved no longer. @throws AuthError `unavailable` */
export async function purgeReservedNames(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$executeRaw`DELETE FROM reserved_names WHERE until <= clock_timestamp()`,
  );
}
