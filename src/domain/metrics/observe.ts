import type { AuditEvent } from '../audit/event.ts';
import type { MailKind } from '../mail-kinds.ts';
import type { TokenRefusal } from '../refusal-reasons.ts';
import type {
  AssertionOutcome,
  ExchangeOutcome,
  FeedEnd,
  FeedSnapshotReason,
  HashRejection,
  IntrospectionOutcome,
  MailOutcome,
  Queue,
  ReadThroughOutcome,
  RefreshOutcome,
  ServiceOutcome,
  ServiceTokenOutcome,
  SignUpRefusal,
  VerifyOutcome,
} from './outcomes.ts';

/**
 * What use cases report to the metrics, besides `audit`. These are plain functions that allocate nothing, since refresh
 * and verify call them. No argument is ever client input. Times are in seconds.
 */
export interface Observe {
  /** Logins, signups, tokens created and revoked: the events of `audit`. */
  audited(event: AuditEvent): void;
  signUpRefused(reason: SignUpRefusal): void;
  /** A login with a passkey was refused. */
  passkeyRefused(): void;
  refresh(outcome: RefreshOutcome): void;
  verification(type: 'access' | 'llt' | 'limited' | 'exchanged', outcome: VerifyOutcome): void;
  introspection(outcome: IntrospectionOutcome): void;
  exchange(outcome: ExchangeOutcome): void;
  /** A service token was checked. */
  serviceVerification(outcome: ServiceOutcome): void;
  /** A service asked for a token. */
  serviceToken(outcome: ServiceTokenOutcome): void;
  assertion(outcome: AssertionOutcome): void;
  tokenRefused(reason: TokenRefusal): void;
  /** The signature of a token was checked that is not remembered, but could be: no refresh token. */
  signatureChecked(): void;
  readThrough(outcome: ReadThroughOutcome): void;

  hashBegan(waited: number): void;
  hashEnded(seconds: number): void;
  hashRejected(reason: HashRejection): void;

  /** A mail may be taken several times. */
  mail(kind: MailKind, outcome: MailOutcome): void;

  /** Something that waited, or came to wait, was dropped. */
  queueDropped(queue: Queue): void;

  /** `count` events were added to the revocation feed. */
  feedPublished(count: number): void;
  feedSnapshot(reason: FeedSnapshotReason): void;
  feedEnded(reason: FeedEnd): void;
  /** All readers of the feed have confirmed what this replica had read in it so long ago. */
  revocationEnforced(seconds: number): void;
}
