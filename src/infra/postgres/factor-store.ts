import { AuthError } from '../../domain/errors.ts';
import { TOTP_NAME } from '../../domain/factors/factor.ts';
import type { FactorStore, SealedSecret, SecondStepAccount, TotpRecord } from '../../domain/factors/ports.ts';
import type { FactorType } from '../../domain/second-step.ts';
import type { FactorProof } from '../../domain/tokens/ports.ts';
import { endsAll } from '../../domain/users/account.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import type { Postgres } from './client.ts';
import { endTokens } from './ended-tokens.ts';
import { mapDatabaseErrors, onPrimary, readPrimary } from './errors.ts';
import {
  addUnconfirmed,
  lockProven,
  lockToAdd,
  NO_FACTOR_SETTINGS,
  noteAdded,
  writeCodes,
  type FactorSettings,
} from './factor-changes.ts';
import { FACTOR_CALLERS } from './known-devices.ts';
import { inLaneOf } from './names.ts';
import { usePasskey } from './passkey-store.ts';
import { wantNotice } from './wanted-mails.ts';

interface AccountRow {
  id: bigint;
  passwordVersion: number;
  disabled: boolean;
  enabledAt: Date | null;
  knownCallers: string[];
  codesLeft: bigint;
  hasCode: boolean;
  passkeys: bigint;
  usablePasskeys: bigint;
  factorId: bigint | null;
  keyId: string;
  secret: Uint8Array;
  lastStep: bigint;
}

type UnconfirmedRow = Pick<AccountRow, 'id' | 'keyId' | 'secret' | 'lastStep'>;

/** The second factors in PostgreSQL; those of passkeys are added in passkey-store.ts. */
export function makeFactorStore(
  postgres: Pick<Postgres, 'prisma' | 'inLane'>,
  settings: FactorSettings = NO_FACTOR_SETTINGS,
): FactorStore {
  const { prisma, inLane } = postgres;
  const { notices, rpId } = settings;
  return {
    findAccount: (userId, codeHash) =>
      mapDatabaseErrors(async () => {
        const [row] = await onPrimary<AccountRow>(
          prisma,
          Prisma.sql`
            SELECT users.id, password_version AS "passwordVersion", disabled_at IS NOT NULL AS disabled,
              enabled_at AS "enabledAt", ${FACTOR_CALLERS},
              (SELECT count(*) FROM recovery_codes WHERE user_id = users.id) AS "codesLeft",
              EXISTS (SELECT FROM recovery_codes WHERE user_id = users.id
                AND code_hash = ${codeHash ? new Uint8Array(codeHash) : null}::bytea) AS "hasCode",
              (SELECT count(*) FROM factors WHERE user_id = users.id AND type = 'passkey'
                AND confirmed_at IS NOT NULL) AS passkeys,
              (SELECT count(*) FROM factors JOIN passkeys ON factor_id = factors.id WHERE user_id = users.id
                AND confirmed_at IS NOT NULL AND rp_id = ${rpId}) AS "usablePasskeys",
              factors.id AS "factorId", key_id AS "keyId", secret, last_step AS "lastStep"
            FROM users LEFT JOIN factors
              ON factors.user_id = users.id AND type = 'totp' AND confirmed_at IS NOT NULL
            WHERE users.id = ${BigInt(userId)} AND deleted_at IS NULL`,
        );
        return row ? toAccount(row) : null;
      }),

    list: (userId) =>
      mapDatabaseErrors(async () => {
        const id = BigInt(userId);
        const read = prisma.user.findUnique({
          where: { id, deletedAt: null },
          select: {
            passkeyHandle: true,
            factors: {
              where: { confirmedAt: { not: null } },
              orderBy: { id: 'asc' },
              include: { passkey: { select: { credentialId: true, rpId: true } } },
            },
            _count: { select: { recoveryCodes: true } },
          },
        });
        const user = await readPrimary(prisma, read);
        if (!user) return null;
        const factors = user.factors.map((row) => ({
          id: Number(row.id),
          type: row.type as FactorType,
          name: row.name,
          createdAt: row.createdAt.getTime(),
          lastUsedAt: row.lastUsedAt?.getTime() ?? null,
        }));
        const handle = user.passkeyHandle;
        const credentialIds = user.factors.flatMap(({ passkey }) =>
          passkey?.rpId === rpId ? [passkey.credentialId] : [],
        );
        const accepted = rpId !== null && handle ? { rpId, handle, credentialIds } : null;
        return { factors, codesLeft: user._count.recoveryCodes, accepted };
      }),

    setUp: (caller, { sealed, createdAt, passwordVersion }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          await lockToAdd(tx, caller, settings, passwordVersion);
          return addUnconfirmed(tx, caller, { type: 'totp', name: TOTP_NAME, createdAt, ...sealed });
        }),
      ),

    findUnconfirmed: ({ userId, tokenId }) =>
      mapDatabaseErrors(async () => {
        const [row] = await onPrimary<UnconfirmedRow>(
          prisma,
          Prisma.sql`
            SELECT id, key_id AS "keyId", secret, last_step AS "lastStep" FROM factors
            WHERE user_id = ${BigInt(userId)} AND session_id = ${BigInt(tokenId)} AND confirmed_at IS NULL
              AND type = 'totp'`,
        );
        return row ? toTotp(row) : null;
      }),

    confirm: (caller, { factorId, step, at, codeHashes }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          const locked = await lockToAdd(tx, caller, settings);
          const [id, userId] = [BigInt(factorId), BigInt(caller.userId)];
          const mine = { id, userId, type: 'totp', sessionId: BigInt(caller.tokenId), confirmedAt: null };
          const now = new Date(at);
          // Locks it: a purge may be deleting it, and must not do so after this.
          const used = { lastUsedAt: now, lastStep: BigInt(step) };
          if ((await tx.factor.updateMany({ where: mine, data: used })).count === 0) return null;
          await tx.factor.deleteMany({ where: { userId, type: 'totp', confirmedAt: { not: null } } });
          await tx.factor.update({ where: { id }, data: { confirmedAt: now } });
          return noteAdded(tx, locked, settings, { at, codeHashes });
        }),
      ),

    replaceCodes: (caller, { codeHashes, passwordVersion }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          const { factorSince } = await lockProven(tx, caller, passwordVersion);
          const hasFactor = factorSince !== null;
          if (hasFactor) await writeCodes(tx, BigInt(caller.userId), codeHashes);
          return hasFactor;
        }),
      ),

    remove: (caller, { id, passwordVersion }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          await lockProven(tx, caller, passwordVersion);
          const confirmed = { userId: BigInt(caller.userId), confirmedAt: { not: null } };
          const { count } = await tx.factor.deleteMany({ where: { ...confirmed, id: BigInt(id) } });
          if (count === 0) return false;
          if (notices) await wantNotice(tx, BigInt(caller.userId), 'factor_removed');
          if ((await tx.factor.count({ where: confirmed })) === 0)
            await clearFactors(tx, BigInt(caller.userId));
          return true;
        }),
      ),

    removeAll: (key, at) =>
      mapDatabaseErrors(() =>
        inLaneOf(postgres, key, async (tx, isIt) => {
          const [user] = await tx.$queryRaw<{ id: bigint }[]>`
            SELECT id FROM users WHERE ${isIt} FOR NO KEY UPDATE`;
          if (!user) return null;
          const factors = await tx.factor.count({ where: { userId: user.id, confirmedAt: { not: null } } });
          await clearFactors(tx, user.id);
          if (notices && factors > 0) await wantNotice(tx, user.id, 'factor_removed');
          const userId = Number(user.id);
          return { userId, factors, ...(await endTokens(tx, userId, endsAll(at))) };
        }),
      ),
  };
}

