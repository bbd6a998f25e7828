import type { SecretBox } from '../../domain/factors/ports.ts';
import { canonicalAddress, storedAddress, type StoredAddress } from '../../domain/address.ts';
import { skeletonOf } from '../../domain/users/confusables.ts';
import { comparedOf, UNIQUE_FIELDS, type Compared, type UniqueField } from '../../domain/users/taken.ts';
import { MAY_BE_LEFT_OUT, type ImportedUser } from '../../domain/users/import-line.ts';
import { Prisma, type PrismaClient, type User as UserRow } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';
import { addConfirmedTotps } from './factor-store.ts';
import { findHeld, lockSpellings, type ReservedHashes } from './names.ts';
import { USER_COLUMNS } from './rows.ts';

/** A line of the file and its account. Numbers begin at 1. */
export interface UserLine {
  line: number;
  user: ImportedUser;
}

export interface RefusedLine {
  line: number;
  problem: string;
}

/** Consecutive lines that are handled in one transaction. */
export interface ImportBatch {
  /** Every line up to this one is done before the batch, so far as this run knows. */
  doneBefore: number;
  /** The last line of the batch. */
  last: number;
  users: UserLine[];
  /** Lines that hold no account. */
  refused: RefusedLine[];
}

/** How far an earlier run of a file has got, and the last unfinished one of another file. */
export interface ImportProgress {
  lines: number;
  other: { lines: number; at: Date } | null;
}

/** Forgets files that were last imported 30 days ago. @throws AuthError `unavailable` */
export async function purgeImports(prisma: PrismaClient): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$executeRaw`DELETE FROM user_imports WHERE updated_at < now() - interval '30 days'`,
  );
}

/** @param fileHash SHA-256. @throws AuthError `unavailable` */
export async function beginImport(prisma: PrismaClient, fileHash: Uint8Array): Promise<ImportProgress> {
  return mapDatabaseErrors(async () => {
    const hash = new Uint8Array(fileHash);
    const [known] = await prisma.$queryRaw<{ lines: number }[]>`
      SELECT lines FROM user_imports WHERE file_hash = ${hash}`;
    if (known) return { lines: known.lines, other: null };
    const [other] = await prisma.$queryRaw<{ lines: number; at: Date }[]>`
      SELECT lines, updated_at AS at FROM user_imports WHERE finished_at IS NULL ORDER BY updated_at DESC LIMIT 1`;
    await prisma.$executeRaw`
      INSERT INTO user_imports (file_hash, updated_at) VALUES (${hash}, now()) ON CONFLICT DO NOTHING`;
    return { lines: 0, other: other ?? null };
  });
}

/** Which lines of these, all done before, were refused. @throws AuthError `unavailable` */
export async function refusedBetween(
  prisma: PrismaClient,
  fileHash: Uint8Array,
  [first, last]: [number, number],
): Promise<Set<number>> {
  const rows = await mapDatabaseErrors(
    () => prisma.$queryRaw<{ line: number }[]>`
      SELECT line FROM refused_import_lines
      WHERE file_hash = ${new Uint8Array(fileHash)} AND line BETWEEN ${first} AND ${last}`,
  );
  return new Set(rows.map(({ line }) => line));
}

/**
 * Adds the accounts of a batch and notes its progress, in one commit.
 * @param secrets encrypts those of authenticator apps.
 * @returns the refused lines, in order; null if another process imports the same file.
 * @throws AuthError `unavailable`
 */
export async function importBatch(
  prisma: PrismaClient,
  fileHash: Uint8Array,
  batch: ImportBatch,
  reserved: ReservedHashes,
  secrets: Pick<SecretBox, 'seal'>,
): Promise<RefusedLine[] | null> {
  const hash = new Uint8Array(fileHash);
  return mapDatabaseErrors(() =>
    prisma.$transaction(async (tx) => {
      const [progress] = await tx.$queryRaw<{ lines: number }[]>`
        SELECT lines FROM user_imports WHERE file_hash = ${hash} FOR UPDATE`;
      if (progress?.lines !== batch.doneBefore) return null;
      const taken = await addUsers(tx, batch.users, reserved, secrets);
      const refused = [...batch.refused, ...taken].sort((one, other) => one.line - other.line);
      await noteLines(tx, hash, batch, refused);
      return refused;
    }),
  );
}

/** @throws AuthError `unavailable` */
export async function finishImport(prisma: PrismaClient, fileHash: Uint8Array): Promise<void> {
  await mapDatabaseErrors(
    () => prisma.$executeRaw`
      UPDATE user_imports SET finished_at = now() WHERE file_hash = ${new Uint8Array(fileHash)}`,
  );
}

