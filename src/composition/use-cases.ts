import { randomBytes } from 'node:crypto';
import type { Durability } from './durability.ts';
import type { Hashing } from './hashing.ts';
import type { Config } from '../config/config.ts';
import type { TokenStore } from '../domain/tokens/ports.ts';
import { makeExchange } from '../domain/access-tokens/exchange.ts';
import { makeServiceTokens } from '../domain/access-tokens/service-tokens.ts';
import { makeIntrospect } from '../domain/access-tokens/introspect.ts';
import { makeVerify } from '../domain/access-tokens/verify.ts';
import type { Audit, AuditLimit } from '../domain/audit/event.ts';
import type { CheckAssertion, RegisteredServices } from '../domain/services/authenticate.ts';
import type { Clock } from '../domain/clock.ts';
import type { RevocationFeed } from '../domain/feed/ports.ts';
import type { Observe } from '../telemetry/observe.ts';
import { makeCreateLongLived } from '../domain/long-lived-tokens/create.ts';
import { makeGuessingLimits } from '../domain/passwords/guessing-limits.ts';
import type { LimitAttempt } from '../domain/limits/limit-attempts.ts';
import { makeBudget } from '../domain/limits/budget.ts';
import { makeCodeLimits } from '../domain/factors/code-limits.ts';
import type { LoginTokens } from '../domain/factors/login-token.ts';
import { makeCompleteLogin } from '../domain/sessions/complete-login.ts';
import { makeLogIn } from '../domain/sessions/log-in.ts';
import { makeOpenSession } from '../domain/sessions/open-session.ts';
import { makeFinishEndings } from '../domain/tokens/finish-endings.ts';
import { makeLogOutEverywhere } from '../domain/sessions/log-out-everywhere.ts';
import type { TokenStateStore } from '../domain/tokens/token-state-store.ts';
import { makeRefresh } from '../domain/sessions/refresh.ts';
import { makeEndToken } from '../domain/tokens/end-token.ts';
import { withReadThrough } from '../domain/tokens/read-through.ts';
import type { Lifetimes } from '../domain/tokens/claims.ts';
import { makeChangePassword } from '../domain/users/change-password.ts';
import { makeChangeProfile } from '../domain/users/change-profile.ts';
import { makeConfirmPassword } from '../domain/users/confirm-password.ts';
import { makeCreateAccount } from '../domain/users/create-account.ts';
import { makeAccountFactors } from '../domain/factors/account-factors.ts';
import { makeOwnFactors } from '../domain/factors/own-factors.ts';
import { makeProven } from '../domain/factors/proven.ts';
import { makeLogInWithPasskey } from '../domain/passkeys/log-in-with-passkey.ts';
import { makeOwnPasskeys } from '../domain/passkeys/own-passkeys.ts';
import type { LoginChallenges, VerifyAnswers } from '../domain/passkeys/ports.ts';
import type { SecretBox } from '../domain/factors/ports.ts';
import { makeFinishUserChange } from '../domain/users/finish-user-change.ts';
import { makeMails } from '../domain/mails/mails.ts';
import { makeOwnAddress } from '../domain/mails/own-address.ts';
import type { MailStore } from '../domain/mails/wanted-mail.ts';
import type { ResetRequests } from '../domain/mails/reset-requests.ts';
import { makeListTokens } from '../domain/users/list-tokens.ts';
import { makeManageAccounts } from '../domain/users/manage-accounts.ts';
import { makeNewNames } from '../domain/users/new-names.ts';
import { makeAccountWithTokens } from '../domain/users/account-with-tokens.ts';
import { makeResetPassword } from '../domain/users/reset-password.ts';
import { makeSignUp } from '../domain/sessions/sign-up.ts';
import type { AttemptHash } from '../infra/crypto/keyed-hashes.ts';
import type { NameHashing } from '../infra/crypto/name-hash.ts';
import { loadCommonPasswords } from '../infra/crypto/common-passwords.ts';
import { hashThatNothingOpens } from '../infra/crypto/scrypt-hasher.ts';
import { makeAccountStore } from '../infra/postgres/account-store.ts';
import type { Postgres } from '../infra/postgres/client.ts';
import { makeFactorStore } from '../infra/postgres/factor-store.ts';
import { makeOwnAddressStore } from '../infra/postgres/own-address.ts';
import { issueReset } from '../infra/postgres/password-resets.ts';
import { makePasskeyStore } from '../infra/postgres/passkey-store.ts';
import { makePasswordStore } from '../infra/postgres/password-store.ts';
import { makeUserStore } from '../infra/postgres/user-store.ts';

