import { SECOND_STEPS } from '../second-step.ts';
import { ASSERTION_REFUSALS, LOGIN_REFUSALS, SERVICE_REFUSALS } from '../refusal-reasons.ts';

/**
 * The label values of the metrics; each list is closed. docs/observability.md explains them, and a test compares both.
 */

export const LOGIN_OUTCOMES = ['success', ...LOGIN_REFUSALS] as const;

/**
 * Of second steps: asked for after a right password, proved by one of `SECOND_STEPS`, a wrong or used code,
 * or a passkey that was refused, which nobody can guess.
 */
export const SECOND_STEP_OUTCOMES = ['asked', ...SECOND_STEPS, 'wrong', 'passkey_refused'] as const;

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

export const SERVICE_OUTCOMES = ['good', ...SERVICE_REFUSALS, 'expired', 'unavailable'] as const;
export type ServiceOutcome = (typeof SERVICE_OUTCOMES)[number];

export const SERVICE_TOKEN_OUTCOMES = ['issued', 'right', 'target', 'unavailable'] as const;
export type ServiceTokenOutcome = (typeof SERVICE_TOKEN_OUTCOMES)[number];

export const EXCHANGE_OUTCOMES = ['issued', 'subject', 'target', 'unavailable'] as const;
export type ExchangeOutcome = (typeof EXCHANGE_OUTCOMES)[number];

export const ASSERTION_OUTCOMES = ['accepted', ...ASSERTION_REFUSALS, 'unavailable'] as const;
export type AssertionOutcome = (typeof ASSERTION_OUTCOMES)[number];

export const REVOCATION_CAUSES = [
  'owner',
  'everywhere',
  'password',
  'replaced',
  'reuse',
  'reuse_llt',
  'client',
] as const;

export const READ_THROUGH_OUTCOMES = ['rebuilt', 'refused', 'gone'] as const;
export type ReadThroughOutcome = (typeof READ_THROUGH_OUTCOMES)[number];

/** Why a hash was refused: queue full, wait too long, waited too long, or dropped to make room for another caller. */
export const HASH_REJECTIONS = ['full', 'wait', 'timeout', 'dropped'] as const;
export type HashRejection = (typeof HASH_REJECTIONS)[number];

/** What becomes of a wanted mail: a mailer took it, handed it over or could not deliver it; or none did in time. */
export const MAIL_OUTCOMES = ['taken', 'settled', 'undeliverable', 'dropped'] as const;
export type MailOutcome = (typeof MAIL_OUTCOMES)[number];

/**
 * What waits on a replica for a store: tokens to revoke, and the marks of those that were; rotations and uses to write;
 * requests for a reset; stolen sessions to end; and what readers of the feed confirm.
 */
export const QUEUES = [
  'revocations',
  'marks',
  'write_behind',
  'reset_requests',
  'thefts',
  'confirmations',
] as const;
export type Queue = (typeof QUEUES)[number];

/** Why a feed reader got a snapshot: it had no position, one of another epoch, or one that is too old. */
export const FEED_SNAPSHOT_REASONS = ['new', 'epoch', 'trimmed'] as const;
export type FeedSnapshotReason = (typeof FEED_SNAPSHOT_REASONS)[number];

/** Why a feed reader ended: it left, was too slow, lost its client or secret, the replica drains, or a bug. */
export const FEED_ENDS = ['left', 'slow', 'client', 'drain', 'standing', 'fault'] as const;
export type FeedEnd = (typeof FEED_ENDS)[number];
