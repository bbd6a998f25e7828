import type { AuditEvent } from '../../src/domain/audit/event.ts';
import { makeCodeLimits } from '../../src/domain/factors/code-limits.ts';
import { makeLimitAttempts } from '../../src/domain/limits/limit-attempts.ts';
import { makeGuessingLimits } from '../../src/domain/passwords/guessing-limits.ts';
import { makeMemoryAttemptSlots } from '../../src/infra/memory/attempt-slots.ts';

/** Limits that refuse nothing. @param events get those of failed guesses. */
export function openLimits(events: AuditEvent[]) {
  const limitAttempt = makeLimitAttempts({
    slots: makeMemoryAttemptSlots(() => 0),
    hash: (text) => text,
    auditLimit: () => undefined,
    auditFailure: (event) => events.push(event),
  });
  const auditHash = (name: string) => name;
  return {
    limitAttempt,
    limitGuess: makeGuessingLimits({ limitAttempt, account: null, network: null, auditHash }),
    limitCode: makeCodeLimits(limitAttempt, null),
  };
}
