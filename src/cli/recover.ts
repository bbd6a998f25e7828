import { ConfigError, loadSettings, type Config, type Environment } from '../config/config.ts';
import { FIELDS } from '../config/fields.ts';
import { makePostgres, type Postgres } from '../infra/postgres/client.ts';
import { voidAllTokens } from '../infra/postgres/one-time-tokens.ts';
import {
  databaseTime,
  endAgain,
  endAll,
  endServiceTokens,
  lastIds,
  raiseUserVersions,
  skipIds,
  surveyTokens,
  withoutRecord,
  type Ids,
  type TokenSurvey,
} from '../infra/postgres/recover.ts';
import { makeMarks } from '../infra/installation/marks.ts';
import { makeRedisMarks } from '../infra/installation/redis-marks.ts';
import { makeConnections } from '../infra/redis/connection/connections.ts';
import { orUnavailable } from '../infra/redis/connection/errors.ts';
import { openRedis } from '../infra/redis/connection/open-redis.ts';
import { makeHeartbeat, type Heartbeat } from '../infra/redis/heartbeat.ts';
import { forgetFeed, highestIds, redisTime, visitTokens } from '../infra/redis/recover.ts';
import { makeTokenKeys } from '../infra/redis/token-states.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { UsageError, type Values } from './arguments.ts';
import { CommandError, type Command } from './command.ts';
import { confirm, requireConfirmation } from './confirm.ts';
import { tokenLifetimes } from './token-lifetimes.ts';

/** Milliseconds. */
const CONNECT_TIMEOUT = 10_000;

interface Recovered {
  /** Tokens in Redis. */
  tokens: number;
  /** Tokens revoked after the backup, whose record is now revoked again. */
  revoked: number;
  /** Tokens created after the backup: they have no record, and are ended. */
  lost: number;
  /** Tokens ended by --end-all. */
  ended: number;
}

type Setting = keyof typeof FIELDS;

interface Stores {
  config: Pick<Config, Setting>;
  prisma: Postgres['prisma'];
  redis: ReturnType<typeof openRedis>;
  heartbeat: Heartbeat;
}

/**
 * `latchkey recover`: makes a database that was restored from a backup safe to use. Never reuses ids assigned after the
 * backup, revokes in the record the tokens that Redis knows as revoked, and ends in Redis the tokens without a record.
 * Service tokens and reset tokens end too. If Redis may have forgotten what has ended since the backup, the operator has
 * to choose what becomes of it. At the end both stores get a new mark, so that replicas serve with them. May be repeated.
 */
export const run: Command = async ({ env, values }) => {
  const skip = readSkipIds(values['skip-ids']);
  const { 'end-all': all, 'keep-sessions': keep } = values;
  if (all && keep) throw new UsageError('give --end-all or --keep-sessions, not both');
  requireConfirmation('recover', values.yes);
  return withStores(env, async (stores) => {
    await refuseWhileServing(stores.heartbeat, 'Nothing has changed');
    const ids = planRecovery(
      await lastIds(stores.prisma),
      await highestIds(stores.redis, stores.config.REDIS_PREFIX),
      skip,
    );
    const now = await latestTime(stores);
    const ends: KnownEnds = {
      ...(await surveyTokens(stores.prisma, now, tokenLifetimes(env))),
      limit: 2000 * stores.config.SESSION_CACHE_TTL,
      hasTokens: ids.tokens.redis > 0,
    };
    const guard = async (state: string) => {
      await refuseWhileServing(stores.heartbeat, state);
      if (!all && !keep) requireKnownEnds(ends, await latestTime(stores), state);
    };
    await guard('Nothing has changed');
    await agree(ids, describePlan(ids, ends, now, all, await redisIds(stores)), values);
    // The answer may have taken long.
    await guard('Nothing has changed');
    const recovered = await recover(stores, ids, all);
    await guard('The recovery is not complete');
    await bindAnew(stores);
    return {
      result: { ids, newest: timeOf(ends.newest), ...recovered },
      text: describe(recovered, all),
      audited: { ...recovered },
    };
  });
};

/** @throws CommandError if the operator does not agree. */
async function agree(ids: RecoveryPlan, plan: string, { yes, json }: Values): Promise<void> {
  if (!yes || !json) process.stderr.write(`${plan}\n`);
  if (!yes && !(await confirm('Continue?'))) throw new CommandError('Nothing has changed', { ids });
}

/** By the clock that is furthest ahead, so that one that is behind does not make a backup look newer. Milliseconds. */
async function latestTime({ prisma, redis }: Stores): Promise<number> {
  return Math.max(Date.now(), await databaseTime(prisma), await redisTime(redis));
}

