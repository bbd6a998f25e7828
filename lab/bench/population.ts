import { buildApp } from '../../src/app.ts';
import { compose } from '../../src/composition/compose.ts';
import { loadConfig } from '../../src/config/config.ts';
import { lifetimesOf, pairClaims, type Claims, type TokenType } from '../../src/domain/tokens/claims.ts';
import { makeTokenCodec } from '../../src/http/token-codec.ts';
import { makeScryptHasher } from '../../src/infra/crypto/scrypt-hasher.ts';
import { makeRedisClient } from '../../src/infra/redis/connection/open-redis.ts';
import { makeRedisTokenStates } from '../../src/infra/redis/token-states.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { openGate, redisServer } from '../../test/support/redis.ts';
import { silentLogger, silentOutput } from '../../test/support/silent-log.ts';
import { sql } from '../../test/support/sql.ts';
import { aSession, aUser } from '../../test/support/token.ts';
import { PRODUCTION_COST, type World } from './world.ts';
import { UNOBSERVED } from '../../test/support/unobserved.ts';

type Pair = Extract<TokenType, 'access' | 'refresh'>;

/** Sessions in both stores, and cold ones in PostgreSQL alone. */
export interface Population {
  sessions: number;
  /** Sessions that Redis does not hold. Their numbers follow those of the others. */
  cold: number;
  /** The token of a session, by its number from 0. It is valid for ACCESS_TOKEN_TTL after the seeding. */
  mint(type: Pair, session: number): string;
  /** Names of users. All have a production's hash of PASSWORD. */
  names: string[];
}

export const PASSWORD = 'difference engine';
const SESSIONS_PER_USER = 2;
/** Users that log in. */
const KNOWN = 100;
/** Sessions in work at once. */
const CHUNK = 1000;
/** As long as a real one: 22 characters. */
const CLIENT = 'r8T4Q0aZsYx1bVn5cLm2dA';

interface PopulationOptions {
  /** Two sessions each by default. Each cold session has a user of its own beside these. */
  users?: number;
  cold?: number;
  /** Keeps the world's other users and sessions. By default PostgreSQL forgets them. */
  beside?: boolean;
}
/** The sessions have been refreshed once. Microseconds. */
const SINCE_LOGIN = 600_000_000;
const CACHE_TTL = 3600;

/**
 * Fills both stores with sessions. Rows are inserted by SQL, states by the service's own script. Each user has one known
 * device.
 */
export async function populate(
  world: World,
  sessions: number,
  { users = Math.ceil(sessions / SESSIONS_PER_USER), cold = 0, beside = false }: PopulationOptions = {},
): Promise<Population> {
  const databaseUrl = world.env.DATABASE_URL ?? '';
  const base = Date.now() * 1000;
  const prefix = `user-${base}-`;
  const hash = Buffer.from(await makeScryptHasher(PRODUCTION_COST).hash(PASSWORD));
  if (!beside) await sql(databaseUrl, 'TRUNCATE users CASCADE');
  const [{ id: firstUser } = { id: '1' }] = await sql<{ id: string }>(
    databaseUrl,
    `WITH added AS (
       INSERT INTO users (username, username_skeleton, email, name, password_hash)
       SELECT $1 || i, $1 || i, $1 || i || '@example.com', 'Ada Lovelace', $3 FROM generate_series(1, $2::int) AS i
       RETURNING id)
     SELECT min(id) AS id FROM added`,
    [prefix, users + cold, hash],
  );
  // Users log in for the first time in no order.
  await sql(
    databaseUrl,
    `INSERT INTO known_devices (user_id, client, last_login_at)
     SELECT id, substr(translate(encode(sha256(id::text::bytea), 'base64'), '+/', '-_'), 1, 22), now()
     FROM users WHERE id >= $1 ORDER BY random()`,
    [firstUser],
  );
  const [{ id: firstToken } = { id: '1' }] = await sql<{ id: string }>(
    databaseUrl,
    `WITH added AS (
       INSERT INTO tokens (user_id, type, name, created_at, latest, parent, first, confirmed, client)
       SELECT $1::bigint + CASE WHEN i < $7::int THEN i % $2::bigint ELSE $2::bigint + i - $7::int END, 'session', 'Firefox on Windows', to_timestamp($3::float8 / 1e6),
         $3::bigint + i, $3::bigint + i - $6::bigint, $3::bigint + i, true, $4
       FROM generate_series(0, $5::int - 1) AS i
       RETURNING id)
     SELECT min(id) AS id FROM added`,
    [firstUser, users, base, CLIENT, sessions + cold, SINCE_LOGIN, sessions],
  );
  await sql(databaseUrl, 'ANALYZE');
  const identityOf = (session: number) => ({
    userId: Number(firstUser) + (session < sessions ? session % users : users + session - sessions),
    tokenId: Number(firstToken) + session,
    generation: base + session,
  });
  await fillRedis(world, sessions, identityOf);
  const codec = await codecOf(world);
  return {
    sessions,
    cold,
    mint: (type, session) => {
      const identity = { ...identityOf(session), acr: null };
      return codec.sign(
        type,
        pairClaims(identity, identity.generation / 1000, codec.lifetimes, aUser())[type],
      );
    },
    names: Array.from({ length: Math.min(KNOWN, users) }, (_, i) => `${prefix}${i + 1}`),
  };
}

async function fillRedis(
  world: World,
  sessions: number,
  identityOf: (session: number) => { userId: number; tokenId: number; generation: number },
): Promise<void> {
  const redis = makeRedisClient({ server: redisServer(world.env.REDIS_URL ?? ''), timeout: 30_000 });
  await redis.connect();
  try {
    const prefix = world.env.REDIS_PREFIX ?? '';
    const states = makeRedisTokenStates(redis, {
      prefix,
      cacheTtl: CACHE_TTL,
      gate: openGate,
      observe: UNOBSERVED,
    });
    const put = async (session: number) => {
      const { userId, tokenId, generation } = identityOf(session);
      const state = {
        latest: generation,
        parent: generation - SINCE_LOGIN,
        first: generation,
        confirmed: true,
        caller: CLIENT,
      };
      const record = aSession(state, { id: tokenId, userId, createdAt: Math.floor(generation / 1000) });
      const asOf = await states.preparePut(userId);
      const isStored = await states.put(record, aUser({ id: userId, username: `user-${userId}` }), asOf);
      if (!isStored) throw new Error('Redis refused a session');
    };
    for (let at = 0; at < sessions; at += CHUNK) {
      await Promise.all(Array.from({ length: Math.min(CHUNK, sessions - at) }, (_, i) => put(at + i)));
    }
  } finally {
    redis.disconnect();
  }
}

/** The codec of the world's own keys. */
async function codecOf(world: World) {
  const config = loadConfig({ ...world.env, SCRYPT_LOG_N: '4', NODE_ENV: 'test' });
  const composition = await compose(config, config.DATABASE_URL ?? '', silentLogger, silentOutput);
  const app = await buildApp(composition.app);
  try {
    const { keyRing } = composition.app;
    const codec = await makeTokenCodec(keyRing, {
      config,
      observe: UNOBSERVED,
      clock: systemClock,
    });
    return {
      sign: (type: Pair, claims: Claims) => codec.sign(type, claims),
      lifetimes: lifetimesOf(config),
    };
  } finally {
    await app.close();
    await composition.close();
  }
}
