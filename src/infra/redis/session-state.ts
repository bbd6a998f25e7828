import type { SessionStateStore, Known, TokenKey, Tombstone, Unusable } from '../../domain/sessions/ports.ts';
import { MAX_ELAPSED, type RotationOutcome, type SessionState } from '../../domain/sessions/rotation.ts';
import type { TokenRecord } from '../../domain/tokens/token-record.ts';
import type { User } from '../../domain/users/user.ts';
import { AuthError } from '../../domain/errors.ts';
import { UNOBSERVED, type Observe } from '../../domain/metrics/observe.ts';
import type { RedisCommand } from '../../domain/metrics/outcomes.ts';
import type { Passage, ReplayGate } from './replay-gate.ts';
import { masterOf } from './connections.ts';
import { failureOf, orUnavailable } from './errors.ts';
import { makeKeys } from './keys.ts';
import { makeRedisClock, type RedisClock } from './redis-clock.ts';
import type { ScriptedCluster, ScriptedRedis } from './scripts.ts';

export interface RedisStateOptions {
  /** REDIS_PREFIX. */
  prefix: string;
  /** SESSION_CACHE_TTL in seconds. */
  cacheTtl: number;
  /** Closed until a new connection has been given the revocations that it may have forgotten. */
  gate: Pick<ReplayGate, 'passage'>;
  observe?: Pick<Observe, 'redisAnswered' | 'redisFailed'>;
  /** Tests say what time it is for Redis. */
  clock?: RedisClock;
}

/** The session states in Redis: one script an operation, one round trip, atomic. */
export function makeRedisSessionState(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, cacheTtl, gate, observe = UNOBSERVED, ...options }: RedisStateOptions,
): SessionStateStore {
  const keys = makeKeys(prefix);
  const clock =
    options.clock ??
    makeRedisClock({ ask: (key) => redis.clock(key), masterOf: (key) => masterOf(redis, key) });
  const tombstoneTtl = 2 * cacheTtl;
  const failed = (cause: unknown) => {
    observe.redisFailed(failureOf(cause));
  };
  const notReady = () => {
    observe.redisFailed('not_ready');
    return new AuthError('unavailable');
  };
  const ask = async <Reply>(
    name: RedisCommand,
    command: (passage: Passage) => Promise<Reply>,
  ): Promise<Reply> => {
    const passage = gate.passage();
    if (!passage) throw notReady();
    const start = performance.now();
    const reply = await orUnavailable(command(passage), failed);
    observe.redisAnswered(name, (performance.now() - start) / 1000);
    if (gate.passage() !== passage) throw notReady();
    return reply;
  };
  const bury = (key: TokenKey, tombstone: Tombstone) =>
    redis.revoke(keys.token(key), tombstoneTtl, tombstone === 'reused' ? 'reused' : '1');
  const both = (key: TokenKey) => [keys.token(key), keys.user(key.userId)] as const;

  return {
    async now() {
      const [seconds, micros] = await ask('now', () => redis.time());
      return Number(seconds) * 1_000_000 + Number(micros);
    },

    async rotate(key, { generation, elapsed, window, client }) {
      const asked = performance.now();
      const inside = () => elapsed + Math.ceil((performance.now() - asked) * 1000);
      const present = (micros: number) =>
        ask('rotate', (passage) =>
          clock.timed(
            passage,
            keys.token(key),
            (now) =>
              redis.rotate(...both(key), generation, micros, window, client, cacheTtl, tombstoneTtl, now),
            ([, now]) => (now === undefined ? null : Number(now)),
          ),
        );
      let reply = await present(elapsed);
      // Not late by our own clock: Redis's was set ahead. It has changed nothing, and told us the new time.
      if (reply[0] === 'refused' && reply[2] === 'stale' && inside() <= MAX_ELAPSED)
        reply = await present(inside());
      return (
        readUnusable(reply) ?? {
          ...readRotation(reply),
          ...readKnown(key.userId, reply, 8),
          now: Number(reply[1]),
        }
      );
    },

    async checkAccess(key, generation) {
      const reply = await ask('check_access', () => redis.checkAccess(...both(key), generation));
      const unusable = readUnusable(reply);
      if (unusable) return unusable;
      const known = readKnown(key.userId, reply, 1);
      if (reply[0] === 'superseded') return { outcome: 'superseded', ...known };
      if (reply[0] !== 'good') throw unknownReply('check-access.lua', reply);
      return { outcome: 'good', ...known, ...(reply.length > 5 && { confirmed: readConfirmed(reply) }) };
    },

    async checkLongLived(key) {
      const reply = await ask('check_long_lived', () => redis.checkLongLived(...both(key)));
      const unusable = readUnusable(reply);
      if (unusable) return unusable;
      if (reply[0] !== 'good') throw unknownReply('check-long-lived.lua', reply);
      const used = reply[5] === undefined ? {} : { usedAt: Number(reply[5]) };
      return { outcome: 'good', ...readKnown(key.userId, reply, 1), ...used };
    },

    async put(record, user, asOf) {
      const key = { userId: record.userId, tokenId: record.id };
      return (
        (await ask('put', () => redis.put(...both(key), asOf, cacheTtl, ...putArguments(record, user)))) === 1
      );
    },

    async revoke(key) {
      await ask('revoke', () => bury(key, 'revoked'));
    },

    async revokeAll(revoked, tombstone = 'revoked') {
      await orUnavailable(Promise.all(revoked.map((key) => bury(key, tombstone))), failed);
    },

    async lastUses(userId, tokenIds) {
      const uses = new Map<number, number>();
      if (tokenIds.length === 0) return uses;
      const names = tokenIds.map((tokenId) => keys.token({ userId, tokenId }));
      const replies = await ask('last_uses', () => redis.lastUses(names.length, ...names));
      tokenIds.forEach((tokenId, i) => {
        const [latest, used] = replies[i] ?? [null, null];
        const lastUse = Math.max(Math.floor(Number(latest ?? 0) / 1000), Number(used ?? 0));
        if (lastUse > 0) uses.set(tokenId, lastUse);
      });
      return uses;
    },
  };
}