/** @throws CommandError: a replica would assign ids and write records meanwhile. */
async function refuseWhileServing(heartbeat: Heartbeat, state: string): Promise<void> {
  const replica = await heartbeat.servingReplica();
  if (replica === null) return;
  const todo = 'stop every replica, wait 5 s, and run recover again';
  throw new CommandError(`A replica serves (${replica}): ${todo}. ${state}`, { replica });
}

async function recover(
  { config, prisma, redis }: Stores,
  ids: RecoveryPlan,
  all: boolean,
): Promise<Recovered> {
  const keys = makeTokenKeys(config.REDIS_PREFIX);
  const recovered: Recovered = { tokens: 0, revoked: 0, lost: 0, ended: 0 };
  await skipIds(prisma, { users: ids.users.after, tokens: ids.tokens.after });
  await voidAllTokens(prisma);
  await endServiceTokens(prisma);
  await raiseUserVersions(prisma);
  recovered.tokens = await visitTokens(redis, config.REDIS_PREFIX, async (states, tombstones) => {
    recovered.revoked += await endAgain(prisma, tombstones);
    const lost = await withoutRecord(prisma, states);
    await orUnavailable(
      Promise.all(lost.map((key) => redis.revoke(1, keys.token(key), 2 * config.SESSION_CACHE_TTL, '1'))),
    );
    recovered.lost += lost.length;
  });
  if (all) recovered.ended = await endAll(prisma);
  await forgetFeed(redis, config.REDIS_PREFIX);
  return recovered;
}

/** The id that PostgreSQL names, and those that Redis holds. */
async function redisIds({ config, prisma, redis }: Stores): Promise<RedisIds> {
  const [masters, { id: recorded }] = await Promise.all([
    makeRedisMarks(redis, config.REDIS_PREFIX).read(),
    makeMarks(prisma).read([]),
  ]);
  return { recorded, held: [...new Set(masters.flatMap(({ held }) => held?.id ?? []))] };
}

/**
 * Lets replicas serve with these stores again, by a mark that only they hold. At the end, because a replica that was
 * refused serves as soon as it sees the mark.
 * @throws CommandError if a replica did the same meanwhile.
 */
async function bindAnew({ config, prisma, redis }: Stores): Promise<void> {
  const marks = makeMarks(prisma);
  const redisMarks = makeRedisMarks(redis, config.REDIS_PREFIX);
  const masters = await redisMarks.read();
  const { id } = await marks.read([]);
  const bound = await marks.claim(id, await marks.add(), (mark) => redisMarks.set(masters, mark));
  if (bound === null)
    throw new CommandError(
      'A replica has changed the mark of Redis: stop every replica, and run recover again',
    );
}

function describe({ tokens, revoked, lost, ended }: Recovered, all: boolean): string {
  const lines = [
    `Redis holds ${tokens} tokens`,
    `${revoked} were revoked after the backup, and are revoked in the database again`,
    `${lost} were created after the backup, and have ended`,
    ...(all ? [`${ended} others have been ended`] : []),
  ];
  return lines.join('\n');
}

/** @throws ConfigError, AuthError `unavailable` */
async function withStores<Result>(
  env: Environment,
  work: (stores: Stores) => Promise<Result>,
): Promise<Result> {
  const names = Object.keys(FIELDS).filter((name) => /^(DATABASE|REDIS)_|^SESSION_CACHE_TTL$/.test(name));
  const config = loadSettings(env, ...(names as Setting[]));
  const { DATABASE_URL, REDIS_URL, REDIS_PREFIX: prefix } = config;
  if (DATABASE_URL === undefined || REDIS_URL === undefined)
    throw new ConfigError([
      'DATABASE_URL and REDIS_URL are required: only Redis knows the tokens after the backup',
    ]);

  const postgres = makePostgres({
    url: DATABASE_URL,
    ca: config.DATABASE_CA,
    pool: 1,
    timeout: config.DATABASE_TIMEOUT,
    observe: null,
  });
  const redis = openRedis({ ...config, REDIS_URL });
  redis.on('error', () => undefined);
  try {
    // ioredis keeps trying as long as no Sentinel answers.
    await orUnavailable(withTimeout(redis.connect(), CONNECT_TIMEOUT));
    // Fails if a master is down: its tokens would be left out.
    await makeConnections(redis, prefix).checkMemory();
    return await work({ config, prisma: postgres.prisma, redis, heartbeat: makeHeartbeat(redis, prefix) });
  } finally {
    redis.disconnect();
    await postgres.close();
  }
}

/** The last id that PostgreSQL assigned, the highest one that Redis knows, and the one after which ids go on. */
interface IdPlan {
  postgres: number;
  redis: number;
  after: number;
}

/** What `recover` does with the ids of users and tokens. */
type RecoveryPlan = Record<keyof Ids, IdPlan>;

