import { test } from 'tap';
import { parseServiceName } from '../../../src/domain/services/registered-service.ts';

test('a name has 1 to 64 printable characters', (t) => {
  for (const [raw, name] of [
    ['billing', 'billing'],
    ['  billing api ', 'billing api'],
    ['Ho\u0308hle', 'Höhle'],
    ['日本 🎉', '日本 🎉'],
    ['🎉'.repeat(64), '🎉'.repeat(64)],
  ] as const) {
    t.equal(parseServiceName(raw), name);
  }
  for (const raw of [
    '',
    '  ',
    'x'.repeat(65),
    'a\0b',
    'a\nb',
    'a\u001b[31mb',
    'a\u2028b',
    '\ud800',
    'a\u202eb',
    '\u200b',
  ])
    t.equal(parseServiceName(raw), null, Buffer.from(raw).toString('hex'));
  t.end();
});
