/** The values of the metrics' labels, each list closed: docs/metrics.md says what they mean, and a test compares. */

export const LOGIN_OUTCOMES = ['success', 'unknown', 'password', 'disabled'] as const;

export const SIGNUP_REFUSALS = ['username_taken', 'email_taken', 'password_refused'] as const;
export type SignUpRefusal = (typeof SIGNUP_REFUSALS)[number];

export const REFRESH_OUTCOMES = [
  'current',
  'ahead',
  'gap',
  'unconfirmed',
  'repeated',
  'held',
  'reused',
  'clock',
  'stale',
  'revoked',
  'disabled',
  'gone',
  'expired',
  'unavailable',
] as const;
export type RefreshOutcome = (typeof REFRESH_OUTCOMES)[number];

export const VERIFY_OUTCOMES = [
  'good',
  'superseded',
  'revoked',
  'disabled',
  'gone',
  'expired',
  'unavailable',
] as const;
export type VerifyOutcome = (typeof VERIFY_OUTCOMES)[number];

export const INTROSPECTION_OUTCOMES = ['active', 'inactive', 'unavailable'] as const;
export type IntrospectionOutcome = (typeof INTROSPECTION_OUTCOMES)[number];

/** Why a token was refused before its session was asked for. */
export const TOKEN_REFUSALS = ['expired', 'signature', 'unknown_key', 'wrong_type', 'malformed'] as const;
export type TokenRefusal = (typeof TOKEN_REFUSALS)[number];

export const REVOCATION_CAUSES = ['owner', 'everywhere', 'replaced', 'reuse', 'client'] as const;

export const READ_THROUGH_OUTCOMES = ['rebuilt', 'refused', 'gone'] as const;
export type ReadThroughOutcome = (typeof READ_THROUGH_OUTCOMES)[number];

/** The queue was full; it would have waited for too long; it has. */
export const HASH_REJECTIONS = ['full', 'wait', 'timeout'] as const;
export type HashRejection = (typeof HASH_REJECTIONS)[number];

export const REDIS_COMMANDS = [
  'now',
  'rotate',
  'check_access',
  'check_long_lived',
  'put',
  'revoke',
  'last_uses',
  'feed',
] as const;
export type RedisCommand = (typeof REDIS_COMMANDS)[number];

export const REDIS_FAILURES = ['not_ready', 'timeout', 'connection', 'reply'] as const;
export type RedisFailure = (typeof REDIS_FAILURES)[number];

export const STATEMENTS = ['select', 'insert', 'update', 'delete', 'with', 'transaction', 'other'] as const;
export type Statement = (typeof STATEMENTS)[number];

export const POSTGRES_FAILURES = [
  'connect',
  'connection',
  'timeout',
  'conflict',
  'resources',
  'other',
] as const;
export type PostgresFailure = (typeof POSTGRES_FAILURES)[number];

export const TASKS = [
  'write check',
  'write-behind',
  'revocation sweep',
  'tombstone renewal',
  'reuse queue',
  'client reload',
  'revocation feed',
] as const;
export type Task = (typeof TASKS)[number];

/** Why a reader of the feed got all that is revoked: it had no position, one of another epoch, or one too long ago. */
export const FEED_SNAPSHOT_REASONS = ['new', 'epoch', 'trimmed'] as const;
export type FeedSnapshotReason = (typeof FEED_SNAPSHOT_REASONS)[number];

/** It went, did not keep up, its client or secret is gone, we stop, or a fault of ours. */
export const FEED_ENDS = ['left', 'slow', 'client', 'drain', 'fault'] as const;
export type FeedEnd = (typeof FEED_ENDS)[number];