/**
 * Uses up a proof, under the lock of the user's row: a code is good once, also at two replicas at the same time.
 * @param at milliseconds since 1970.
 * @throws AuthError `invalid_second_factor` if it was used, or is gone, meanwhile; `invalid_passkey` as
 * `usePasskey`
 */
export async function useProof(
  tx: AccountTransaction,
  userId: number,
  proof: FactorProof,
  at: number,
): Promise<void> {
  if (proof.type === 'passkey') {
    await usePasskey(tx, userId, proof, at);
    return;
  }
  const used =
    proof.type === 'totp'
      ? await tx.factor.updateMany({
          where: {
            id: BigInt(proof.factorId),
            userId: BigInt(userId),
            confirmedAt: { not: null },
            lastStep: { lt: BigInt(proof.step) },
          },
          data: { lastStep: BigInt(proof.step), lastUsedAt: new Date(at) },
        })
      : await tx.recoveryCode.deleteMany({
          where: { userId: BigInt(userId), codeHash: new Uint8Array(proof.codeHash) },
        });
  if (used.count === 0) throw new AuthError('invalid_second_factor');
}

/**
 * For accounts that the same transaction adds with `factorSince`. The apps are confirmed, because their users
 * have them already. Users make recovery codes themselves.
 */
export async function addConfirmedTotps(
  tx: Pick<Prisma.TransactionClient, 'factor'>,
  totps: readonly { userId: bigint; sealed: SealedSecret }[],
  now: Date,
): Promise<void> {
  const data = totps.map(({ userId, sealed: { keyId, secret } }) => {
    const times = { createdAt: now, confirmedAt: now };
    return { userId, type: 'totp', name: TOTP_NAME, ...times, keyId, secret: new Uint8Array(secret) };
  });
  if (data.length > 0) await tx.factor.createMany({ data });
}

/** Also one that was only set up. A login is then one step again, and a device has nothing to be known by. */
async function clearFactors(tx: AccountTransaction, userId: bigint): Promise<void> {
  await tx.user.update({ where: { id: userId }, data: { factorSince: null } });
  await tx.factor.deleteMany({ where: { userId } });
  await tx.recoveryCode.deleteMany({ where: { userId } });
  await tx.knownDevice.updateMany({ where: { userId }, data: { withFactor: false } });
}

function toAccount(row: AccountRow): SecondStepAccount {
  return {
    userId: Number(row.id),
    passwordVersion: row.passwordVersion,
    disabled: row.disabled,
    enabledAt: row.enabledAt?.getTime() ?? 0,
    totp: row.factorId === null ? null : toTotp({ ...row, id: row.factorId }),
    passkeys: { all: Number(row.passkeys), usable: Number(row.usablePasskeys) },
    codesLeft: Number(row.codesLeft),
    hasCode: row.hasCode,
    knownCallers: row.knownCallers,
  };
}

function toTotp({
  id,
  keyId,
  secret,
  lastStep,
}: Pick<AccountRow, 'keyId' | 'secret' | 'lastStep'> & { id: bigint }): TotpRecord {
  return { id: Number(id), sealed: { keyId, secret }, lastStep: Number(lastStep) };
}