async function noteLines(
  tx: Prisma.TransactionClient,
  hash: Uint8Array<ArrayBuffer>,
  { doneBefore, last, users }: ImportBatch,
  refused: RefusedLine[],
): Promise<void> {
  const isRefused = new Set(refused.map(({ line }) => line));
  const imported = users.map(({ line }) => line).filter((line) => !isRefused.has(line));
  await tx.$executeRaw`
    DELETE FROM refused_import_lines WHERE file_hash = ${hash} AND line = ANY(${imported}::int[])`;
  await tx.$executeRaw`
    INSERT INTO refused_import_lines (file_hash, line)
    SELECT ${hash}, line FROM unnest(${[...isRefused]}::int[]) AS line ON CONFLICT DO NOTHING`;
  await tx.$executeRaw`
    UPDATE user_imports SET lines = ${Math.max(doneBefore, last)}, updated_at = now() WHERE file_hash = ${hash}`;
}

/** @returns the lines whose names are taken. */
async function addUsers(
  tx: Prisma.TransactionClient,
  lines: UserLine[],
  reserved: ReservedHashes,
  secrets: Pick<SecretBox, 'seal'>,
): Promise<RefusedLine[]> {
  await lockSpellings(
    tx,
    lines.map(({ user }) => canonicalAddress(user.email)),
  );
  const taken = await takenLines(tx, lines);
  // Asked second: an account that is deleted between the two is found by one of them.
  for (const line of await findReservedLines(tx, lines, reserved))
    if (!taken.has(line)) taken.set(line, RESERVED);
  const free = withoutRepeats(
    lines.filter(({ line }) => !taken.has(line)),
    taken,
  );
  const added = await insertUsers(tx, free);
  await insertFactors(tx, free, added, secrets);
  const lost = free.filter(({ user }) => !added.has(user.username));
  for (const [line, problem] of await takenLines(tx, lost)) taken.set(line, problem);
  // The account with this name may have been deleted meanwhile.
  for (const { line } of lost) if (!taken.has(line)) taken.set(line, TAKEN_TEXTS.username);
  return [...taken].map(([line, problem]) => ({ line, problem }));
}

/** Lines with a name of an earlier line of the same batch are noted as taken. */
function withoutRepeats(lines: UserLine[], taken: Map<number, string>): UserLine[] {
  const names = makeNameSets([]);
  return lines.filter(({ line, user }) => {
    const compared = comparedOf(user);
    const problem = names.problemOf(compared);
    if (problem === null) names.add(compared);
    else taken.set(line, problem);
    return problem === null;
  });
}

const RESERVED =
  'username or email is reserved: an account that had it was deleted or left it not long ago. A username may be left out';

/** @returns the lines with a reserved name. */
async function findReservedLines(
  tx: Prisma.TransactionClient,
  lines: UserLine[],
  reserved: ReservedHashes,
): Promise<number[]> {
  const hashed = lines.map(({ line, user: { username, email } }) => ({
    line,
    hashes: reserved({ username, email }),
  }));
  const all = hashed.flatMap(({ hashes }) => hashes);
  const held = await findHeld(tx, all);
  return hashed.filter(({ hashes }) => hashes.some(([, hash]) => held.has(hash))).map(({ line }) => line);
}

const TAKEN_TEXTS: Record<UniqueField, string> = {
  username: `username is taken, or looks like one that is, by an account or an earlier line${MAY_BE_LEFT_OUT}`,
  email: 'email is taken, by an account or an earlier line',
  external_id: 'external_id is taken, by an account or an earlier line',
};

/** @returns the problems of lines whose names an account has. */
async function takenLines(tx: Prisma.TransactionClient, lines: UserLine[]): Promise<Map<number, string>> {
  if (lines.length === 0) return new Map();
  const wanted = lines.map(({ user }) => comparedOf(user));
  const [skeletons, emails, ids] = UNIQUE_FIELDS.map((field) => wanted.map((names) => names[field]));
  const columns = Prisma.sql`username_skeleton AS username, coalesce(email_key, email) AS email, external_id`;
  const holders = await tx.$queryRaw<Compared[]>`
    SELECT ${columns} FROM users WHERE username_skeleton = ANY(${skeletons}::text[])
    UNION SELECT ${columns} FROM users WHERE email = ANY(${emails}::text[]) OR email_key = ANY(${emails}::text[])
    UNION SELECT ${columns} FROM users WHERE external_id = ANY(${ids}::text[])`;
  const held = makeNameSets(holders);
  const taken = new Map<number, string>();
  for (const { line, user } of lines) {
    const problem = held.problemOf(comparedOf(user));
    if (problem !== null) taken.set(line, problem);
  }
  return taken;
}

