import type { FastifyBaseLogger } from 'fastify';
import type { AppOptions } from './app.ts';
import { makeDurability, type Durability } from './compose-durability.ts';
import { makeHashing, type Hashing } from './compose-hashing.ts';
import { openStates } from './compose-states.ts';
import type { Config } from './config.ts';
import type { TokenStore } from './domain/tokens/ports.ts';
import type { KeyRing } from './domain/access-tokens/ports.ts';
import { makeVerify } from './domain/access-tokens/verify.ts';
import type { Audit } from './domain/audit/event.ts';
import type { Clock } from './domain/clock.ts';
import { makeCreateLongLived } from './domain/long-lived-tokens/create.ts';
import type { Services } from './domain/services.ts';
import { makeLogIn } from './domain/sessions/log-in.ts';
import { makeLogOut } from './domain/sessions/log-out.ts';
import type { SessionStateStore } from './domain/sessions/ports.ts';
import { makeRefresh } from './domain/sessions/refresh.ts';
import { makeEndToken } from './domain/tokens/end-token.ts';
import { makeReadThrough } from './domain/tokens/read-through.ts';
import type { Lifetimes } from './domain/tokens/token-record.ts';
import { makeProfile } from './domain/users/profile.ts';
import { makeSignUp } from './domain/users/sign-up.ts';
import type { Readiness } from './http/ops/health.ts';
import { makeClientHash, type ClientHash } from './infra/crypto/client-hash.ts';
import { loadCommonPasswords } from './infra/crypto/common-passwords.ts';
import { generatedRefreshSecret, generatedSigningKeysDir } from './infra/crypto/generated-keys.ts';
import { makeKeyRing } from './infra/crypto/key-ring.ts';
import { makePostgres, type Postgres } from './infra/postgres/client.ts';
import { makeTokenStore } from './infra/postgres/token-store.ts';
import { makeUserStore } from './infra/postgres/user-store.ts';
import { makeReadiness } from './readiness.ts';
import { StartError } from './start-error.ts';

export interface Composition {
  app: AppOptions;
  readiness: () => Promise<Readiness>;
  /** Starts what runs beside the requests: write-behind, sweeps, retries. */
  start(): void;
  /** From now on we are about to stop: not ready, and answers say so. */
  drain(): void;
  close(): Promise<void>;
}

/** How often the keys are looked at, in milliseconds. */
const KEY_INTERVAL = 5000;

export const systemClock: Clock = { now: () => Date.now(), monotonic: () => performance.now() };

/** Builds clients, stores and services. Nothing connects before it is used. @param databaseUrl given or embedded. */
export async function compose(
  config: Config,
  databaseUrl: string,
  logger: FastifyBaseLogger,
): Promise<Composition> {
  let draining = false;
  const lifetimes: Lifetimes = {
    accessToken: config.ACCESS_TOKEN_TTL,
    refreshToken: config.REFRESH_TOKEN_TTL,
    session: config.SESSION_MAX_AGE,
  };
  const keyRing = openKeyRing(config, logger);
  const hashClient = followClientHash(keyRing);
  const postgres = makePostgres({
    url: databaseUrl,
    pool: config.DATABASE_POOL,
    timeout: config.DATABASE_TIMEOUT,
  });
  const opened = openStates(config, logger);
  const { states, redis } = opened;
  const { prisma } = postgres;
  const tokens = makeTokenStore(prisma);
  const cacheTtl = config.SESSION_CACHE_TTL;
  const durability = makeDurability({ states: opened, tokens, prisma, cacheTtl, clock: systemClock, logger });
  const hashing = await makeHashing(config, systemClock);
  const services = makeServices({
    config,
    lifetimes,
    states,
    tokens,
    postgres,
    durability,
    hashing,
    logger,
  });
  durability.connect();

  return {
    app: {
      services,
      keyRing,
      issuer: config.ISSUER,
      audience: config.AUDIENCE,
      lifetimes,
      hashClient,
      rateLimit: { redis, nameSpace: `${config.REDIS_PREFIX}limit:`, allow: config.RATE_LIMIT_ALLOW },
      limits: { logIn: config.RATE_LIMIT_LOGIN, signUp: config.RATE_LIMIT_SIGNUP },
      loadShedding: hashing.loadShedding,
      trustProxy: config.TRUST_PROXY,
      requestTimeout: config.REQUEST_TIMEOUT * 1000,
      isDraining: () => draining,
      clock: systemClock,
      logger,
    },
    start: () => {
      durability.start();
    },
    readiness: makeReadiness({ postgres, states, isDraining: () => draining }),
    drain() {
      draining = true;
    },
    async close() {
      keyRing.close();
      hashing.close();
      await durability.stop();
      opened.close();
      await postgres.close();
    },
  };
}

