import type { TokenKey } from '../../domain/principal.ts';
import { AuthError } from '../../domain/errors.ts';
import type { EndReason } from '../../domain/tokens/ended-token.ts';
import type {
  NewLongLived,
  NewSession,
  Revoked,
  SessionConditions,
  StolenLongLived,
  TokenStore,
} from '../../domain/tokens/ports.ts';
import type { Lifetimes } from '../../domain/tokens/claims.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import { makeBatch } from '../tick.ts';
import type { AccountTransaction } from './account-transaction.ts';
import type { Postgres } from './client.ts';
import { lockCaller, lockUser, requireActive } from './caller-lock.ts';
import {
  endRows,
  endTokens,
  findEnded,
  openTokens,
  openAccountsOf,
  writeEnds,
  type OpenAccount,
  type OpenToken,
} from './ended-tokens.ts';
import { useProof } from './factor-store.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { KNOWN_CALLERS, rememberDevice } from './known-devices.ts';
import { inTransaction, prepare } from './prepared.ts';
import { OWNED_COLUMNS, toRecord, userOf, type OwnedRow } from './rows.ts';
import { wantNotice } from './wanted-mails.ts';

/** The most users whose tokens one statement lists: the lists of one turn of the event loop share it. */
const MOST_LISTED = 32;

/**
 * The token records in PostgreSQL.
 * @param notices whether logins want notices of what they did.
 */
