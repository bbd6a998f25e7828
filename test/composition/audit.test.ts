import { test } from 'tap';
import { makeAudit } from '../../src/composition/audit.ts';
import { NO_REQUEST } from '../../src/domain/audit/source.ts';
import type { AuditEvent, FailedGuess } from '../../src/domain/audit/event.ts';

function aTrail() {
  let now = 0;
  const written: { event: string; subject: object; details: object }[] = [];
  const counted: AuditEvent[] = [];
  const { auditFailure } = makeAudit({
    trail: { write: (line) => void written.push(JSON.parse(line) as (typeof written)[number]) },
    observe: { audited: (event) => counted.push(event) },
    clock: { now: () => 0, monotonic: () => now },
  });
  return {
    counted,
    pass: (seconds: number) => (now += seconds * 1000),
    /** The lines that a number of equal failures leave, without their envelope. */
    fail: (times: number, event: FailedGuess, heldSlot = false, network: string | null = '192.0.2.0/24') => {
      written.length = 0;
      for (let i = 0; i < times; i++) auditFailure(event, { heldSlot, network }, NO_REQUEST);
      return written.map((line) => ({ event: line.event, subject: line.subject, details: line.details }));
    },
  };
}

const RESET: FailedGuess = { event: 'password.reset_failed' };
const refused = (userId: number): FailedGuess => ({
  event: 'factor.refused',
  userId,
  method: 'recovery_code',
});

test('each failed guess that held a slot is an event', (t) => {
  const { fail } = aTrail();
  t.strictSame(fail(3, RESET, true), Array(3).fill({ event: RESET.event, subject: {}, details: {} }));
  t.end();
});

test('of those without a slot, the first in a minute is one, and the next counts the rest', (t) => {
  const { counted, pass, fail } = aTrail();
  const line = { event: 'factor.refused', subject: { user_id: 7 }, details: { method: 'recovery_code' } };
  t.strictSame(fail(4, refused(7)), [line]);
  pass(59.999);
  t.strictSame(fail(1, refused(7)), []);
  pass(0.001);
  t.strictSame(fail(3, refused(7)), [{ ...line, details: { ...line.details, count: 4 } }]);
  pass(60);
  t.match(fail(1, refused(7)), [{ details: { count: 2 } }]);
  pass(60);
  t.strictSame(fail(1, refused(7)), [line], 'nothing was left out');
  t.equal(counted.length, 10, 'the metrics count each');
  t.end();
});

test('each event, account and network has a minute of its own, and each unknown name has not', (t) => {
  const { fail } = aTrail();
  const unknown = (nameHash: string): FailedGuess => ({ event: 'login.failed', reason: 'unknown', nameHash });
  const lines = [
    fail(2, refused(7)),
    fail(2, refused(8)),
    fail(2, { event: 'password.wrong', userId: 7, by: 1 }),
    fail(2, refused(7), false, '198.51.100.0/24'),
    fail(2, refused(7), false, null),
    fail(2, unknown('one')),
  ];
  t.strictSame(
    lines.map((each) => each.length),
    lines.map(() => 1),
  );
  t.strictSame(fail(2, unknown('another')), []);
  t.end();
});
