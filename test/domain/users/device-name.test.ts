import fc from 'fast-check';
import { test } from 'tap';
import { isInvisibleDevice, parseDevice } from '../../../src/domain/users/device-name.ts';
import { testScale } from '../../support/environment.ts';

test('invisible characters are removed from a device’s name', (t) => {
  const names: [string, string][] = [
    [' Kitchen tablet ', 'Kitchen tablet'],
    ['a\u001bb', 'ab'],
    ['Kitchen\u202e tablet\u200b ', 'Kitchen tablet'],
    ['👩‍🚀', '👩‍🚀'],
    ['\u200b', 'unknown'],
    ['\u0007 \u3164', 'unknown'],
    [`${'x'.repeat(128)}\u200b`, 'x'.repeat(128)],
  ];
  for (const [raw, value] of names) t.strictSame(parseDevice(raw), { ok: true, value });
  t.end();
});

test('other bad names are refused', (t) => {
  for (const raw of ['', ' \u3000', 'x'.repeat(129), '\ud800', 'a\udc00'])
    t.match(parseDevice(raw), { ok: false });
  t.end();
});

test('a name without visible characters is recognised', (t) => {
  for (const raw of ['\u200b', '\u0000', ' \u2800 ']) t.ok(isInvisibleDevice(raw));
  for (const raw of ['', ' ', 'a', 'a\u200b', '\ud800']) t.notOk(isInvisibleDevice(raw));
  t.end();
});

test('the rest is a valid name', (t) => {
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (raw) => {
        const parsed = parseDevice(raw);
        if (!parsed.ok) return true;
        const again = parseDevice(parsed.value);
        return again.ok && again.value === parsed.value;
      }),
      { numRuns: Math.ceil(2000 * testScale) },
    );
  });
  t.end();
});
