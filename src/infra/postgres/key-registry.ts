import { AHEAD, LATE, SIGNED_INTERVAL, signerFirst } from '../../domain/access-tokens/key-lifecycle.ts';
import type { Joined, KeyInUse, KeyNotes, KeyRegistry } from '../../domain/access-tokens/ports.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { mapDatabaseErrors } from './errors.ts';

interface Row {
  kid: string;
  isActive: boolean;
  isDue: boolean;
  isSilent: boolean;
}

/** An arbitrary id that no other advisory lock uses. */
const LOCK = 4_117_200_911;

/** Before the id of a key that an operator has let go: the name of its row in `installation`. */
export const RETIRED = 'retired:';

/** A condition on `signing_keys`: whether a key was recorded as signing within these milliseconds. */
export const signedWithin = (ms: number) => Prisma.sql`
  (signed_at BETWEEN statement_timestamp() - ${ms} * interval '1 millisecond'
    AND statement_timestamp() + ${AHEAD} * interval '1 millisecond')`;

/**
 * The replicas' shared record of their keys. Each statement decides and writes in one step, by the database's clock, so
 * replicas may run them in any order. While nothing changes, these are two SELECTs.
 *
 * - The keys of the very first replica may all sign: they may have been in use before this record existed.
 * - The lead of any other key counts from when the last replica loaded it: as long as one replica serves a JWKS without
 *   the key, a verifier may cache that JWKS. Only replicas within one lead of the first count, or a replica that keeps
 *   restarting would keep the key from ever signing.
 * - A key may sign until a replica's folder loses it. If it comes back, its lead starts again.
 * - A refresh secret has a row from before it first signs, with the time of its last use alone.
 * @param lead KEY_PUBLISH_LEAD, in seconds. @param isAlone if no other replica can be there.
 */
export function makeKeyRegistry(prisma: PrismaClient, lead: number, isAlone = false): KeyRegistry {
  const { note, inUse } = statementsOf(prisma, lead);

  async function join(
    tx: Prisma.TransactionClient,
    ...[notes, held, sinceLast]: Parameters<KeyRegistry['join']>
  ): Promise<Joined> {
    const statements = statementsOf(tx, lead);
    await tx.$executeRaw`SELECT pg_advisory_xact_lock(${LOCK})`;
    const found = isAlone ? [] : await statements.inUse(sinceLast);
    const missing = found.filter(({ kid }) => !held.includes(kid));
    if (missing.length > 0) return { missing, active: new Set() };
    await statements.takeBack([...held]);
    const active = await statements.note(notes);
    const [signer] = signerFirst(
      notes.loaded.map((kid) => ({ kid })),
      active,
    );
    // Before it signs, like the refresh secret.
    if (signer) await statements.saySigned(signer.kid);
    return { missing, active };
  }

  return {
    note: (notes) => mapDatabaseErrors(() => note(notes)),
    join: (...joining) => mapDatabaseErrors(() => prisma.$transaction((tx) => join(tx, ...joining))),
    inUse: (sinceLast) => (isAlone ? Promise.resolve([]) : mapDatabaseErrors(() => inUse(sinceLast))),
  };
}