function putArguments({ state, createdAt, lastUsedAt }: TokenRecord, user: User): (string | number)[] {
  return [
    lastUsedAt ?? '',
    ...[state.latest, state.parent, state.first, state.confirmed ? 1 : 0, state.client, createdAt],
    ...[user.username, user.name, user.createdAt, user.disabled ? 1 : 0],
  ];
}

function readUnusable(reply: string[]): Unusable | null {
  const [outcome, now] = reply;
  if (outcome === 'missing') return { outcome, now: Number(now) };
  if (outcome === 'revoked' || outcome === 'disabled') return { outcome };
  // The step that finds the theft says more.
  if (outcome === 'reused' && reply.length === 1) return { outcome };
  return null;
}

/** The token's and its user's part of a reply: created, username, name, user's created, from `offset` on. */
function readKnown(userId: number, reply: string[], offset: number): Known {
  const [createdAt, username = '', name = '', userCreatedAt] = reply.slice(offset);
  return {
    createdAt: Number(createdAt),
    user: { id: userId, username, name, createdAt: Number(userCreatedAt), disabled: false },
  };
}

/** The state that an access token's first use has confirmed. */
function readConfirmed(reply: string[]): SessionState {
  const [latest, parent, first, client = ''] = reply.slice(5);
  return { latest: Number(latest), parent: Number(parent), first: Number(first), confirmed: true, client };
}

function readRotation(reply: string[]): RotationOutcome {
  const [outcome, , detail = '', latest, parent, first, confirmed, client = ''] = reply;
  const state: SessionState = {
    latest: Number(latest),
    parent: Number(parent),
    first: Number(first),
    confirmed: confirmed === '1',
    client,
  };
  switch (outcome) {
    case 'issued':
      return { outcome, row: detail as 'current' | 'ahead' | 'gap' | 'unconfirmed', state };
    case 'repeated':
      return { outcome, state };
    case 'held':
      return { outcome, retryAfter: Number(detail) };
    case 'refused':
      return { outcome, reason: detail === 'clock' ? 'clock' : 'stale' };
    case 'reused':
      return { outcome };
    default:
      throw unknownReply('rotate.lua', reply);
  }
}

/** Only what is understood is good. */
function unknownReply(script: string, [outcome]: string[]): Error {
  return new Error(`${script} answered ${outcome ?? 'nothing'}`);
}
