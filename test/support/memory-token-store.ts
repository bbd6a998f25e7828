import { AuthError } from '../../src/domain/errors.ts';
import { asEnded, newestFirst, type EndReason } from '../../src/domain/tokens/ended-token.ts';
import type { RevocationStore, StateWriter, TokenStore, Revoked } from '../../src/domain/tokens/ports.ts';
import type { TokenRecord } from '../../src/domain/tokens/token-record.ts';
import type { User } from '../../src/domain/user.ts';

export interface MemoryTokenStore extends TokenStore, RevocationStore, StateWriter {
  disable(userId: number): void;
  /** As a change of the password elsewhere. */
  changePassword(userId: number): void;
  /** As an operator who disables the account and enables it again. */
  enable(userId: number, at: number): void;
  /** As the confirmation of a second factor. Every proof is good here. */
  addFactor(userId: number): void;
}

/**
 * Token records in maps, for tests of the domain. It passes the same contracts in test/contract/ as PostgreSQL's store.
 */
export function makeMemoryTokenStore(people: readonly User[]): MemoryTokenStore {
  const users = new Map(people.map((user) => [user.id, user]));
  const records = new Map<number, TokenRecord>();
  const pending = new Set<number>();
  const settled = new Map<number, number>();
  const reasons = new Map<number, EndReason>();
  /** Of the users' passwords. */
  const versions = new Map<number, number>();
  const enabled = new Map<number, number>();
  const withFactor = new Set<number>();
  /** The generations of the sessions that created them. */
  const origins = new Map<number, number>();

  function add(
    record: Pick<TokenRecord, 'userId' | 'type' | 'name' | 'createdAt' | 'state'> & Partial<TokenRecord>,
  ): number {
    const id = records.size + 1;
    const unused = { lastUsedAt: null, revokedAt: null, expiresAt: null, createdBy: null, limited: null };
    records.set(id, { ...unused, ...record, id });
    return id;
  }
  function end(record: TokenRecord, at: number, reason: EndReason): TokenRecord {
    const ended = { ...record, revokedAt: at };
    records.set(record.id, ended);
    pending.add(record.id);
    reasons.set(record.id, reason);
    return ended;
  }
  const keyOf = ({ id, userId }: TokenRecord) => ({ tokenId: id, userId });
  const ofUser = (userId: number, type: TokenRecord['type']) =>
    [...records.values()].filter(
      (record) => record.userId === userId && record.type === type && record.revokedAt === null,
    );
  const inUse = (userId: number, usedSince: number) =>
    [...records.values()].filter(
      ({ type, state, ...record }) =>
        record.userId === userId && record.revokedAt === null && (type === 'llt' || state.latest > usedSince),
    );
  const mayLogIn = (userId: number) => users.get(userId)?.disabled === false;
  function requireLive(userId: number, callerId: number | null): void {
    const caller = callerId === null ? null : records.get(callerId);
    const hasEnded = caller !== null && (caller?.userId !== userId || caller.revokedAt !== null);
    if (!mayLogIn(userId))
      throw new AuthError('invalid_token', { reason: users.has(userId) ? 'disabled' : 'gone' });
    if (hasEnded) throw new AuthError('invalid_token', { reason: 'gone' });
  }
  function revoke(
    ...[userId, id, at, type, reason = 'logout']: Parameters<TokenStore['revoke']>
  ): Revoked | null {
    const record = records.get(id);
    if (record?.userId !== userId || (type && record.type !== type)) return null;
    if (record.revokedAt !== null) return pending.has(id) ? 'unfinished' : 'finished';
    end(record, at, reason);
    return 'now';
  }
  const promised = <Result>(work: () => Result): Promise<Result> => Promise.resolve().then(work);

  return {
    addSession: (
      userId,
      { name, createdAt, state },
      { limit, liveSince, createdSince, passwordVersion, enabledAt, proof },
    ) =>
      promised(() => {
        const user = users.get(userId);
        if (!user || user.disabled) return null;
        if (passwordVersion !== (versions.get(userId) ?? 0) || enabledAt !== (enabled.get(userId) ?? 0))
          throw new AuthError('invalid_credentials', { reason: 'password' });
        if (!proof && withFactor.has(userId)) throw new AuthError('second_factor_required');
        const replaced = ofUser(userId, 'session')
          .filter((record) => record.state.latest > liveSince && record.createdAt > createdSince)
          .sort((one, other) => other.state.latest - one.state.latest)
          .slice(limit - 1);
        for (const record of replaced) end(record, createdAt, 'replaced');
        const id = add({ userId, type: 'session', name, createdAt, state });
        return { id, replaced: replaced.map((record) => record.id), user };
      }),

    addLongLived: (userId, { name, createdAt, expiresAt = null, limited = null, createdBy }, limit) =>
      promised(() => {
        requireLive(userId, createdBy?.sessionId ?? null);
        const good = ofUser(userId, 'llt').filter((llt) => (llt.expiresAt ?? Infinity) > createdAt);
        if (good.length >= limit) return null;
        const state = { latest: 0, parent: 0, first: 0, confirmed: false, caller: '' };
        const by = createdBy?.sessionId ?? null;
        const id = add({ userId, type: 'llt', name, createdAt, state, expiresAt, limited, createdBy: by });
        if (createdBy) origins.set(id, createdBy.generation);
        return id;
      }),

    find: (id) =>
      promised(() => {
        const record = records.get(id);
        const user = record && users.get(record.userId);
        return record && user ? { record, user } : null;
      }),

    revoke: (...args) => promised(() => revoke(...args)),

    revokeByCaller: ({ userId, tokenId }, id, at, type) =>
      promised(() => {
        requireLive(userId, tokenId);
        return revoke(userId, id, at, type);
      }),

    revokeMany: (revocations, at) =>
      promised(() => {
        // As one statement: each is judged by what was on record before.
        const judged = revocations.map(({ key, caller }) => {
          try {
            if (caller !== null) requireLive(key.userId, caller);
          } catch (error) {
            return error as AuthError;
          }
          return records.get(key.tokenId)?.revokedAt === null ? 'live' : 'ended';
        });
        return revocations.map(({ key, type }, i) => {
          const before = judged[i];
          if (before instanceof AuthError) return before;
          const outcome = revoke(key.userId, key.tokenId, at, type);
          return outcome && before === 'live' ? 'now' : outcome;
        });
      }),

    revokeForReuse: (userId, sessionId, at, since) =>
      promised(() => {
        const session = records.get(sessionId);
        if (session?.userId !== userId || session.type !== 'session') return null;
        const from = since ?? (reasons.get(sessionId) === 'reuse' ? Infinity : 0);
        const created = [...records.values()].filter(
          ({ id, ...record }) =>
            record.userId === userId && record.createdBy === sessionId && (origins.get(id) ?? 0) >= from,
        );
        const ended = created.filter(({ revokedAt }) => revokedAt === null);
        const unsettled = created.filter(({ id, revokedAt }) => revokedAt !== null && pending.has(id));
        for (const record of session.revokedAt === null ? [session, ...ended] : ended)
          end(record, at, 'reuse');
        return { ended: ended.map(({ id }) => id), pending: unsettled.map(({ id }) => id) };
      }),

    revokeAll: (userId, { at, reason, usedSince, caller, keepsCaller, keepsLongLived = false }) =>
      promised(() => {
        if (caller !== null) requireLive(userId, caller.tokenId);
        const keep = keepsCaller && caller ? caller.tokenId : null;
        const ended = inUse(userId, usedSince)
          .filter(({ id, type }) => id !== keep && !(keepsLongLived && type === 'llt'))
          .map((record) => end(record, at, reason));
        const ids = [...records.values()].filter((record) => record.userId === userId).map(({ id }) => id);
        return { ended, before: keep === null && !keepsLongLived ? Math.max(0, ...ids) : null };
      }),

    list: (userId, usedSince = -1) => promised(() => inUse(userId, usedSince)),
    // No user here has one.
    listWithLocale: (userId, usedSince = -1) =>
      promised(() => ({ records: inUse(userId, usedSince), locale: null })),

    listEnded: (userId, { since, now, limit, before }, lifetimes) =>
      promised(() =>
        [...records.values()]
          .filter((record) => record.userId === userId)
          .flatMap((record) => asEnded(record, reasons.get(record.id) ?? null, lifetimes, now) ?? [])
          .filter(({ endedAt }) => endedAt > since)
          .sort(newestFirst)
          .filter((ended) => !before || newestFirst(before, ended) < 0)
          .slice(0, limit),
      ),

    pending: (limit, userId, after = 0) =>
      promised(() =>
        [...records.values()]
          .filter(({ id }) => pending.has(id) && id > after)
          .filter((record) => userId === undefined || record.userId === userId)
          .slice(0, limit)
          .map(keyOf),
      ),

    marksOf: (userIds) =>
      promised(() =>
        userIds
          .filter((id) => users.get(id)?.disabled)
          .map((userId) => {
            const own = [...records.values()].filter((record) => record.userId === userId);
            return { userId, before: Math.max(...own.map(({ id }) => id)) };
          })
          .filter(({ before }) => before > 0),
      ),

    settle: (ids) =>
      promised(() => {
        // One time for all, as in a transaction.
        const now = Date.now();
        for (const id of ids) {
          pending.delete(id);
          if (records.get(id)?.revokedAt) settled.set(id, now);
        }
      }),

    settledSince: (since, limit) =>
      promised(() => {
        const from = 'ago' in since ? { at: Date.now() - since.ago, id: Infinity } : since;
        const page = [...records.values()]
          .map((record) => ({ key: keyOf(record), at: settled.get(record.id) ?? -1 }))
          .filter(({ key, at }) => at > from.at || (at === from.at && key.tokenId > from.id))
          .sort((one, other) => one.at - other.at || one.key.tokenId - other.key.tokenId)
          .slice(0, limit);
        return { keys: page.map(({ key }) => key), last: page.at(-1)?.at ?? 0 };
      }),

    saveStates: (tokenStates) =>
      promised(() =>
        tokenStates.flatMap(({ userId, tokenId, state }) => {
          const record = records.get(tokenId);
          if (record?.userId !== userId || record.revokedAt !== null) return [{ userId, tokenId }];
          const known = record.state;
          const isNewer = state.latest > known.latest || (state.latest === known.latest && state.confirmed);
          if (isNewer) records.set(tokenId, { ...record, state });
          return [];
        }),
      ),

    saveUses: (uses) =>
      promised(() => {
        for (const { tokenId, at } of uses) {
          const record = records.get(tokenId);
          if (record && at > (record.lastUsedAt ?? 0)) records.set(tokenId, { ...record, lastUsedAt: at });
        }
      }),

    saveReportedUses: (uses) =>
      promised(() => {
        for (const { tokenId, at } of uses) {
          const record = records.get(tokenId);
          const isLive = record?.revokedAt === null && (record.expiresAt ?? Infinity) > at;
          if (record?.type === 'llt' && isLive && at - (record.lastUsedAt ?? -Infinity) >= 60_000)
            records.set(tokenId, { ...record, lastUsedAt: at });
        }
      }),

    changePassword(userId) {
      versions.set(userId, (versions.get(userId) ?? 0) + 1);
    },

    enable(userId, at) {
      enabled.set(userId, at);
    },

    addFactor(userId) {
      withFactor.add(userId);
    },

    disable(userId) {
      const user = users.get(userId);
      if (user) users.set(userId, { ...user, disabled: true });
    },
  };
}
