import { AuthError } from '../../domain/errors.ts';
import type { FoundPasskey, PasskeyStore } from '../../domain/passkeys/ports.ts';
import type { FactorProof } from '../../domain/tokens/ports.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import type { Postgres } from './client.ts';
import { mapDatabaseErrors, onPrimary } from './errors.ts';
import { addUnconfirmed, lockToAdd, noteAdded, type FactorSettings } from './factor-changes.ts';

/** How many spent challenges a passkey keeps. */
const KEPT = 32;

/**
 * An enrolment stays open for the life of its challenge, and as long again for the request that confirms it.
 */
const OPEN = Prisma.sql`interval '10 minutes'`;

interface FoundRow {
  id: bigint;
  userId: bigint | null;
  rpId: string;
  publicKey: Uint8Array;
  counter: bigint;
  backupEligible: boolean;
  backedUp: boolean;
  handle: Uint8Array | null;
  passwordVersion: number;
  disabled: boolean;
  enabledAt: Date | null;
  isSpent: boolean;
  isOrphan: boolean;
}

/** A challenge older than all that are kept may be a spent one, so it counts as one. */
function isUnspent(challenge: Uint8Array): Prisma.Sql {
  const nonce = Prisma.sql`${bytes(challenge)}::bytea`;
  return Prisma.sql`${nonce} <> ALL (used_challenges)
    AND (cardinality(used_challenges) < ${KEPT} OR ${nonce} > used_challenges[${KEPT}])`;
}

/** The passkeys in PostgreSQL. */
export function makePasskeyStore(
  { prisma, inLane }: Pick<Postgres, 'prisma' | 'inLane'>,
  settings: FactorSettings,
): PasskeyStore {
  return {
    find: (credentialId, handle, nonce) =>
      mapDatabaseErrors(async () => {
        // One statement: between two, an enrolment could be confirmed, and neither would find it.
        const [row] = await onPrimary<FoundRow>(
          prisma,
          Prisma.sql`
            SELECT coalesce(factors.id, 0) AS id, users.id AS "userId", rp_id AS "rpId", public_key AS "publicKey",
              counter, backup_eligible AS "backupEligible", backed_up AS "backedUp", passkey_handle AS handle,
              password_version AS "passwordVersion", disabled_at IS NOT NULL AS disabled, enabled_at AS "enabledAt",
              NOT (${isUnspent(nonce)}) AS "isSpent", passkeys.factor_id IS NULL AND EXISTS (SELECT FROM users AS owner WHERE owner.passkey_handle = given.handle
                AND NOT EXISTS (SELECT FROM factors AS open WHERE open.user_id = owner.id AND open.type = 'passkey'
                  AND open.confirmed_at IS NULL AND open.created_at > now() - ${OPEN})) AS "isOrphan"
            FROM (SELECT ${bytes(credentialId)}::bytea AS id, ${handle && bytes(handle)}::bytea AS handle) AS given
            LEFT JOIN passkeys ON passkeys.credential_id = given.id
            LEFT JOIN factors ON factors.id = passkeys.factor_id
            LEFT JOIN users ON users.id = factors.user_id`,
        );
        return toFound(row);
      }),

    setUp: (caller, { handle, challenge, createdAt, passwordVersion, limit }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          await lockToAdd(tx, caller, settings, passwordVersion);
          const userId = BigInt(caller.userId);
          const confirmed = { userId, type: 'passkey', confirmedAt: { not: null } };
          if ((await tx.factor.count({ where: confirmed })) >= limit) throw new AuthError('too_many_factors');
          // The account has one unconfirmed factor, so no other set-up can exceed the limit beside this one.
          const enrolment = { type: 'passkey', name: '', createdAt, keyId: '', secret: challenge };
          await addUnconfirmed(tx, caller, enrolment);
          const [user] = await tx.$queryRaw<{ handle: Uint8Array }[]>`
            UPDATE users SET passkey_handle = coalesce(passkey_handle, ${bytes(handle)}) WHERE id = ${userId}
            RETURNING passkey_handle AS handle`;
          const existing = await tx.passkey.findMany({
            where: { rpId: settings.rpId ?? '', factor: confirmed },
            orderBy: { factorId: 'asc' },
            select: { credentialId: true, transports: true },
          });
          return { handle: user?.handle ?? handle, existing };
        }),
      ),

    findUnconfirmed: ({ userId, tokenId }) =>
      mapDatabaseErrors(async () => {
        const [row] = await onPrimary<{ id: bigint; challenge: Uint8Array; createdAt: Date }>(
          prisma,
          Prisma.sql`
            SELECT id, secret AS challenge, created_at AS "createdAt" FROM factors
            WHERE user_id = ${BigInt(userId)} AND session_id = ${BigInt(tokenId)} AND confirmed_at IS NULL
              AND type = 'passkey'`,
        );
        return row
          ? { factorId: Number(row.id), challenge: row.challenge, createdAt: row.createdAt.getTime() }
          : null;
      }),

    confirm: (caller, { factorId, name, passkey, at, codeHashes }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          const locked = await lockToAdd(tx, caller, settings);
          const id = BigInt(factorId);
          const mine = {
            id,
            userId: BigInt(caller.userId),
            sessionId: BigInt(caller.tokenId),
            type: 'passkey',
            confirmedAt: null,
          };
          const confirmed = { name, confirmedAt: new Date(at), secret: new Uint8Array() };
          if ((await tx.factor.updateMany({ where: mine, data: confirmed })).count === 0) return null;
          const { transports, ...columns } = passkey;
          const added = await tx.passkey.createMany({
            data: {
              factorId: id,
              rpId: settings.rpId ?? '',
              credentialId: bytes(columns.credentialId),
              publicKey: bytes(columns.publicKey),
              counter: BigInt(columns.counter),
              backupEligible: columns.backupEligible,
              backedUp: columns.backedUp,
              transports,
            },
            skipDuplicates: true,
          });
          // On record already: the enrolment is as it was before.
          if (added.count === 0) throw new AuthError('invalid_passkey');
          return noteAdded(tx, locked, settings, { at, codeHashes });
        }),
      ),
  };
}

