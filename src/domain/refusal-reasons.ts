import { RIGHT_KINDS } from './rights.ts';

// Why a request was refused, more exactly than its code says. For the log, a metric and `latchkey explain`: a client in
// production never sees a reason, and branches on the code alone. docs/errors.md explains each; a test compares both.

/** Why a token was refused before its session was looked up. The verifier has the same names. */
export const TOKEN_REFUSALS = [
  'malformed',
  'type',
  'unknown_key',
  'signature',
  'issuer',
  'audience',
  'expired',
] as const;
export type TokenRefusal = (typeof TOKEN_REFUSALS)[number];

/** Why a token that we signed is not good now. */
export const SESSION_REFUSALS = ['superseded', 'revoked', 'reused', 'disabled', 'gone'] as const;
export type SessionRefusal = (typeof SESSION_REFUSALS)[number];

/** Why a service token that we signed is not good now. */
export const SERVICE_REFUSALS = ['revoked', 'disabled', 'gone', 'right'] as const;
export type ServiceRefusal = (typeof SERVICE_REFUSALS)[number];

export type UserTokenRefusal = TokenRefusal | SessionRefusal;
export type BearerRefusal = UserTokenRefusal | ServiceRefusal;

/**
 * Why a good token is not enough where more is demanded of its login: that used no second factor; it is too long ago, or
 * the token does not say when it was; or the demand itself is not understood.
 */
export const PROOF_REFUSALS = ['acr', 'max_age', 'demand'] as const;
export type ProofRefusal = (typeof PROOF_REFUSALS)[number];

/** Never shown to a client, also outside production: they would tell which names exist. */
export const LOGIN_REFUSALS = ['unknown', 'password', 'disabled'] as const;
export type LoginRefusal = (typeof LOGIN_REFUSALS)[number];

/** Why a registered service is not authenticated. */
export const CREDENTIAL_REFUSALS = [
  'missing',
  'malformed',
  'unknown',
  'secret',
  'disabled',
  'client_id',
  'assertion',
] as const;
export type CredentialRefusal = (typeof CREDENTIAL_REFUSALS)[number];

/** Why a service's assertion was refused. For the log and a metric only: the service learns that it was refused. */
export const ASSERTION_REFUSALS = [
  'malformed',
  'algorithm',
  'issuer',
  'unknown_key',
  'signature',
  'audience',
  'expired',
  'not_yet_valid',
  'too_long',
  'subject',
  'client_id',
  'disabled',
] as const;
export type AssertionRefusal = (typeof ASSERTION_REFUSALS)[number];

/**
 * Failed logins of a name, of a device that its account knows, and of a network; wrong codes of an account, of a device
 * that has logged in with one, of both together, for a factor that was set up, and for all set-ups of an account; accounts
 * that a network opens, and resets that it or a user asks for; long-lived tokens that a user and that a network creates;
 * changes of a profile; and sessions that a user opens with passkeys.
 */
export const SLOT_LIMITS = [
  ...(['account', 'device', 'network'] as const),
  ...(['factor', 'factor_device', 'factor_total', 'factor_setup', 'factor_setup_total'] as const),
  ...([
    'signup_network',
    'reset_network',
    'reset_account',
    'llt_budget',
    'llt_network',
    'profile_budget',
    'passkey_budget',
  ] as const),
] as const;
export type SlotLimit = (typeof SLOT_LIMITS)[number];
/** Also logins and signups of an address, and mails of an account, which PostgreSQL counts. */
export const COUNTED_LIMITS = ['login', 'signup', ...SLOT_LIMITS, 'mails'] as const;
/** Also requests for one account at once, which nothing counts: they wait in its lane until that is full. */
export const RATE_LIMITS = [...COUNTED_LIMITS, 'lane'] as const;

/** The reasons that a code may have; all other codes say it themselves. */
export const REFUSAL_REASONS = {
  invalid_token: [...TOKEN_REFUSALS, ...SESSION_REFUSALS, 'right'],
  invalid_subject_token: [...TOKEN_REFUSALS, ...SESSION_REFUSALS],
  invalid_credentials: LOGIN_REFUSALS,
  invalid_client: CREDENTIAL_REFUSALS,
  insufficient_scope: ['scope'],
  insufficient_user_authentication: PROOF_REFUSALS,
  right_missing: RIGHT_KINDS,
  rate_limited: RATE_LIMITS,
} as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[keyof typeof REFUSAL_REASONS][number];
