import { loadSettings, type Environment } from '../config/config.ts';
import { judgeMark } from '../doctor/redis-mark.ts';
import { makeEnforcement, type EnforcementAnswer } from '../domain/enforcement/enforcement.ts';
import { STATES } from '../domain/enforcement/judge.ts';
import { makeListReaders, type ReaderPage } from '../domain/enforcement/list-readers.ts';
import { NAMELESS, type JudgedReader, type Target } from '../domain/enforcement/ports.ts';
import { rememberFor, withEpochsFor } from '../domain/feed/epochs.ts';
import type { RevocationFeed } from '../domain/feed/ports.ts';
import type { PrismaClient } from '../generated/prisma/client.ts';
import { makeMarks } from '../infra/installation/marks.ts';
import { makeInstallationRecord } from '../infra/installation/record.ts';
import { makeRedisMarks } from '../infra/installation/redis-marks.ts';
import { pause } from '../infra/pause.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makeFeedReaders } from '../infra/postgres/feed-readers.ts';
import { orUnavailable } from '../infra/redis/connection/errors.ts';
import { openRedis } from '../infra/redis/connection/open-redis.ts';
import { makeRedisRevocationFeed } from '../infra/redis/revocation-feed.ts';
import { systemClock } from '../runtime/system-clock.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { CommandError, isoOrNull } from './command.ts';
import { withPostgres } from './database.ts';

/** Milliseconds to wait for Redis. */
const CONNECT = 5000;
/** Readers that are read at once. */
const PAGE = 1000;
/** One connection, whose Redis is known to be this database's. */
const CONNECTION = {};
const OPEN = { connectionEpoch: () => CONNECTION, isAdmitted: () => true };
const UNOBSERVED = {
  redisAnswered: () => undefined,
  redisFailed: () => undefined,
  feedPublished: () => undefined,
};

const SETTINGS = [
  ...(['REDIS_URL', 'REDIS_MODE', 'REDIS_NODES', 'REDIS_CA', 'REDIS_TIMEOUT', 'REDIS_PREFIX'] as const),
  ...(['REDIS_SENTINEL_NAME', 'REDIS_SENTINEL_USERNAME', 'REDIS_SENTINEL_PASSWORD'] as const),
  'ACCESS_TOKEN_TTL',
] as const;

export type Ask = (target: Target, wait: number) => Promise<EnforcementAnswer>;

interface OpenedEnforcement {
  postgres: Postgres;
  /** @param wait seconds. @throws AuthError `unavailable` */
  ask: Ask;
  /** Whoever waits gets an answer at once. */
  hurry: () => void;
}

/**
 * The parts that answer which readers refuse what has ended. What is pending, the replicas publish. To Redis they write
 * only that somebody asks, for the replica that renews the feed, and the beginning of an epoch if Redis has lost it.
 * @throws CommandError without the Redis of this database, AuthError `unavailable`, ConfigError
 */
export function withEnforcement<Result>(
  env: Environment,
  work: (opened: OpenedEnforcement) => Promise<Result>,
): Promise<Result> {
  return withPostgres(env, (postgres) =>
    withFeed(env, postgres, async (feed, accessTokenTtl) => {
      if (!feed) throw new CommandError(NEEDS_REDIS);
      const store = makeFeedReaders(postgres);
      const enforcement = makeEnforcement({ store, feed, clock: systemClock, sleep: pause, accessTokenTtl });
      const hurry = () => {
        enforcement.close();
      };
      return work({ postgres, ask: enforcement.ask, hurry });
    }),
  );
}

const NEEDS_REDIS =
  'REDIS_URL is not set, so how far the feed has got is known to the service alone: ask it with ' +
  'GET /api/auth/revocations/enforcement (docs/enforcement.md)';

/** All readers of the feed. Without Redis, nobody knows here how far behind they are. */
export function readReaders(env: Environment): Promise<Pick<ReaderPage, 'readers' | 'withoutReader'>> {
  return withPostgres(env, (postgres) =>
    withFeed(env, postgres, async (feed) => {
      const end = () => Promise.resolve({ epoch: '', seq: 0 });
      const readPage = makeListReaders({ store: makeFeedReaders(postgres), feed: feed ?? { end } });
      const { withoutReader, ...first } = await readPage(null, PAGE);
      const readers = [...first.readers];
      for (let { next } = first; next !== null;) {
        const page = await readPage(next, PAGE);
        readers.push(...page.readers);
        next = page.next;
      }
      return { readers, withoutReader };
    }),
  );
}

