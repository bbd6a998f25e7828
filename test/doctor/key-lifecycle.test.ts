import { test } from 'tap';
import { checkKeyLife, type JudgedKey } from '../../src/doctor/key-lifecycle.ts';
import { byCheck } from '../support/doctor.ts';

const NOW = Date.parse('2026-11-21T10:00:00Z');
const DAY = 86_400_000;
const aKey = (file: string, state: JudgedKey['state'], more: Partial<JudgedKey> = {}): JudgedKey => ({
  kid: file,
  file,
  files: [file],
  state,
  algorithm: 'ES256',
  createdAt: NOW - DAY,
  since: NOW,
  next: null,
  longLived: 0,
  ...more,
});
const findings = (...keys: JudgedKey[]) => byCheck(checkKeyLife(keys, NOW));

test('one young signing key is ok', (t) => {
  t.match(findings(aKey('a.pem', 'signing')), {
    'the key that signs': [{ state: 'ok', found: 'a.pem (ES256), 1 days old by its file' }],
    'keys that do not sign yet': [{ state: 'ok', found: 'none' }],
    'keys that do not sign any more': [{ state: 'ok', found: 'none' }],
  });
  t.end();
});

test('an old key needs a successor, unless one is published', (t) => {
  const old = aKey('a.pem', 'signing', { createdAt: NOW - 400 * DAY });
  t.match(findings(old), { 'the key that signs': [{ state: 'warn', found: /400 days/ }] });
  const next = aKey('b.pem', 'published', { next: NOW + 600_000 });
  t.match(findings(next, old), {
    'the key that signs': [{ state: 'ok' }],
    'keys that do not sign yet': [{ state: 'ok', found: 'b.pem signs from 2026-11-21T10:10:00Z' }],
  });
  t.match(findings(aKey('b.pem', 'unseen')), {
    'the key that signs': [{ state: 'warn' }],
    'keys that do not sign yet': [{ state: 'warn', found: /b\.pem/ }],
  });
  t.end();
});

test('old keys are kept as long as they are needed, then named for removal', (t) => {
  const check = 'keys that do not sign any more';
  const kept = [aKey('a.pem', 'verifying', { next: NOW }), aKey('b.pem', 'verifying', { longLived: 2 })];
  t.match(findings(...kept), {
    [check]: [
      {
        state: 'ok',
        found: 'a.pem can be retired from 2026-11-21T10:00:00Z, b.pem is needed for 2 long-lived tokens',
      },
    ],
  });
  t.match(findings(aKey('a.pem', 'retirable')), {
    [check]: [{ state: 'warn', found: /signed with a\.pem$/ }],
  });
  t.end();
});