/**
 * Uses up the challenge that a passkey has signed, under the lock of the user's row.
 * @param at milliseconds since 1970.
 * @throws AuthError `invalid_passkey` if it was used, or the passkey is gone, meanwhile
 */
export async function usePasskey(
  tx: AccountTransaction,
  userId: number,
  { factorId, challenge, shown }: Extract<FactorProof, { type: 'passkey' }>,
  at: number,
): Promise<void> {
  const used = await tx.$executeRaw`
    WITH used AS (
      UPDATE passkeys SET counter = greatest(counter, ${BigInt(shown.counter)}),
        backup_eligible = ${shown.backupEligible}, backed_up = ${shown.backedUp},
        used_challenges = ARRAY(
          SELECT each FROM unnest(used_challenges || ${bytes(challenge)}::bytea) AS each ORDER BY each DESC LIMIT ${KEPT})
      WHERE factor_id = ${BigInt(factorId)} AND ${isUnspent(challenge)}
      RETURNING factor_id
    )
    UPDATE factors SET last_used_at = ${new Date(at)} FROM used
    WHERE id = used.factor_id AND user_id = ${BigInt(userId)} AND confirmed_at IS NOT NULL`;
  if (used === 0) throw new AuthError('invalid_passkey');
}

/**
 * How many passkeys there are, and how many of them cannot be used, although they still count as factors.
 * @param rpId null if passkeys are off.
 */
export async function countForeignPasskeys(
  pool: Postgres['pool'],
  rpId: string | null,
): Promise<{ all: number; foreign: number }> {
  const { rows } = await pool.query<{ all: string; foreign: string }>(
    'SELECT count(*) AS all, count(*) FILTER (WHERE rp_id IS DISTINCT FROM $1) AS foreign FROM passkeys',
    [rpId],
  );
  return { all: Number(rows[0]?.all), foreign: Number(rows[0]?.foreign) };
}

function toFound(row: FoundRow | undefined): FoundPasskey {
  if (!row || row.userId === null || row.handle === null)
    return { passkey: null, isOrphan: row?.isOrphan === true };
  const { rpId, publicKey, backupEligible, backedUp, handle, passwordVersion, disabled } = row;
  return {
    passkey: {
      factorId: Number(row.id),
      userId: Number(row.userId),
      handle,
      rpId,
      publicKey,
      counter: Number(row.counter),
      backupEligible,
      backedUp,
      passwordVersion,
      disabled,
      enabledAt: row.enabledAt?.getTime() ?? 0,
    },
    isSpent: row.isSpent,
  };
}

/** As Prisma takes it. */
function bytes(value: Uint8Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(value);
}
