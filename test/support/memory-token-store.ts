import { AuthError } from '../../src/domain/errors.ts';
import { asEnded, type EndedPosition, type EndReason } from '../../src/domain/tokens/ended-token.ts';
import type { RevocationStore, StateWriter, TokenStore } from '../../src/domain/tokens/ports.ts';
import type { TokenRecord } from '../../src/domain/tokens/token-record.ts';
import type { User } from '../../src/domain/users/user.ts';

export interface MemoryTokenStore extends TokenStore, RevocationStore, StateWriter {
  disable(userId: number): void;
}

/**
 * Token records in maps, for tests of the domain. The contracts in test/contract/ that hold for PostgreSQL hold for it
 * too.
 */
export function makeMemoryTokenStore(people: readonly User[]): MemoryTokenStore {
  const users = new Map(people.map((user) => [user.id, user]));
  const records = new Map<number, TokenRecord>();
  const pending = new Set<number>();
  const settled = new Map<number, number>();
  const reasons = new Map<number, EndReason>();

  function add(record: Omit<TokenRecord, 'id' | 'lastUsedAt' | 'revokedAt'>): number {
    const id = records.size + 1;
    records.set(id, { ...record, id, lastUsedAt: null, revokedAt: null });
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
  const promised = <Result>(work: () => Result): Promise<Result> => Promise.resolve().then(work);

  return {
    addSession: (userId, { name, createdAt, state }, { limit, liveSince, createdSince = 0 }) =>
      promised(() => {
        if (!mayLogIn(userId)) return null;
        const replaced = ofUser(userId, 'session')
          .filter((record) => record.state.latest > liveSince && record.createdAt > createdSince)
          .sort((one, other) => other.state.latest - one.state.latest)
          .slice(limit - 1);
        for (const record of replaced) end(record, createdAt, 'replaced');
        const id = add({ userId, type: 'session', name, createdAt, state });
        return { id, replaced: replaced.map((record) => record.id) };
      }),

    addLongLived: (userId, { name, createdAt }, limit) =>
      promised(() => {
        if (!mayLogIn(userId)) throw new AuthError('invalid_token');
        if (ofUser(userId, 'llt').length >= limit) return null;
        const state = { latest: 0, parent: 0, first: 0, confirmed: false, client: '' };
        return add({ userId, type: 'llt', name, createdAt, state });
      }),

    find: (id) =>
      promised(() => {
        const record = records.get(id);
        const user = record && users.get(record.userId);
        return record && user ? { record, user } : null;
      }),

    revoke: (userId, id, at, type, reason = 'logout') =>
      promised(() => {
        const record = records.get(id);
        if (record?.userId !== userId || (type && record.type !== type)) return false;
        if (record.revokedAt === null) end(record, at, reason);
        return true;
      }),

    revokeAll: (userId, { at, reason, usedSince, keep }) =>
      promised(() => {
        if (keep !== undefined && !ofUser(userId, 'session').some(({ id }) => id === keep))
          throw new AuthError('invalid_token');
        const ended = inUse(userId, usedSince)
          .filter(({ id }) => id !== keep)
          .map((record) => end(record, at, reason));
        const ids = [...records.values()].filter((record) => record.userId === userId).map(({ id }) => id);
        return { ended, before: keep === undefined ? Math.max(0, ...ids) : null };
      }),

    list: (userId, usedSince = -1) => promised(() => inUse(userId, usedSince)),

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

    pending: (limit, userId) =>
      promised(() =>
        [...records.values()]
          .filter((record) => pending.has(record.id) && (userId === undefined || record.userId === userId))
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
        for (const id of ids) {
          pending.delete(id);
          if (records.get(id)?.revokedAt) settled.set(id, Date.now());
        }
      }),

    settledSince: (since, limit) =>
      promised(() => {
        const from = 'ago' in since ? { at: Date.now() - since.ago, id: Infinity } : since;
        return [...records.values()]
          .map((record) => ({ key: keyOf(record), at: settled.get(record.id) ?? -1 }))
          .filter(({ key, at }) => at > from.at || (at === from.at && key.tokenId > from.id))
          .sort((one, other) => one.at - other.at || one.key.tokenId - other.key.tokenId)
          .slice(0, limit);
      }),

    saveStates: (states) =>
      promised(() =>
        states.flatMap(({ userId, tokenId, state }) => {
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

    disable(userId) {
      const user = users.get(userId);
      if (user) users.set(userId, { ...user, disabled: true });
    },
  };
}

function newestFirst(one: EndedPosition, other: EndedPosition): number {
  return other.endedAt - one.endedAt || other.id - one.id;
}
