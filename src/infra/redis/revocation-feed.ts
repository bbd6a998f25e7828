import { randomUUID } from 'node:crypto';
import { AuthError } from '../../domain/errors.ts';
import type { FeedEvent, RevocationFeed } from '../../domain/feed/ports.ts';
import { UNOBSERVED, type Observe } from '../../domain/metrics/observe.ts';
import type { TokenKey } from '../../domain/sessions/ports.ts';
import { failureOf, orUnavailable } from './errors.ts';
import { makeKeys } from './keys.ts';
import type { ReplayGate } from './replay-gate.ts';
import type { ScriptedCluster, ScriptedRedis } from './scripts.ts';

export interface RedisFeedOptions {
  /** REDIS_PREFIX. */
  prefix: string;
  /** Nothing is read before a new connection has been given the revocations that it may have forgotten. */
  gate: Pick<ReplayGate, 'passage'>;
  observe?: Pick<Observe, 'redisAnswered' | 'redisFailed' | 'feedPublished'>;
  /** Events that are kept, about. */
  kept?: number;
}

/** Seconds that all of it is kept while nobody renews it. */
const TTL = 3600;
/** Whoever was away for longer than so many revocations gets a snapshot. */
const KEPT = 100_000;
/** Seconds within which nothing is added twice: for longer than renewals repeat it (see revocations.ts). */
const ONCE = 120;
/** Seconds by which Redis's clock may have been set meanwhile. */
const MARGIN = 10;
/** Added by one call. */
const BATCH = 1000;

type Item = [kind: 'token' | 'theft' | 'user' | 'covered', userId: number, number: number];

/** The feed as a stream in Redis: one script, which all replicas run (see lua/feed.lua). */
export function makeRedisRevocationFeed(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, gate, observe = UNOBSERVED, kept = KEPT }: RedisFeedOptions,
): RevocationFeed {
  const names = makeKeys(prefix).feed();
  const failed = (cause: unknown) => {
    observe.redisFailed(failureOf(cause));
  };
  const run = async (rest: (string | number)[]) => {
    const start = performance.now();
    const [epoch, last, added, isThere, entries] = await orUnavailable(
      redis.feed(...names, randomUUID(), TTL, kept, ONCE, ...rest),
      failed,
    );
    observe.redisAnswered('feed', (performance.now() - start) / 1000);
    observe.feedPublished(added);
    return { epoch, last: Number(last), events: isThere === 1 ? entries.map(readEntry) : null };
  };
  const add = async (items: Item[]) => {
    for (let i = 0; i < items.length; i += BATCH) {
      await run(['', '', '', 0, ...items.slice(i, i + BATCH).flat()]);
    }
  };
  const itemsOf = (kind: Item[0], keys: readonly TokenKey[]) =>
    keys.map(({ userId, tokenId }): Item => [kind, userId, tokenId]);

  return {
    publish: (keys) => add(itemsOf('token', keys)),
    publishUnrecorded: (keys) => add(itemsOf('theft', keys)),
    publishUser: ({ userId, before }, keys) => add([['user', userId, before], ...itemsOf('covered', keys)]),

    async renewed(from, to) {
      await run([Math.floor(from / 1000) - MARGIN, Math.ceil(to / 1000), '', 0]);
    },

    async read(seq, limit) {
      const passage = gate.passage();
      const page = passage && (await run(['', '', seq, limit]));
      if (page && gate.passage() === passage) return page;
      observe.redisFailed('not_ready');
      throw new AuthError('unavailable');
    },
  };
}

function readEntry([id, [kind, text]]: [string, [string, string]]): FeedEvent {
  const seq = Number.parseInt(id);
  const [userId = NaN, number = NaN] = text.split(':').map(Number);
  if (kind === 'user') return { seq, type: 'user_revoked', userId, before: number };
  return { seq, type: 'revoked', tokenId: number, userId };
}
