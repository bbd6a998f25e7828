import type { TokenKey } from '../../domain/principal.ts';
import { randomUUID } from 'node:crypto';
import { makeFence, type FeedLook } from '../../domain/feed/fence.ts';
import {
  eventTypesOf,
  type FeedEvent,
  type RevocationFeed,
  type UserEventType,
} from '../../domain/feed/ports.ts';
import type { Observe } from '../../telemetry/observe.ts';
import { pause } from '../pause.ts';
import { orUnavailable } from './connection/errors.ts';
import { makeScriptClient, type ScriptClientOptions } from './script-client.ts';
import type { Argument, FeedReply, ScriptedCluster, ScriptedRedis } from './connection/scripts.ts';

export interface RedisFeedOptions extends ScriptClientOptions {
  /** REDIS_PREFIX. */
  prefix: string;
  observe: Pick<Observe, 'redisAnswered' | 'redisFailed' | 'feedPublished'>;
  /** Events to keep, roughly. */
  kept?: number;
}

/** Expiry of the feed's keys in seconds; every renewal extends it. */
const TTL = 3600;
/** A reader that missed more events than this gets a snapshot. */
const KEPT = 100_000;
/** Seconds within which no event is added twice: longer than renewals repeat it (see lease.ts). */
const ONCE = 120;
/** Seconds by which Redis's clock may have been set in between. */
const MARGIN = 10;
/** Events per script call. */
const BATCH = 1000;
/** Neither renews, reads nor asks. */
const NOTHING = ['', '', '', 0, '', '', ''];

type Kind = 'token' | 'theft' | 'user' | 'covered' | UserEventType;
type Item = `${Kind}:${number}:${number}`;

/** User keys have numbers as hash tags. @param prefix REDIS_PREFIX. */
export function makeFeedKey(prefix: string) {
  return (name: 'state' | 'stream' | 'recent') => `${prefix}{feed}:${name}`;
}

/** The feed as a stream in Redis. All replicas run the same script (lua/feed.lua). */
export function makeRedisRevocationFeed(
  redis: ScriptedRedis | ScriptedCluster,
  { prefix, kept = KEPT, ...options }: RedisFeedOptions,
): RevocationFeed {
  const key = makeFeedKey(prefix);
  const names = [key('state'), key('stream'), key('recent')];
  const { observe } = options;
  const scripts = makeScriptClient(redis, options);
  const argumentsOf = (rest: Argument[]) => [...names, randomUUID(), TTL, kept, ONCE, ...rest];
  const read = ([epoch, last, added, isThere, entries]: FeedReply) => {
    observe.feedPublished(added);
    return { epoch, last: Number(last), events: isThere === 1 ? entries.map(readEntry) : null };
  };
  const add = async (items: Item[]) => {
    for (let i = 0; i < items.length; i += BATCH) {
      read(await scripts.feedUngated(argumentsOf([...NOTHING, ...items.slice(i, i + BATCH)])));
    }
  };
  /** Reads no events. */
  const look = async (isAsking: boolean): Promise<FeedLook> => {
    const asks = isAsking && options.gate.isAdmitted() ? 1 : '';
    const reply = await scripts.feedUngated(argumentsOf(['', '', '', 0, asks, '', '']));
    const [epoch, last, , , , asked, served] = reply;
    return { epoch, last: Number(last), asked: asks ? asked : null, served };
  };
  const fence = makeFence({ look, pause });
  const itemsOf = (kind: Kind, keys: readonly TokenKey[]) =>
    keys.map(({ userId, tokenId }): Item => `${kind}:${userId}:${tokenId}`);

  return {
    publish: (keys) => add(itemsOf('token', keys)),
    publishUnrecorded: (keys) => add(itemsOf('theft', keys)),
    publishUser: ({ userId, before }, keys) => add([`user:${userId}:${before}`, ...itemsOf('covered', keys)]),

    publishChanges: (changes) =>
      add(
        changes.flatMap(({ user: { id, version = 0 }, status }) =>
          eventTypesOf(status).map((type): Item => `${type}:${id}:${version}`),
        ),
      ),

    async renewed(from, to, mark) {
      const range = [Math.floor(from / 1000) - MARGIN, Math.ceil(to / 1000)];
      const serves = [mark?.epoch ?? '', mark?.asked ?? ''];
      read(await scripts.feedUngated(argumentsOf([...range, '', 0, '', ...serves])));
    },

    async read(seq, limit) {
      return read(await scripts.feed(argumentsOf(['', '', seq, limit, '', '', ''])));
    },

    fence,
    async end() {
      const { epoch, last } = await look(false);
      return { epoch, seq: last };
    },
    async askedRenewal() {
      const fields = orUnavailable(redis.hmget(key('state'), 'epoch', 'asked', 'served'));
      const [epoch, asked, served] = await fields;
      return epoch && Number(asked ?? 0) > Number(served ?? 0) ? { epoch, asked: Number(asked) } : null;
    },
  };
}

function readEntry([id, [kind, text]]: FeedReply[4][number]): FeedEvent {
  const seq = Number.parseInt(id);
  const [userId = NaN, number = NaN] = text.split(':').map(Number);
  if (kind === 'user') return { seq, type: 'user_revoked', userId, before: number };
  if (kind === 'token' || kind === 'theft') return { seq, type: 'revoked', tokenId: number, userId };
  return { seq, type: kind as UserEventType, userId, version: number };
}
