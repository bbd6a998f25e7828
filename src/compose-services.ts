import type { FastifyBaseLogger } from 'fastify';
import type { Durability } from './compose-durability.ts';
import type { Hashing } from './compose-hashing.ts';
import type { Config } from './config.ts';
import type { TokenStore } from './domain/tokens/ports.ts';
import { makeIntrospect } from './domain/access-tokens/introspect.ts';
import { makeVerify } from './domain/access-tokens/verify.ts';
import type { Audit, AuditEvent } from './domain/audit/event.ts';
import type { ServiceClients } from './domain/clients/authenticate.ts';
import { makeRevokeToken } from './domain/clients/revoke-token.ts';
import type { Clock } from './domain/clock.ts';
import type { RevocationFeed } from './domain/feed/ports.ts';
import type { Observe } from './domain/metrics/observe.ts';
import { makeCreateLongLived } from './domain/long-lived-tokens/create.ts';
import type { Services } from './domain/services.ts';
import { makeLogIn } from './domain/sessions/log-in.ts';
import { makeLogOut } from './domain/sessions/log-out.ts';
import { makeLogOutEverywhere } from './domain/sessions/log-out-everywhere.ts';
import type { SessionStateStore } from './domain/sessions/ports.ts';
import { makeRefresh } from './domain/sessions/refresh.ts';
import { makeEndToken } from './domain/tokens/end-token.ts';
import { makeReadThrough } from './domain/tokens/read-through.ts';
import type { Lifetimes } from './domain/tokens/token-record.ts';
import { makeListTokens } from './domain/users/list-tokens.ts';
import { makeProfile } from './domain/users/profile.ts';
import { makeSignUp } from './domain/users/sign-up.ts';
import { loadCommonPasswords } from './infra/crypto/common-passwords.ts';
import type { Postgres } from './infra/postgres/client.ts';
import { makeUserStore } from './infra/postgres/user-store.ts';

export interface Parts {
  config: Config;
  lifetimes: Lifetimes;
  states: SessionStateStore;
  /** As `states`, but nobody is told of what it ends. */
  unpublished: SessionStateStore;
  feed: RevocationFeed;
  tokens: TokenStore;
  postgres: Postgres;
  durability: Durability;
  hashing: Hashing;
  clients: ServiceClients;
  clock: Clock;
  observe: Observe;
  logger: FastifyBaseLogger;
}

/** Theft is worth a look, and a wrong clock a call; a wrong password is neither. */
const AUDIT_LEVELS: Partial<Record<AuditEvent['event'], 'warn' | 'error'>> = {
  'session.reuse_detected': 'warn',
  'clock.wrong': 'error',
};

/** The use cases that routes call. */
export function makeServices(parts: Parts): Services {
  const { config, lifetimes, states, tokens, postgres, durability, hashing, clock, observe, logger } = parts;
  const { hasher, bulkhead, dummyHash } = hashing;
  const audit: Audit = (event) => {
    logger[AUDIT_LEVELS[event.event] ?? 'info'](event, 'audit');
    observe.audited(event);
  };
  const users = makeUserStore(postgres.prisma);
  // What it finds revoked was published when it was revoked.
  const readThrough = makeReadThrough({ states: parts.unpublished, tokens, observe });
  const { writeBehind, revocations, revoke, endForReuse } = durability;
  const verify = makeVerify({
    states,
    readThrough,
    writeBehind,
    endForReuse,
    lifetimes,
    clock,
    audit,
    observe,
  });
  const profile = makeProfile({ tokens, states, lifetimes, clock });

  return {
    signUp: makeSignUp({
      users,
      states,
      hasher,
      bulkhead,
      clock,
      audit,
      observe,
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
      observe,
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
    clients: parts.clients,
    profile,
    listTokens: makeListTokens({ profile, tokens, lifetimes, clock }),
    logOutEverywhere: makeLogOutEverywhere({
      tokens,
      states: parts.unpublished,
      feed: parts.feed,
      revocations,
      lifetimes,
      clock,
      audit,
    }),
    introspect: makeIntrospect({ verify, observe }),
    revokeToken: makeRevokeToken({ revoke, audit }),
    verify,
  };
}