/** Names that are in use. */
function makeNameSets(holders: Compared[]) {
  const sets = UNIQUE_FIELDS.map((field) => [field, new Set(holders.map((names) => names[field]))] as const);
  return {
    add(names: Compared): void {
      for (const [field, used] of sets) used.add(names[field]);
    },
    /** Why these names cannot be an account's; null if they can. */
    problemOf(names: Compared): string | null {
      const taken = sets.find(([field, used]) => names[field] !== null && used.has(names[field]));
      return taken ? TAKEN_TEXTS[taken[0]] : null;
    },
  };
}

const DEFAULT = null;

/** Where the columns of an imported account come from: fields of `insertUsers`. */
const IMPORTED = {
  username: Prisma.sql`username`,
  skeleton: Prisma.sql`skeleton`,
  email: Prisma.sql`email`,
  emailGiven: Prisma.sql`email_given`,
  emailKey: Prisma.sql`email_key`,
  name: Prisma.sql`name`,
  externalId: Prisma.sql`external_id`,
  passwordHash: Prisma.sql`decode(hash, 'base64')`,
  importedHash: Prisma.sql`imported_hash`,
  importedCost: Prisma.sql`imported_cost`,
  createdAt: Prisma.sql`coalesce(created_at, now())`,
  roles: Prisma.sql`ARRAY(SELECT jsonb_array_elements_text(roles))`,
  disabledAt: Prisma.sql`CASE WHEN disabled THEN now() END`,
  emailVerifiedAt: Prisma.sql`CASE WHEN email_verified THEN now() END`,
  id: DEFAULT,
  passwordVersion: DEFAULT,
  version: DEFAULT,
  changedAt: DEFAULT,
  pending: DEFAULT,
  enabledAt: DEFAULT,
  deletedAt: DEFAULT,
  factorSince: Prisma.sql`CASE WHEN has_factor THEN now() END`,
  passkeyHandle: DEFAULT,
  pendingEmail: DEFAULT,
  pendingKey: DEFAULT,
  locale: Prisma.sql`locale`,
  undeliverableAt: DEFAULT,
} satisfies Record<keyof UserRow, Prisma.Sql | null>;

const WRITTEN = Object.entries(IMPORTED).flatMap(([key, value]) =>
  value === DEFAULT ? [] : [{ column: Prisma.raw(USER_COLUMNS[key as keyof UserRow]), value }],
);

/** @returns the ids of the accounts that were added, by their usernames. */
async function insertUsers(tx: Prisma.TransactionClient, lines: UserLine[]): Promise<Map<string, bigint>> {
  const rows = lines.map(({ line, user }) => ({
    line,
    username: user.username,
    skeleton: skeletonOf(user.username),
    ...addressFields(storedAddress(user.email)),
    name: user.name,
    external_id: user.externalId,
    hash: Buffer.from(user.hash.passwordHash).toString('base64'),
    imported_hash: user.hash.imported?.hash,
    imported_cost: user.hash.imported?.cost,
    created_at: user.createdAt === null ? null : new Date(user.createdAt).toISOString(),
    roles: user.roles,
    disabled: user.disabled,
    email_verified: user.emailVerified,
    locale: user.locale,
    has_factor: user.totpSecret !== null,
  }));
  const added = await tx.$queryRaw<{ id: bigint; username: string }[]>`
    INSERT INTO users (${Prisma.join(WRITTEN.map(({ column }) => column))})
    SELECT ${Prisma.join(WRITTEN.map(({ value }) => value))}
    FROM jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) AS row (line int, username text, skeleton text,
      email text, email_given text, email_key text, name text, external_id text, hash text, imported_hash text,
      imported_cost text, created_at timestamptz, roles jsonb, disabled boolean, email_verified boolean,
      locale text, has_factor boolean)
    ORDER BY line ON CONFLICT DO NOTHING RETURNING id, username`;
  return new Map(added.map(({ id, username }) => [username, id]));
}

async function insertFactors(
  tx: Prisma.TransactionClient,
  lines: UserLine[],
  added: ReadonlyMap<string, bigint>,
  secrets: Pick<SecretBox, 'seal'>,
): Promise<void> {
  const totps = lines.flatMap(({ user: { username, totpSecret } }) => {
    const userId = added.get(username);
    return userId === undefined || totpSecret === null
      ? []
      : [{ userId, sealed: secrets.seal(Number(userId), totpSecret) }];
  });
  await addConfirmedTotps(tx, totps, new Date());
}

function addressFields({ email, emailGiven, emailKey }: StoredAddress) {
  return { email, email_given: emailGiven, email_key: emailKey };
}
