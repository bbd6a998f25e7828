import type { AccountKey } from '../../domain/identifiers.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import type { ChangedNames } from '../../domain/users/ports.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { AuthError } from '../../domain/errors.ts';
import { mapDatabaseErrors } from './errors.ts';

/** The code of a duplicate, by the name of its constraint or column. */
export const TAKEN = {
  users_username_key: 'username_taken',
  username: 'username_taken',
  users_username_skeleton_key: 'username_taken',
  username_skeleton: 'username_taken',
  users_email_key: 'email_taken',
  email: 'email_taken',
} as const;

/** For statements on `users`. No key names a deleted account. */
export function whereAccount(key: AccountKey): Prisma.Sql {
  const named =
    'id' in key
      ? Prisma.sql`id = ${key.id}`
      : 'email' in key
        ? Prisma.sql`email = ${key.email}`
        : Prisma.sql`username = ${key.username}`;
  return Prisma.sql`(${named} AND deleted_at IS NULL)`;
}

/**
 * The hashes under which the names may be reserved, each with the code of its refusal. A name is reserved if an account
 * that had it was deleted not long ago.
 */
export type ReservedHashes = (names: ChangedNames) => ['username_taken' | 'email_taken', string][];

/**
 * Which of the names is taken by an account or reserved, the username first, also by a lookalike; null for neither.
 * @param except the account whose own names do not count.
 */
export async function findTaken(
  db: Pick<Prisma.TransactionClient, 'user' | '$queryRaw'>,
  names: ChangedNames,
  reserved: ReservedHashes,
  except = 0n,
): Promise<'username_taken' | 'email_taken' | null> {
  const { username, email } = names;
  if (username === undefined && email === undefined) return null;
  const skeleton = username === undefined ? null : skeletonOf(username);
  const found = await db.user.findMany({
    where: {
      id: { not: except },
      OR: [...(skeleton === null ? [] : [{ skeleton }]), ...(email === undefined ? [] : [{ email }])],
    },
    select: { skeleton: true },
  });
  if (found.some((user) => user.skeleton === skeleton)) return 'username_taken';
  // Asked second: an account that is deleted between the two is found by one of them.
  const hashes = reserved(names);
  const held = await findReserved(db, hashes);
  return hashes.find(([, hash]) => held.has(hash))?.[0] ?? (found.length > 0 ? 'email_taken' : null);
}

/** @throws AuthError `username_taken`, `email_taken` */
export async function requireFree(...wanted: Parameters<typeof findTaken>): Promise<void> {
  const taken = await findTaken(...wanted);
  if (taken) throw new AuthError(taken);
}

/**
 * For a transaction that has written the names. The unique constraints do not know reserved names: another account may
 * have had the name, and have been deleted, since the look-up.
 * @throws AuthError `username_taken`, `email_taken`
 */
export async function requireUnreserved(
  tx: Prisma.TransactionClient,
  names: ChangedNames,
  reserved: ReservedHashes,
): Promise<void> {
  const hashes = reserved(names);
  if (hashes.length === 0) return;
  const held = await findReserved(tx, hashes);
  const found = hashes.find(([, hash]) => held.has(hash));
  if (found) throw new AuthError(found[0]);
}

/** @returns those of the hashes that are reserved now. */
export async function findReserved(
  db: Pick<Prisma.TransactionClient, '$queryRaw'>,
  hashes: ReturnType<ReservedHashes>,
): Promise<Set<string>> {
  const rows = await db.$queryRaw<{ hash: string }[]>`
    SELECT name_hash AS hash FROM reserved_names
    WHERE name_hash = ANY(${hashes.map(([, hash]) => hash)}) AND until > clock_timestamp()`;
  return new Set(rows.map(({ hash }) => hash));
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