/** Its key is taken from the newest refresh secret: all replicas share that, and it changes while we run. */
function followClientHash(keyRing: KeyRing): ClientHash {
  let hash = makeClientHash(firstOf(keyRing.current().refresh).secret);
  keyRing.onChange((keys) => {
    hash = makeClientHash(firstOf(keys.refresh).secret);
    return Promise.resolve();
  });
  return (address, userAgent) => hash(address, userAgent);
}

function openKeyRing(config: Config, logger: FastifyBaseLogger) {
  const { DATA_DIR: dataDir, readRefreshSecrets } = config;
  const generated = readRefreshSecrets ? null : inDataDir(dataDir, generatedRefreshSecret);
  return makeKeyRing({
    signingKeysDir: config.SIGNING_KEYS_DIR ?? inDataDir(dataDir, generatedSigningKeysDir),
    readRefreshSecrets: readRefreshSecrets ?? (() => generated ?? ''),
    interval: KEY_INTERVAL,
    onError: (error) => {
      logger.error({ err: error }, 'the keys cannot be used; those in use stay');
    },
  });
}

/** @throws StartError where the data folder cannot be used */
function inDataDir(dataDir: string, generate: (dataDir: string) => string): string {
  try {
    return generate(dataDir);
  } catch (error) {
    const { code = 'unknown' } = error as NodeJS.ErrnoException;
    throw new StartError(
      `cannot keep generated keys in ${dataDir} (${code}): give SIGNING_KEYS_DIR and REFRESH_TOKEN_SECRET, or another DATA_DIR`,
    );
  }
}

interface Parts {
  config: Config;
  lifetimes: Lifetimes;
  states: SessionStateStore;
  tokens: TokenStore;
  postgres: Postgres;
  durability: Durability;
  hashing: Hashing;
  logger: FastifyBaseLogger;
}

function makeServices(parts: Parts): Services {
  const { config, lifetimes, states, tokens, postgres, durability, hashing, logger } = parts;
  const { hasher, bulkhead, dummyHash } = hashing;
  const clock = systemClock;
  const audit: Audit = (event) => {
    logger.info(event, 'audit');
  };
  const users = makeUserStore(postgres.prisma);
  const readThrough = makeReadThrough({ states, tokens });
  const { writeBehind, revocations, revoke, endForReuse } = durability;
  const verify = makeVerify({ states, readThrough, writeBehind, lifetimes, clock });

  return {
    signUp: makeSignUp({
      users,
      states,
      hasher,
      bulkhead,
      clock,
      audit,
      isCommonPassword: loadCommonPasswords(),
      enabled: config.SIGNUP_ENABLED,
      passwordMinLength: config.PASSWORD_MIN_LENGTH,
    }),
    logIn: makeLogIn({
      users,
      tokens,
      revocations,
      states,
      hasher,
      bulkhead,
      lifetimes,
      clock,
      audit,
      dummyHash,
      maxSessions: config.MAX_SESSIONS_PER_USER,
    }),
    refresh: makeRefresh({
      states,
      readThrough,
      endForReuse,
      writeBehind,
      lifetimes,
      clock,
      audit,
      retryWindow: config.REFRESH_RETRY_WINDOW,
    }),
    logOut: makeLogOut({ revoke, audit }),
    endToken: makeEndToken({ revoke, audit }),
    createLongLived: makeCreateLongLived({
      tokens,
      states,
      maxTokens: config.MAX_LLT_PER_USER,
      clock,
      audit,
    }),
    profile: makeProfile({ tokens, states, lifetimes, clock }),
    verify,
  };
}

function firstOf<Item>(items: readonly Item[]): Item {
  const [first] = items;
  if (first === undefined) throw new Error('the key ring is empty');
  return first;
}