/** @throws UsageError */
export function readSkipIds(value: string): number {
  const skip = Number(value);
  if (/^\d+$/.test(value) && skip > 0 && Number.isSafeInteger(skip)) return skip;
  throw new UsageError('--skip-ids takes a number above 0');
}

/** @throws CommandError if an id that Redis knows would be assigned again. */
export function planRecovery(postgres: Ids, redis: Ids, skip: number): RecoveryPlan {
  const missing = Math.max(redis.users - postgres.users, redis.tokens - postgres.tokens);
  const plan = {
    users: { postgres: postgres.users, redis: redis.users, after: postgres.users + skip },
    tokens: { postgres: postgres.tokens, redis: redis.tokens, after: postgres.tokens + skip },
  };
  if (missing > skip) {
    const message = `${idLines(plan).join('\n')}
Redis knows ids that would be assigned again: give --skip-ids ${missing + skip}. Nothing has changed`;
    throw new CommandError(message, { ids: plan });
  }
  if (!Number.isSafeInteger(Math.max(plan.users.after, plan.tokens.after)))
    throw new CommandError('--skip-ids leaves no ids below 2^53: give less. Nothing has changed', {
      ids: plan,
    });
  return plan;
}

/** What the stores remember of the sessions and long-lived tokens that have ended since the backup. */
interface KnownEnds extends TokenSurvey {
  /** For how long Redis remembers an end: twice SESSION_CACHE_TTL, in milliseconds. */
  limit: number;
  /** Whether Redis holds any token. */
  hasTokens: boolean;
}

/**
 * Redis alone knows what has ended since the backup, and forgets it. What it has forgotten would be good again.
 * @param now milliseconds since 1970.
 * @param state of the stores, for the message.
 * @throws CommandError if it may have forgotten something.
 */
export function requireKnownEnds(ends: KnownEnds, now: number, state: string): void {
  const { newest, sessions, longLived, limit, hasTokens } = ends;
  if (sessions + longLived === 0 || (hasTokens && now - newest <= limit)) return;
  const lines = [
    `Ended sessions could be good again: recover cannot tell which of the ${sessions} sessions and ${longLived} long-lived \
tokens in the database have ended since the backup.`,
    newestLine(newest, now),
    hasTokens
      ? `Redis remembers for ${span(limit)} what has ended (twice SESSION_CACHE_TTL).`
      : 'Redis holds no token: it has lost its data, or none was used lately.',
    'Give --end-all to end them all, so that every user logs in again, or --keep-sessions to let them all be good.',
    'If the service was idle, the backup may be newer than that use: then --keep-sessions is right.',
    state,
  ];
  const message = lines.join('\n');
  throw new CommandError(message, {
    newest: timeOf(newest),
    limit: limit / 1000,
    sessions,
    long_lived: longLived,
  });
}

/** The newest use of a token on record. @returns null if there is none. */
function timeOf(newest: number): string | null {
  return newest === 0 ? null : new Date(newest).toISOString();
}

function newestLine(newest: number, now: number): string {
  const time = timeOf(newest);
  if (time === null) return 'There is no record of a session or token that was used before now.';
  return `The newest use of a session or token on record was at ${time}, ${span(now - newest)} ago.`;
}

/** @param length milliseconds. */
function span(length: number): string {
  const minutes = Math.floor(length / 60_000);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

interface RedisIds {
  recorded: string | null;
  held: readonly string[];
}

/** For the operator, before the question. */
function describePlan(
  plan: RecoveryPlan,
  { newest }: KnownEnds,
  now: number,
  all: boolean,
  { recorded, held }: RedisIds,
): string {
  const isOther = recorded !== null && held.some((id) => id !== recorded);
  const lines = [
    ...idLines(plan),
    newestLine(newest, now),
    ...(isOther
      ? [`Redis has the id ${held.join(', ')}, and the database names ${recorded}: is it this database's?`]
      : []),
    'recover will change both stores, and cannot be undone:',
    `- ids go on after ${plan.users.after} (users) and ${plan.tokens.after} (tokens)`,
    '- tokens that Redis knows as revoked are revoked in the database again',
    '- tokens that Redis knows and the database does not are ended',
    '- tokens of services are ended: each gets a new one when it is refused',
    ...(all ? ['- every other session and long-lived token is ended too (--end-all)'] : []),
  ];
  return lines.join('\n');
}

function idLines({ users, tokens }: RecoveryPlan): string[] {
  return [
    `highest user id: ${users.postgres} in PostgreSQL, ${users.redis} in Redis`,
    `highest token id: ${tokens.postgres} in PostgreSQL, ${tokens.redis} in Redis`,
  ];
}