function statementsOf(prisma: Pick<PrismaClient, '$queryRaw' | '$executeRaw'>, lead: number) {
  const read = (loaded: readonly string[], signing: readonly string[]) =>
    prisma.$queryRaw<Row[]>`
      SELECT kid, signs_since IS NOT NULL AS "isActive",
        signs_since IS NULL AND published_at + ${lead} * interval '1 second' <= statement_timestamp() AS "isDue",
        kid = ANY(${[...signing]}::text[])
          AND NOT coalesce(${signedWithin(SIGNED_INTERVAL)}, false)
          AS "isSilent"
      FROM signing_keys WHERE kid = ANY(${[...loaded]}::text[])`;

  const publish = async (kids: string[]) => {
    await prisma.$executeRaw`
      INSERT INTO signing_keys (kid, signs_since)
      SELECT kid, statement_timestamp() FROM unnest(${kids}::text[]) AS kid
      WHERE NOT EXISTS (SELECT 1 FROM signing_keys) ORDER BY kid ON CONFLICT DO NOTHING`;
    await prisma.$executeRaw`
      INSERT INTO signing_keys AS known (kid, first_seen_at, published_at)
      SELECT kid, statement_timestamp(), statement_timestamp() FROM unnest(${kids}::text[]) AS kid ORDER BY kid
      ON CONFLICT (kid) DO UPDATE SET published_at = excluded.published_at
      WHERE known.signs_since IS NULL
        AND known.first_seen_at + ${lead} * interval '1 second' > statement_timestamp()`;
  };

  const activate = async (loaded: readonly string[]) => {
    await prisma.$executeRaw`
      UPDATE signing_keys SET signs_since = statement_timestamp()
      WHERE kid = ANY(${[...loaded]}::text[]) AND signs_since IS NULL
        AND published_at + ${lead} * interval '1 second' <= statement_timestamp()`;
    // One key has to sign: after a leak, the only one that is left.
    await prisma.$executeRaw`
      UPDATE signing_keys SET signs_since = statement_timestamp()
      WHERE kid = ${loaded.at(-1) ?? ''} AND NOT EXISTS (
        SELECT 1 FROM signing_keys WHERE kid = ANY(${[...loaded]}::text[]) AND signs_since IS NOT NULL)`;
  };

  const saySigned = (kid: string) =>
    prisma.$executeRaw`UPDATE signing_keys SET signed_at = statement_timestamp() WHERE kid = ${kid}`;

  const saySignedRefresh = (kid: string) =>
    prisma.$executeRaw`
      INSERT INTO signing_keys (kid, signed_at) VALUES (${kid}, statement_timestamp())
      ON CONFLICT (kid) DO UPDATE SET signed_at = excluded.signed_at`;

  async function note(notes: KeyNotes): Promise<ReadonlySet<string>> {
    // After the keys: those of the very first replica are known by an empty table.
    const active = await noteSigning(notes);
    const [row] = await read([notes.refresh], [notes.refresh]);
    if (row?.isSilent ?? true) await saySignedRefresh(notes.refresh);
    return new Set([...active, notes.refresh]);
  }

  async function noteSigning(notes: KeyNotes): Promise<string[]> {
    const { loaded, appeared, vanished, signing } = notes;
    const rows = await read(loaded, signing === null ? [] : [signing]);
    const known = new Set(rows.map(({ kid }) => kid));
    const unknown = loaded.filter((kid) => appeared.includes(kid) || !known.has(kid));
    const isSettled = rows.some(({ isActive }) => isActive) && !rows.some(({ isDue }) => isDue);
    if (unknown.length > 0) await publish(unknown);
    if (vanished.length > 0)
      await prisma.$executeRaw`DELETE FROM signing_keys WHERE kid = ANY(${[...vanished]}::text[])`;
    if (signing !== null && rows.some(({ isSilent }) => isSilent)) await saySigned(signing);
    if (!isSettled || unknown.length > 0) await activate(loaded);
    const now = isSettled && unknown.length === 0 ? rows : await read(loaded, []);
    return now.filter(({ isActive }) => isActive).map(({ kid }) => kid);
  }

  /** Keys that were retired count again if a replica begins with them after the last one that signed with them has gone. */
  const takeBack = (kids: string[]) =>
    prisma.$executeRaw`
      DELETE FROM installation USING signing_keys
      WHERE name = ${RETIRED} || kid AND kid = ANY(${kids}::text[])
        AND NOT coalesce(${signedWithin(LATE)}, false)`;

  return { note, inUse: (sinceLast: boolean) => keysInUse(prisma, sinceLast), saySigned, takeBack };
}

/**
 * The keys that replicas have signed with lately.
 * @param sinceLast also those of shortly before the last signature, however long ago that was.
 * @param isUpgraded whether there is a table `installation`, which is not in the schema of 1.0.0.
 */
export function keysInUse(
  prisma: Pick<PrismaClient, '$queryRaw'>,
  sinceLast: boolean,
  isUpgraded = true,
): Promise<KeyInUse[]> {
  const kept = isUpgraded
    ? Prisma.sql`WHERE NOT EXISTS (SELECT FROM installation WHERE name = ${RETIRED} || kid)`
    : Prisma.empty;
  return prisma.$queryRaw<KeyInUse[]>`
    WITH signed AS (
      SELECT kid, signed_at,
        CASE WHEN signs_since IS NULL AND published_at IS NULL THEN 'refresh' ELSE 'signing' END AS kind
      FROM signing_keys ${kept}
    )
    SELECT kid, kind FROM signed
    WHERE ${signedWithin(LATE)}
      OR ${sinceLast} AND signed_at > (SELECT max(signed_at) FROM signed) - ${LATE} * interval '1 millisecond'
    ORDER BY kid`;
}