export function makeTokenStore(
  { prisma, run, inLane }: Pick<Postgres, 'prisma' | 'run' | 'inLane'>,
  lifetimes: Lifetimes,
  notices = false,
): TokenStore {
  const accountOf = makeBatch<number, OpenAccount>({
    limit: () => MOST_LISTED,
    run: (userIds) => openAccountsOf(run, userIds),
  });

  return {
    addSession: (userId, session, conditions) =>
      mapDatabaseErrors(() =>
        inLane(userId, 'proof', async (tx) => {
          const locked = await lockUser(tx, userId);
          if (locked?.user.disabled !== false) return null;
          const { passwordVersion, enabledAt, proof } = conditions;
          // What was proved before a change of the password, or before the account was disabled, is void.
          if (passwordVersion !== locked.passwordVersion || enabledAt !== locked.enabledAt)
            throw new AuthError('invalid_credentials', { reason: 'password' });
          if (locked.factorSince !== null && !proof) throw new AuthError('second_factor_required');
          if (proof) await useProof(tx, userId, proof, session.createdAt);
          const open = await openTokens(inTransaction(tx), userId);
          const replaced = await makeRoom(tx, open, conditions, session.createdAt);
          await writeEnds(tx, open, lifetimes, session.createdAt);
          const data = { userId: BigInt(userId), ...sessionColumns(session) };
          const { id } = await tx.token.create({ data, select: { id: true } });
          if (notices) await noticeLogin(tx, userId, conditions);
          await rememberDevice(
            tx,
            userId,
            session.state.caller,
            proof !== null && locked.factorSince !== null,
          );
          return { id: Number(id), replaced, user: locked.user };
        }),
      ),

    addLongLived: (userId, token, limit) =>
      mapDatabaseErrors(() =>
        inLane(userId, { token: token.createdBy?.sessionId ?? 0 }, async (tx) => {
          const { createdBy } = token;
          if (createdBy) await lockCaller(tx, { ...createdBy, userId, tokenId: createdBy.sessionId });
          else requireActive(await lockUser(tx, userId));
          const open = await openTokens(inTransaction(tx), userId);
          const isGood = ({ type, revokedAt, expiresAt }: OpenToken) =>
            type === 'llt' && revokedAt === null && (expiresAt ?? Infinity) > token.createdAt;
          if (open.filter(isGood).length >= limit) return null;
          await writeEnds(tx, open, lifetimes, token.createdAt);
          const data = { userId: BigInt(userId), ...longLivedColumns(token) };
          const { id } = await tx.token.create({ data, select: { id: true } });
          return Number(id);
        }),
      ),

    find: (id) =>
      mapDatabaseErrors(async () => {
        const [row] = refuseStandby(await run<FoundRow>(FIND, [id]));
        return row.id === null ? null : { record: toRecord(row), user: userOf(row) };
      }),

    revoke: (userId, id, at, type, reason = 'logout', turn = { token: id }) =>
      mapDatabaseErrors(() =>
        inLane(userId, turn, (tx) => revokeOne(tx, { userId, tokenId: id }, { at, type, reason })),
      ),

    revokeByCaller: (caller, id, at, type) =>
      mapDatabaseErrors(() =>
        inLane(caller.userId, { token: caller.tokenId }, async (tx) => {
          await lockCaller(tx, { ...caller, withFactor: null }, [id]);
          return revokeOne(tx, { userId: caller.userId, tokenId: id }, { at, type, reason: 'logout' });
        }),
      ),

    revokeMany: (revocations, at) =>
      mapDatabaseErrors(async () => {
        const rows = await run<{ outcome: Outcome }>(REVOKE_MANY, [
          revocations.map(({ key }) => key.tokenId),
          revocations.map(({ key }) => key.userId),
          // A database may read NULL in an array as a text (array_nulls).
          revocations.map(({ type }) => type ?? ''),
          revocations.map(({ caller }) => caller ?? 0),
          new Date(at),
        ]);
        return rows.map(({ outcome }) => {
          if (outcome === 'caller gone') return new AuthError('invalid_token', { reason: 'gone' });
          if (outcome === 'caller disabled') return new AuthError('invalid_token', { reason: 'disabled' });
          if (outcome === 'caller revoked') return new AuthError('invalid_token', { reason: 'revoked' });
          return outcome === 'unknown' ? null : outcome;
        });
      }),

    revokeForReuse: (userId, sessionId, at, since) =>
      mapDatabaseErrors(() =>
        inLane(userId, { token: sessionId }, (tx) => endStolen(tx, userId, sessionId, at, since)),
      ),

    revokeAll: (userId, ending) =>
      mapDatabaseErrors(() =>
        inLane(userId, ending.caller ? { token: ending.caller.tokenId } : 'service', (tx) =>
          endTokens(tx, userId, ending),
        ),
      ),

    list: (userId, usedSince) => mapDatabaseErrors(async () => inUse(await accountOf(userId), usedSince)),

    listWithLocale: (userId, usedSince) =>
      mapDatabaseErrors(async () => {
        const account = await accountOf(userId);
        return { records: inUse(account, usedSince), locale: account.locale };
      }),

    listEnded: (userId, range, lifetimes) =>
      mapDatabaseErrors(() => findEnded(prisma, userId, range, lifetimes)),
  };
}

/** The records that are not revoked, without sessions not used since a time (µs). */
function inUse({ open }: OpenAccount, usedSince = -1): TokenRecord[] {
  return open
    .filter(
      ({ type, revokedAt, state }) => revokedAt === null && (type === 'llt' || state.latest > usedSince),
    )
    .map(({ endReason: _, ...record }) => record);
}

/**
 * A token with its user, read by one statement: between two, the user could be disabled. A standby, or a primary that
 * was replaced, may lack a revocation, and its answer would become the state in Redis for all replicas.
 */
type FoundRow = { isStandby: boolean } & ({ id: null } | OwnedRow);

const FIND = prepare(`
  SELECT ${IS_STANDBY.text}, ${OWNED_COLUMNS.text} FROM (SELECT) AS one
  LEFT JOIN tokens ON tokens.id = $1 LEFT JOIN users ON users.id = tokens.user_id`);

type Outcome = Revoked | 'locked' | 'unknown' | `caller ${'gone' | 'disabled' | 'revoked'}`;