/** @param work gets null without REDIS_URL, and the longest ACCESS_TOKEN_TTL that is known. */
async function withFeed<Result>(
  env: Environment,
  { prisma }: Postgres,
  work: (feed: Pick<RevocationFeed, 'fence' | 'end'> | null, accessTokenTtl: number) => Promise<Result>,
): Promise<Result> {
  const config = loadSettings(env, ...SETTINGS);
  const { REDIS_URL, REDIS_PREFIX: prefix, ACCESS_TOKEN_TTL: own } = config;
  if (REDIS_URL === undefined) return work(null, own);
  const redis = openRedis({ ...config, REDIS_URL });
  redis.on('error', () => undefined);
  try {
    await orUnavailable(withTimeout(redis.connect(), CONNECT));
    // Reading the feed of another installation would begin an epoch there.
    const held = (await makeRedisMarks(redis, prefix).read()).map((master) => master.held);
    const finding = judgeMark(held, await makeMarks(prisma).read(held.flatMap((mark) => mark?.mark ?? [])));
    if (finding.state !== 'ok' || held.includes(null))
      throw new CommandError(`Redis holds no mark of this database: ${finding.todo ?? finding.found}`);
    const feed = makeRedisRevocationFeed(redis, { prefix, gate: OPEN, observe: UNOBSERVED });
    const recorded = await recordedTtl(prisma, own);
    return await work(withEpochsFor(rememberFor(recorded), feed), Math.max(recorded, own));
  } finally {
    redis.disconnect();
  }
}

/**
 * ACCESS_TOKEN_TTL as the replicas have it. Where an operator runs a command, the variable may be missing, and a shorter
 * lifetime would call readers bounded whose tokens are still good.
 */
async function recordedTtl(prisma: PrismaClient, own: number): Promise<number> {
  const facts = await makeInstallationRecord(prisma).read();
  const recorded = Number(facts.get('ACCESS_TOKEN_TTL')?.value);
  return recorded > 0 ? recorded : own;
}

/** For `--json`: the fields of `GET /api/auth/revocations/enforcement`. */
export function forMachines({ endedAt, published, done, counts, waiting }: EnforcementAnswer) {
  return {
    ended_at: isoOrNull(endedAt),
    published: isoOrNull(published),
    done,
    counts,
    waiting: waiting.map(({ reader, state, until }) => ({
      ...namesOf(reader),
      state,
      until: isoOrNull(until),
    })),
  };
}

/** For the terminal. */
export function describeAnswer({ endedAt, published, done, counts, waiting }: EnforcementAnswer): string[] {
  const all = countAll(counts);
  const open = counts.pending + counts.unknown;
  const verdict = done
    ? all === 0
      ? 'done, but no reader is known, so this speaks for nobody'
      : `done: ${readers(all)} refuse it, or are bounded`
    : endedAt === null
      ? 'not done: nothing of it has ended, or it is unknown'
      : published === null
        ? 'not done: a replica has yet to publish it'
        : `not done: ${open} of ${readers(all)} may still accept it`;
  const left = open - waiting.length;
  return [
    verdict,
    STATES.map((state) => `${state} ${counts[state]}`).join(', '),
    ...waiting.map(({ reader, state, until }) => {
      const end = until === null ? 'with no end' : `until ${isoOrNull(until) ?? ''}`;
      return `  ${reader.name}  ${labelOf(reader)}  ${state} ${end}`;
    }),
    ...(left > 0 ? [`  and ${left} more`] : []),
  ];
}

export function countAll(counts: EnforcementAnswer['counts']): number {
  return STATES.reduce((sum, state) => sum + counts[state], 0);
}

function readers(count: number): string {
  return count === 1 ? '1 reader' : `${count} readers`;
}

/** How people tell a reader from others of its service. */
export function labelOf({ reader, instance }: Pick<JudgedReader, 'reader' | 'instance'>): string {
  return reader === NAMELESS ? 'nameless' : (instance ?? reader);
}

/** How programs do. */
export function namesOf({ serviceId, name, reader, instance }: JudgedReader) {
  return { client_id: serviceId, name, reader: reader === NAMELESS ? null : reader, instance };
}
