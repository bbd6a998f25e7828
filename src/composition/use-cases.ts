import type { Durability } from './durability.ts';
import type { Hashing } from './hashing.ts';
import type { Config } from '../config/config.ts';
import type { TokenStore } from '../domain/tokens/ports.ts';
import { makeIntrospect } from '../domain/access-tokens/introspect.ts';
import { makeVerify } from '../domain/access-tokens/verify.ts';
import type { Audit, AuditLimit } from '../domain/audit/event.ts';
import type { ServiceClients } from '../domain/clients/authenticate.ts';
import type { Clock } from '../domain/clock.ts';
import type { RevocationFeed } from '../domain/feed/ports.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeCreateLongLived } from '../domain/long-lived-tokens/create.ts';
import { makeGuessingLimits } from '../domain/passwords/guessing-limits.ts';
import type { AttemptSlots } from '../domain/passwords/ports.ts';
import type { UseCases } from '../domain/use-cases.ts';
import { makeLogIn } from '../domain/sessions/log-in.ts';
import { makeLogOutEverywhere } from '../domain/sessions/log-out-everywhere.ts';
import type { TokenStateStore } from '../domain/tokens/token-states.ts';
import { makeRefresh } from '../domain/sessions/refresh.ts';
import { makeEndToken } from '../domain/tokens/end-token.ts';
import { withReadThrough } from '../domain/tokens/read-through.ts';
import type { Lifetimes } from '../domain/tokens/claims.ts';
import { makeListTokens } from '../domain/users/list-tokens.ts';
import { makeNewNames } from '../domain/users/new-names.ts';
import { makeProfile } from '../domain/users/profile.ts';
import { makeSignUp } from '../domain/users/sign-up.ts';
import type { AttemptHash } from '../infra/crypto/attempt-hash.ts';
import { loadCommonPasswords } from '../infra/crypto/common-passwords.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makeKnownDeviceStore } from '../infra/postgres/known-devices.ts';
import { makeUserStore } from '../infra/postgres/user-store.ts';

export interface Parts {
  config: Config;
  lifetimes: Lifetimes;
  tokenStates: TokenStateStore;
  /** As `tokenStates`, but it does not publish revocations to the feed. */
  statesWithoutFeed: TokenStateStore;
  feed: RevocationFeed;
  attempts: AttemptSlots;
  /** Names the counters of `attempts`. */
  hashAttempt: AttemptHash;
  tokens: TokenStore;
  postgres: Postgres;
  durability: Durability;
  hashing: Hashing;
  clients: ServiceClients;
  clock: Clock;
  observe: Observe;
  audit: Audit;
  auditLimit: AuditLimit;
}

/** The use cases that routes call. */
export function makeUseCases(parts: Parts): UseCases {
  const { config, lifetimes, tokenStates, tokens, postgres, durability, hashing, clock, observe, audit } =
    parts;
  const { hasher, bulkhead, checkPassword } = hashing;
  const users = makeUserStore(postgres.prisma);
  const hashName = (name: string) => parts.hashAttempt(`audit ${name}`);
  const knownDevices = makeKnownDeviceStore(postgres.prisma);
  const limitGuess = makeGuessingLimits({
    slots: parts.attempts,
    hash: parts.hashAttempt,
    account: config.RATE_LIMIT_ACCOUNT,
    network: config.RATE_LIMIT_NETWORK,
    observe,
    auditLimit: parts.auditLimit,
    hashName,
  });
  // Without the feed: a revocation that it reads was published when it happened.
  const readThrough = withReadThrough(parts.statesWithoutFeed, { tokens, clock, observe });
  const { writeBehind, revocations, revoke, revokeByCaller, endForReuse } = durability;
  const verify = makeVerify({
    tokenStates: readThrough,
    writeBehind,
    endForReuse,
    lifetimes,
    clock,
    audit,
    observe,
  });
  const profile = makeProfile({ tokens, tokenStates, lifetimes, clock });

  return {
    signUp: makeSignUp({
      users,
      tokenStates,
      knownDevices,
      hasher,
      bulkhead,
      clock,
      audit,
      observe,
      isCommonPassword: loadCommonPasswords(),
      newNames: makeNewNames(config.RESERVED_USERNAMES),
      enabled: config.SIGNUP_ENABLED,
      passwordMinLength: config.PASSWORD_MIN_LENGTH,
    }),
    logIn: makeLogIn({
      users,
      tokens,
      revocations,
      tokenStates,
      knownDevices,
      limitGuess,
      hasher,
      bulkhead,
      lifetimes,
      clock,
      audit,
      hashName,
      checkPassword,
      maxSessions: config.MAX_SESSIONS_PER_USER,
    }),
    refresh: makeRefresh({
      tokenStates: readThrough,
      endForReuse,
      writeBehind,
      lifetimes,
      clock,
      audit,
      observe,
      retryWindow: config.REFRESH_RETRY_WINDOW,
    }),
    ...makeEndToken({ revoke, revokeByCaller, audit }),
    createLongLived: makeCreateLongLived({
      tokens,
      tokenStates,
      maxTokens: config.MAX_LLT_PER_USER,
      enabled: config.LLT_ENABLED,
      maxAge: config.LLT_MAX_AGE,
      loginMaxAge: config.LLT_LOGIN_MAX_AGE,
      clock,
      audit,
      auditLimit: parts.auditLimit,
    }),
    clients: parts.clients,
    profile,
    listTokens: makeListTokens({ profile, tokens, lifetimes, clock }),
    logOutEverywhere: makeLogOutEverywhere({
      tokens,
      tokenStates: parts.statesWithoutFeed,
      feed: parts.feed,
      revocations,
      lifetimes,
      clock,
      audit,
    }),
    introspect: makeIntrospect({ verify, observe }),
    verify,
  };
}