/**
 * See TokenStore.revokeMany. A row that another transaction holds is skipped, so that no request waits for the lock of
 * another one, and no order of locks can deadlock. `held` and `owners` read the newest versions of the rows that they
 * lock, also where those have changed since the statement began.
 */
const REVOKE_MANY = prepare(`
  WITH given AS (
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[])
      WITH ORDINALITY AS given(id, user_id, type, caller, place)
  ), owners AS MATERIALIZED (
    SELECT id, disabled_at FROM users WHERE id IN (SELECT user_id FROM given WHERE caller <> 0)
    FOR NO KEY UPDATE SKIP LOCKED
  ), held AS MATERIALIZED (
    SELECT id, user_id, type, revoked_at, pending FROM tokens
    WHERE id IN (SELECT id FROM given UNION ALL SELECT caller FROM given WHERE caller <> 0)
    FOR NO KEY UPDATE SKIP LOCKED
  ), judged AS (
    SELECT place, given.id, CASE
      WHEN EXISTS (
          -- By id: a user may have very many tokens.
          SELECT FROM tokens
          WHERE id IN (given.id, caller) AND user_id + 0 = given.user_id AND id NOT IN (SELECT id FROM held))
        OR caller <> 0 AND EXISTS (
          SELECT FROM users WHERE id = given.user_id AND id NOT IN (SELECT id FROM owners)) THEN 'locked'
      WHEN caller <> 0 AND owners.disabled_at IS NOT NULL THEN 'caller disabled'
      WHEN caller <> 0 AND (owners.id IS NULL OR callers.id IS NULL) THEN 'caller gone'
      WHEN caller <> 0 AND callers.revoked_at IS NOT NULL THEN 'caller revoked'
      WHEN targets.id IS NULL THEN 'unknown'
      WHEN targets.revoked_at IS NULL THEN 'now'
      WHEN targets.pending THEN 'unfinished'
      ELSE 'finished' END AS outcome
    FROM given
    LEFT JOIN owners ON owners.id = given.user_id
    LEFT JOIN held AS callers ON callers.id = caller AND callers.user_id = given.user_id
    LEFT JOIN held AS targets ON targets.id = given.id AND targets.user_id = given.user_id
      AND given.type IN ('', targets.type::text)
  ), ended AS (
    UPDATE tokens SET revoked_at = $5, pending = true, end_reason = 'logout'
    FROM judged WHERE tokens.id = judged.id AND outcome = 'now'
  )
  SELECT outcome FROM judged ORDER BY place`);

/** Before the device becomes known. */
async function noticeLogin(
  tx: AccountTransaction,
  userId: number,
  { proof, isNewTo }: SessionConditions,
): Promise<void> {
  const id = BigInt(userId);
  const [user] = await tx.$queryRaw<{ knownCallers: string[] }[]>`
    SELECT ${KNOWN_CALLERS} FROM users WHERE id = ${id}`;
  if (isNewTo(user?.knownCallers ?? [])) await wantNotice(tx, id, 'new_device');
  if (proof?.type === 'recovery_code') await wantNotice(tx, id, 'recovery_code_used');
}

/** The columns of a new session. */
export function sessionColumns({ name, createdAt, state }: NewSession) {
  return {
    type: 'session' as const,
    name,
    createdAt: new Date(createdAt),
    latest: BigInt(state.latest),
    parent: BigInt(state.parent),
    first: BigInt(state.first),
    confirmed: state.confirmed,
    caller: state.caller,
  };
}

async function revokeOne(
  tx: AccountTransaction,
  { userId, tokenId }: TokenKey,
  { at, type, reason }: { at: number; type: TokenRecord['type'] | undefined; reason: EndReason },
): Promise<Revoked | null> {
  const ofType = type === undefined ? Prisma.empty : Prisma.sql`AND type::text = ${type}`;
  const which = Prisma.sql`id = ${BigInt(tokenId)} AND user_id = ${BigInt(userId)} ${ofType}`;
  if ((await endRows(tx, which, { at, reason })).length > 0) return 'now';
  const [row] = await tx.$queryRaw<{ pending: boolean }[]>`SELECT pending FROM tokens WHERE ${which}`;
  if (!row) return null;
  return row.pending ? 'unfinished' : 'finished';
}

