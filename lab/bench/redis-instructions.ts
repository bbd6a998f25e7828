import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type * as Connections from '../../src/infra/redis/connection/open-redis.ts';
import type { ScriptedRedis } from '../../src/infra/redis/connection/scripts.ts';
import type * as TokenStates from '../../src/infra/redis/token-states.ts';
import { openGate, redisServer } from '../../test/support/redis.ts';
import { startRedis } from '../../test/support/redis-server.ts';
import { aSession, aUser } from '../../test/support/token.ts';
import { toolsMissing } from '../../test/support/tools.ts';
import { UNOBSERVED } from '../../test/support/unobserved.ts';
import { until } from '../../test/support/until.ts';
import { aFingerprint } from './realistic.ts';

/** REDIS_PREFIX by default. */
const PREFIX = 'latchkey:';
const CACHE_TTL = 3600;
/** Ids of a service that has been in use: seven and eight digits. */
const FIRST_USER = 1_000_001;
const FIRST_TOKEN = 10_000_001;
/** Sessions that a tick checks, as many as share a call (docs/adr/0005). */
const IN_A_TICK = 32;
/** Milliseconds: valgrind makes Redis some fifty times slower. */
const TIMEOUT = 60_000;
const COUNTER = ['valgrind', '--tool=callgrind', '--callgrind-out-file={folder}/counted', '--quiet'];

export interface Instructions {
  /** Instructions of Redis for a token whose call it shares with 31 others. */
  batched: number;
  /** The same for a token with a call of its own, as in a cluster. */
  alone: number;
}

export interface InstructionsReport {
  verifies: number;
  service: Instructions;
  /** Another build, if one is compared. */
  reference: Instructions | null;
}

type Way = keyof Instructions;

/**
 * Counts the instructions of Redis for a verify, with the request's way in and out. Unlike a time, the count does not
 * depend on other work of the machine.
 * @param against the `dist` of another build, which is counted too.
 * @throws Error if valgrind or redis-server is not installed.
 */
export async function measureInstructions({
  verifies,
  against,
}: {
  verifies: number;
  against: string | undefined;
}): Promise<InstructionsReport> {
  const missing = toolsMissing('bash', 'redis-server', 'valgrind');
  if (missing) throw new Error(missing);
  const ticks = Math.ceil(verifies / IN_A_TICK);
  const own = new URL('../..', import.meta.url).pathname;
  const service = await instructionsOf(own, ticks);
  const reference = against === undefined ? null : await instructionsOf(against, ticks);
  return { verifies: ticks * IN_A_TICK, service, reference };
}

/** A server for each way, and one that does only what both have besides. */
async function instructionsOf(dist: string, ticks: number): Promise<Instructions> {
  const base = await countWith(dist, { batched: 1, alone: 1 });
  const each = async (way: Way) => {
    const counted = await countWith(dist, { batched: 1, alone: 1, [way]: 1 + ticks });
    return (counted - base) / (ticks * IN_A_TICK);
  };
  return { batched: await each('batched'), alone: await each('alone') };
}

/** @returns the instructions of a Redis from its start to its end. */
async function countWith(dist: string, ticks: Record<Way, number>): Promise<number> {
  const closers: (() => unknown)[] = [];
  const scope = { teardown: (closer: () => unknown) => closers.unshift(closer) } as unknown as Test;
  try {
    const server = await startRedis(scope, {
      under: COUNTER,
      // The timer's work depends on how long the run takes, and is none of the verifies'.
      args: ['--hz', '1', '--dynamic-hz', 'no'],
      client: { connectTimeout: TIMEOUT, commandTimeout: TIMEOUT },
    });
    await verify(dist, server.url, ticks);
    const file = join(server.folder, 'counted');
    // It answers nothing: the connection ends.
    await server.ask('SHUTDOWN', 'NOSAVE').catch(() => undefined);
    await until(() => existsSync(file) && /^totals: \d+$/m.test(readFileSync(file, 'latin1')));
    return Number(/^totals: (\d+)$/m.exec(readFileSync(file, 'latin1'))?.[1]);
  } finally {
    for (const closer of closers) await closer();
  }
}

async function verify(dist: string, url: string, ticks: Record<Way, number>): Promise<void> {
  const { makeRedisClient } = (await importFrom(dist, 'connection/open-redis')) as typeof Connections;
  const { makeRedisTokenStates, makeTokenKeys } = (await importFrom(
    dist,
    'token-states',
  )) as typeof TokenStates;
  const redis = makeRedisClient({ server: redisServer(url), timeout: TIMEOUT });
  await redis.connect();
  try {
    const options = { prefix: PREFIX, cacheTtl: CACHE_TTL, gate: openGate, observe: UNOBSERVED };
    const tokenStates = makeRedisTokenStates(redis, options);
    const sessions = Array.from({ length: IN_A_TICK }, (_, i) => ({
      userId: FIRST_USER + i,
      tokenId: FIRST_TOKEN + i,
    }));
    let generation = 0;
    for (const { userId, tokenId } of sessions) {
      const now = await tokenStates.preparePut(userId);
      generation ||= now;
      // In use: its pair is confirmed, so that a verify writes nothing.
      const state = { ...initialState(generation, aFingerprint()), confirmed: true };
      const user = aUser({ id: userId, username: `user-${userId}` });
      await tokenStates.put(aSession(state, { userId, id: tokenId }), user, now);
    }

    const keys = makeTokenKeys(PREFIX);
    const checks: Record<Way, () => Promise<unknown[]>> = {
      batched: () => Promise.all(sessions.map((key) => tokenStates.checkAccess(key, generation))),
      // In one write, as those of a tick leave for a master of a cluster.
      alone: async () => {
        const pipeline = redis.pipeline() as unknown as ScriptedRedis & ReturnType<ScriptedRedis['pipeline']>;
        for (const key of sessions)
          void pipeline.check(2, keys.token(key), keys.user(key.userId), String(generation));
        return (await pipeline.exec())?.map(([error, answer]) => error ?? answer) ?? [];
      },
    };
    for (const way of ['batched', 'alone'] as const)
      for (let tick = 0; tick < ticks[way]; tick++) requireGood(await checks[way]());
  } finally {
    redis.disconnect();
  }
}

function importFrom(dist: string, module: string): Promise<unknown> {
  return import(join(dist, `src/infra/redis/${module}.js`));
}

function requireGood(answers: readonly unknown[]): void {
  for (const answer of answers) {
    const isGood = Array.isArray(answer)
      ? String(answer[0]).startsWith('good\0')
      : (answer as { outcome: string }).outcome === 'good';
    if (!isGood) throw new Error(`a verify was answered ${JSON.stringify(answer)}`);
  }
}
