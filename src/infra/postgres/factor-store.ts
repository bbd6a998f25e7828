import { AuthError } from '../../domain/errors.ts';
import { TOTP_NAME, type FactorType } from '../../domain/factors/factor.ts';
import type {
  FactorCaller,
  FactorStore,
  SealedSecret,
  SecondStepAccount,
  TotpRecord,
} from '../../domain/factors/ports.ts';
import type { FactorProof } from '../../domain/tokens/ports.ts';
import { endsAll } from '../../domain/users/account.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { AccountTransaction } from './account-transaction.ts';
import { lockCaller, type LockedUser } from './caller-lock.ts';
import type { Postgres } from './client.ts';
import { endTokens } from './ended-tokens.ts';
import { mapDatabaseErrors, onPrimary, readPrimary } from './errors.ts';
import { FACTOR_CALLERS } from './known-devices.ts';
import { inLaneOf } from './names.ts';
import { wantNotice } from './wanted-mails.ts';

interface AccountRow {
  id: bigint;
  passwordVersion: number;
  disabled: boolean;
  enabledAt: Date | null;
  knownCallers: string[];
  codesLeft: bigint;
  factorId: bigint | null;
  keyId: string;
  secret: Uint8Array;
  lastStep: bigint;
}

type UnconfirmedRow = Pick<AccountRow, 'id' | 'keyId' | 'secret' | 'lastStep'>;

/**
 * The second factors in PostgreSQL.
 * @param notices whether a change of the factors wants a notice.
 * @param needsAddress EMAIL_VERIFICATION: an account gets none before its address is verified. Otherwise whoever signs up
 * with another's address could keep its owner out, since a factor stays after a reset.
 */
export function makeFactorStore(
  postgres: Pick<Postgres, 'prisma' | 'inLane'>,
  notices = false,
  needsAddress = false,
): FactorStore {
  const { prisma, inLane } = postgres;
  return {
    findAccount: (userId) =>
      mapDatabaseErrors(async () => {
        const [row] = await onPrimary<AccountRow>(
          prisma,
          Prisma.sql`
            SELECT users.id, password_version AS "passwordVersion", disabled_at IS NOT NULL AS disabled,
              enabled_at AS "enabledAt", ${FACTOR_CALLERS},
              (SELECT count(*) FROM recovery_codes WHERE user_id = users.id) AS "codesLeft",
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
            factors: { where: { confirmedAt: { not: null } }, orderBy: { id: 'asc' } },
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
        return { factors, codesLeft: user._count.recoveryCodes };
      }),

    setUp: (caller, { sealed, createdAt, passwordVersion }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          const locked = await lockProven(tx, caller, passwordVersion);
          if (needsAddress) requireAddress(locked);
          const userId = BigInt(caller.userId);
          await tx.factor.deleteMany({ where: { userId, confirmedAt: null } });
          const { id } = await tx.factor.create({
            data: {
              userId,
              type: 'totp',
              name: TOTP_NAME,
              createdAt: new Date(createdAt),
              sessionId: BigInt(caller.tokenId),
              keyId: sealed.keyId,
              secret: new Uint8Array(sealed.secret),
            },
            select: { id: true },
          });
          return Number(id);
        }),
      ),

    findUnconfirmed: ({ userId, tokenId }) =>
      mapDatabaseErrors(async () => {
        const [row] = await onPrimary<UnconfirmedRow>(
          prisma,
          Prisma.sql`
            SELECT id, key_id AS "keyId", secret, last_step AS "lastStep" FROM factors
            WHERE user_id = ${BigInt(userId)} AND session_id = ${BigInt(tokenId)} AND confirmed_at IS NULL`,
        );
        return row ? toTotp(row) : null;
      }),

    confirm: (caller, { factorId, step, at, codeHashes }) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, 'proof', async (tx) => {
          const locked = await lockProven(tx, caller);
          if (needsAddress) requireAddress(locked);
          const { factorSince } = locked;
          const [id, userId] = [BigInt(factorId), BigInt(caller.userId)];
          const mine = { id, userId, sessionId: BigInt(caller.tokenId), confirmedAt: null };
          const now = new Date(at);
          // Locks it: a purge may be deleting it, and must not do so after this.
          const used = { lastUsedAt: now, lastStep: BigInt(step) };
          if ((await tx.factor.updateMany({ where: mine, data: used })).count === 0) return null;
          await tx.factor.deleteMany({ where: { userId, type: 'totp', confirmedAt: { not: null } } });
          await tx.factor.update({ where: { id }, data: { confirmedAt: now } });
          if (notices) await wantNotice(tx, userId, 'factor_added');
          if (factorSince !== null) return { isFirst: false };
          await writeCodes(tx, userId, codeHashes);
          await tx.user.update({ where: { id: userId }, data: { factorSince: now } });
          return { isFirst: true };
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
 * @throws AuthError `invalid_second_factor` if it was used, or is gone, meanwhile
 */
export async function useProof(
  tx: AccountTransaction,
  userId: number,
  proof: FactorProof,
  at: number,
): Promise<void> {
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
 * For accounts that the same transaction adds with `factorSince`. Confirmed: their users have the app already. Recovery
 * codes they make themselves.
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

/**
 * As `lockCaller`. If the account has a factor, the caller's session must also be recent.
 * @param passwordVersion of the password that the caller has proved to know.
 * @throws AuthError `invalid_token`, `login_too_old`, `invalid_credentials`
 */
async function lockProven(
  tx: AccountTransaction,
  caller: FactorCaller,
  passwordVersion?: number,
): Promise<LockedUser> {
  const locked = await lockCaller(tx, caller);
  if (passwordVersion !== undefined && locked.passwordVersion !== passwordVersion)
    throw new AuthError('invalid_credentials', { reason: 'password' });
  if (locked.factorSince !== null && caller.createdAt < caller.openedSince)
    throw new AuthError('login_too_old');
  return locked;
}

/** @throws AuthError `email_not_verified` */
function requireAddress({ user }: LockedUser): void {
  if (!user.emailVerified) throw new AuthError('email_not_verified');
}

async function writeCodes(
  tx: AccountTransaction,
  userId: bigint,
  codeHashes: readonly Uint8Array[],
): Promise<void> {
  await tx.recoveryCode.deleteMany({ where: { userId } });
  await tx.recoveryCode.createMany({
    data: codeHashes.map((codeHash) => ({ userId, codeHash: new Uint8Array(codeHash) })),
  });
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
    codesLeft: Number(row.codesLeft),
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