function longLivedColumns({
  name,
  createdAt,
  kid,
  expiresAt = null,
  limited = null,
  createdBy,
}: NewLongLived) {
  return {
    type: 'llt' as const,
    name,
    createdAt: new Date(createdAt),
    kid,
    expiresAt: expiresAt === null ? null : new Date(expiresAt),
    createdBy: createdBy ? BigInt(createdBy.sessionId) : null,
    createdGeneration: createdBy ? BigInt(createdBy.generation) : null,
    scopes: limited?.scopes.join(' ') ?? null,
    audience: limited?.audience ?? null,
  };
}

/**
 * Revokes the least recently used sessions to make room for one more.
 * @returns those that this has ended: a logout may have been first.
 */
async function makeRoom(
  tx: AccountTransaction,
  open: readonly OpenToken[],
  { limit, liveSince, createdSince }: SessionConditions,
  at: number,
): Promise<number[]> {
  const live = open.filter(
    ({ type, revokedAt, state, createdAt }) =>
      type === 'session' && revokedAt === null && state.latest > liveSince && createdAt > createdSince,
  );
  const ids = live
    .sort((one, other) => other.state.latest - one.state.latest)
    .slice(limit - 1)
    .map(({ id }) => BigInt(id));
  if (ids.length === 0) return [];
  // The order of locks: caller-lock.ts.
  await tx.$queryRaw`SELECT id FROM tokens WHERE id = ANY(${ids}) ORDER BY id FOR NO KEY UPDATE`;
  const replaced = await endRows(tx, Prisma.sql`id = ANY(${ids})`, { at, reason: 'replaced' });
  return replaced.map(({ id }) => id);
}

interface StolenRow {
  id: bigint;
  is_session: boolean;
  is_revoked: boolean;
  is_pending: boolean;
  end_reason: string | null;
  created_generation: bigint | null;
}

/**
 * See TokenStore.revokeForReuse. A first statement locks only the user's row, as code that adds tokens does, so that
 * the next statement sees every long-lived token added before.
 */
async function endStolen(
  tx: AccountTransaction,
  userId: number,
  sessionId: number,
  at: number,
  since: number | undefined,
): Promise<StolenLongLived | null> {
  const [owner, session] = [BigInt(userId), BigInt(sessionId)];
  await lockUser(tx, userId);
  const rows = await tx.$queryRaw<StolenRow[]>`
    SELECT id, type = 'session' AS is_session, revoked_at IS NOT NULL AS is_revoked, pending AS is_pending,
      end_reason, created_generation
    FROM tokens
    WHERE user_id = ${owner}
      AND ((type = 'session' AND id = ${session})
        OR ((ended_at IS NULL OR pending) AND type = 'llt' AND created_by = ${session}))
    ORDER BY id FOR NO KEY UPDATE`;
  const stolen = rows.find((row) => row.is_session);
  if (!stolen) return null;

  const reason = 'reuse' satisfies EndReason;
  // Without a known generation: if the theft is on record, its finder knew the generation and ended the tokens.
  const from = since ?? (stolen.end_reason === reason ? Infinity : 0);
  const created = rows.filter((row) => !row.is_session && Number(row.created_generation) >= from);
  const ids = [session, ...created.map(({ id }) => id)];
  const ended = await endRows(tx, Prisma.sql`id = ANY(${ids})`, { at, reason });
  const pending = created.filter((row) => row.is_revoked && row.is_pending);
  return {
    ended: ended.filter(({ type }) => type === 'llt').map(({ id }) => id),
    pending: pending.map(({ id }) => Number(id)),
  };
}