export interface Parts {
  config: Config;
  lifetimes: Lifetimes;
  tokenStates: TokenStateStore;
  /** As `tokenStates`, but it does not publish revocations to the feed. */
  unpublishedStates: TokenStateStore;
  feed: RevocationFeed;
  limitAttempt: LimitAttempt;
  /** Names those who attempt in the audit trail. */
  slotHash: AttemptHash;
  /** Names the names of deleted accounts. */
  nameHash: NameHashing;
  tokens: TokenStore;
  postgres: Postgres;
  durability: Durability;
  hashing: Hashing;
  loginTokens: LoginTokens;
  /** Under FACTOR_KEYS. */
  secrets: SecretBox;
  loginChallenges: LoginChallenges;
  /** null if passkeys are off. */
  verifyAnswers: VerifyAnswers | null;
  mails: MailStore;
  resetRequests: ResetRequests;
  services: RegisteredServices;
  checkAssertion: CheckAssertion;
  clock: Clock;
  observe: Observe;
  audit: Audit;
  auditLimit: AuditLimit;
}

/**
 * The use cases that routes call. Each takes what its ports name from `deps`; beside it stand its settings alone, so that
 * a new use case is one entry here.
 */
export function makeUseCases(parts: Parts) {
  const { config, postgres, limitAttempt, nameHash } = parts;
  const reservation = {
    grace: config.DELETED_NAME_GRACE * 1e3,
    hashes: (names: { username?: string; email: string }) => nameHash.newest(names).map(([, hash]) => hash),
  };
  const addresses = { wantsProof: config.EMAIL_VERIFICATION, notices: config.NOTICES, reservation };
  const factorSettings = {
    notices: config.NOTICES,
    needsAddress: config.EMAIL_VERIFICATION,
    rpId: config.WEBAUTHN_RP_ID,
  };
  const stores = {
    ...parts,
    ...parts.hashing,
    ...parts.durability,
    users: makeUserStore(postgres, nameHash.each, addresses),
    accounts: makeAccountStore(postgres, nameHash.each, addresses),
    ownAddresses: makeOwnAddressStore(postgres, nameHash.each, addresses),
    passwords: makePasswordStore(postgres, config.NOTICES),
    factors: makeFactorStore(postgres, factorSettings),
    passkeys: makePasskeyStore(postgres, factorSettings),
    // Without the feed: a revocation that it reads was published when it happened.
    readThrough: withReadThrough(parts.unpublishedStates, parts),
    auditHash: (name: string) => parts.slotHash(`audit ${name}`),
    newNames: makeNewNames(config.RESERVED_USERNAMES),
    isCommonPassword: loadCommonPasswords(),
    passwordMinLength: config.PASSWORD_MIN_LENGTH,
    ownAudience: config.AUDIENCE,
    randomBytes,
  };
  const limited = {
    ...stores,
    limitGuess: makeGuessingLimits({
      ...stores,
      account: config.RATE_LIMIT_ACCOUNT,
      network: config.RATE_LIMIT_NETWORK,
    }),
    limitCode: makeCodeLimits(limitAttempt, config.RATE_LIMIT_FACTOR),
  };
  const confirmPassword = makeConfirmPassword(limited);
  const deps = {
    ...limited,
    confirmPassword,
    proven: makeProven({ ...limited, confirmPassword, loginMaxAge: config.FACTOR_LOGIN_MAX_AGE }),
    openSession: makeOpenSession({ ...limited, maxSessions: config.MAX_SESSIONS_PER_USER }),
    finishEndings: makeFinishEndings({ ...limited, tokenStates: parts.unpublishedStates }),
    finishUserChange: makeFinishUserChange(limited),
    accountWithTokens: makeAccountWithTokens(limited),
    verify: makeVerify(limited),
    serviceTokens: makeServiceTokens({ ...limited, issuer: config.ISSUER, ttl: config.SERVICE_TOKEN_TTL }),
  };

  return {
    services: deps.services,
    checkAssertion: deps.checkAssertion,
    resetRequests: deps.resetRequests,
    accountWithTokens: deps.accountWithTokens,
    verify: deps.verify,
    serviceTokens: deps.serviceTokens,
    signUp: makeSignUp({
      ...deps,
      enabled: config.SIGNUP_ENABLED,
      networkBudget: makeBudget(limitAttempt, {
        network: { limit: 'signup_network', allowance: config.RATE_LIMIT_SIGNUP_NETWORK },
      }),
    }),
    logIn: makeLogIn(deps),
    completeLogin: makeCompleteLogin(deps),
    logInWithPasskey: makeLogInWithPasskey({
      ...deps,
      budget: makeBudget(limitAttempt, {
        user: { limit: 'passkey_budget', allowance: config.RATE_LIMIT_LLT },
      }),
    }),
    refresh: makeRefresh({ ...deps, retryWindow: config.REFRESH_RETRY_WINDOW }),
    ...makeEndToken(deps),
    ...makeCreateLongLived({
      ...deps,
      budget: makeBudget(limitAttempt, {
        user: { limit: 'llt_budget', allowance: config.RATE_LIMIT_LLT },
        network: { limit: 'llt_network', allowance: config.RATE_LIMIT_LLT_NETWORK },
      }),
      maxTokens: config.MAX_LLT_PER_USER,
      enabled: config.LLT_ENABLED,
      limitedEnabled: config.LIMITED_TOKENS_ENABLED,
      maxAge: config.LLT_MAX_AGE,
      limitedMaxAge: config.LIMITED_TOKEN_MAX_AGE,
      loginMaxAge: config.LLT_LOGIN_MAX_AGE,
    }),
    introspect: makeIntrospect(deps),
    noteReported: deps.writeBehind.noteReported,
    exchange: makeExchange({ ...deps, ttl: config.EXCHANGED_TOKEN_TTL }),
    listTokens: makeListTokens(deps),
    logOutEverywhere: makeLogOutEverywhere(deps),
    changePassword: makeChangePassword(deps),
    changeProfile: makeChangeProfile({
      ...deps,
      budget: makeBudget(limitAttempt, {
        user: { limit: 'profile_budget', allowance: config.RATE_LIMIT_PROFILE },
      }),
    }),
    resetPassword: makeResetPassword(deps),
    mails: makeMails(deps),
    ownAddress: makeOwnAddress(deps),
    ownFactors: makeOwnFactors({
      ...deps,
      allowance: config.RATE_LIMIT_FACTOR,
      issuer: config.FACTOR_ISSUER,
    }),
    ownPasskeys: makeOwnPasskeys({ ...deps, issuer: config.FACTOR_ISSUER }),
    accountFactors: makeAccountFactors(deps),
    createAccount: makeCreateAccount({
      ...deps,
      hashThatNothingOpens: () => hashThatNothingOpens(deps.cost),
      sealTotp: (userId, secret) => deps.secrets.seal(userId, secret),
    }),
    accounts: makeManageAccounts({
      ...deps,
      issueReset: (key, tokenHash) => issueReset(postgres, key, tokenHash, config.PASSWORD_RESET_TTL),
      reservation,
    }),
  };
}

export type UseCases = ReturnType<typeof makeUseCases>;
