import type { AuditFailure, AuditLimit, FailedGuess } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import { AuthError, ignoreOutage } from '../errors.ts';
import type { RefusalReason } from '../refusal-reasons.ts';
import type { Counted } from './counter-keys.ts';
import type { AttemptSlots } from './ports.ts';

/** What a failed guess that counts leaves in the audit trail, whoever makes it. */
export interface Failure {
  event: (reason: RefusalReason | undefined) => FailedGuess;
  /** Whence it came; null if its network is not counted. */
  network: string | null;
}

export interface Attempt {
  /** The attempt needs a slot of each, taken in this order. */
  counters: readonly Counted[];
  from: Sourced;
  /**
   * Whether the ended attempt counts. If it does not, its slots are given back.
   * @param error null for a success.
   */
  counts: (error: unknown) => boolean;
  /** Of a guess at a secret; null for any other attempt. */
  failure: Failure | null;
}

interface LimitAttemptsPorts {
  slots: AttemptSlots;
  /** Keyed, so that the counters' keys reveal neither names nor addresses. */
  hash: (text: string) => string;
  auditLimit: AuditLimit;
  auditFailure: AuditFailure;
}

/** Limits how often something may be attempted. Each limit decides what it counts, and which attempts count. */
export function makeLimitAttempts(ports: LimitAttemptsPorts) {
  const { slots, hash, auditLimit, auditFailure } = ports;
  /** Attempts in flight on this replica, by the counter whose slot they hold. */
  const inFlight = new Map<string, number>();

  /**
   * @returns how many slots of the last counter were taken before.
   * @throws AuthError `rate_limited`, `unavailable`
   */
  async function reserve(
    { counters, from }: Attempt,
    held: [counter: string, slot: string][],
  ): Promise<number> {
    let earlier = 0;
    for (const { limit, key, allowance, subject } of counters.flat()) {
      // Only the last one's, even if it has no limit.
      earlier = 0;
      if (!allowance) continue;
      const counter = `${limit}:${hash(`${limit} ${key}`)}`;
      const reserved = await slots.reserve(counter, allowance);
      if (!('slot' in reserved)) {
        auditLimit(
          counter,
          { event: 'limit.reached', limit, windowSeconds: allowance.seconds, ...subject },
          from,
        );
        // Attempts in flight may give their slots back.
        const wait = inFlight.has(counter) ? 0 : reserved.freeIn;
        const retryAfter = Math.max(1, Math.ceil(wait / 1000));
        throw new AuthError('rate_limited', { retryAfter, reason: limit, limited: counter });
      }
      ({ earlier } = reserved);
      held.push([counter, reserved.slot]);
      inFlight.set(counter, (inFlight.get(counter) ?? 0) + 1);
    }
    return earlier;
  }

  function leave(counter: string): void {
    const left = (inFlight.get(counter) ?? 0) - 1;
    if (left > 0) inFlight.set(counter, left);
    else inFlight.delete(counter);
  }

  /** If the store is down, a slot becomes free when its window ends. */
  async function release(held: [counter: string, slot: string][]): Promise<void> {
    await Promise.all(held.map(([counter, slot]) => slots.release(counter, slot).catch(ignoreOutage)));
  }

  function auditFailed({ failure, from }: Attempt, error: unknown, heldSlot: boolean): void {
    if (failure && error instanceof AuthError)
      auditFailure(failure.event(error.reason), { heldSlot, network: failure.network }, from);
  }

  /**
   * Runs a task that holds a slot of each counter.
   * @param task hears how many slots of the last counter were taken before.
   * @throws AuthError `rate_limited`, `unavailable`, and the errors of the task
   */
  return async function limitAttempt<Result>(
    attempt: Attempt,
    task: (earlier: number) => Promise<Result>,
  ): Promise<Result> {
    const held: [counter: string, slot: string][] = [];
    // Stryker disable next-line BooleanLiteral: a success and a failure both set it
    let counts = false;
    try {
      const result = await task(await reserve(attempt, held));
      counts = attempt.counts(null);
      return result;
    } catch (error) {
      counts = attempt.counts(error);
      if (counts) auditFailed(attempt, error, held.length > 0);
      throw error;
    } finally {
      for (const [counter] of held) leave(counter);
      if (!counts) await release(held);
    }
  };
}

export type LimitAttempt = ReturnType<typeof makeLimitAttempts>;
