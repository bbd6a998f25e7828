import { test } from 'tap';
import { holdsInvisible, withoutInvisible } from '../../../src/domain/users/visible.ts';

/** One character per rule: controls, formats, private, unassigned, ignorable, direction, line breaks, blank letters. */
const INVISIBLE =
  '\0\t\n\u007f\u0085\u00ad\u034f\u061c\u070f\u115f\u1160\u17b4\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202e' +
  '\u2060\u2066\u2069\u2800\u3164\ue000\ufeff\ufe00\uffa0\ufff9\ufffc\u{1d159}\u{13441}\u{378}\u{e0001}\u{e0061}\u{10ffff}';

test('invisible characters are found and removed', (t) => {
  for (const character of INVISIBLE) {
    const name = `U+${character.codePointAt(0)?.toString(16) ?? ''}`;
    t.ok(holdsInvisible(`a${character}b`), name);
    t.equal(withoutInvisible(`a${character}b`), 'ab', name);
  }
  t.end();
});

test('visible characters stay', (t) => {
  for (const text of [
    'Ada Lovelace',
    'Zoë',
    'نرگس',
    'ดวงใจ',
    '王小明',
    '🐎',
    'e\u0301',
    'a\u00a0b',
    '\u3000',
    '𝒜',
  ]) {
    t.notOk(holdsInvisible(text), text);
    t.equal(withoutInvisible(text), text);
  }
  t.end();
});

test('one joiner or variation selector stays after a visible character', (t) => {
  for (const text of ['می‌خواهم', 'ශ්‍රී', '❤️‍🔥', '👩‍🚀', '☎︎', '1️⃣', 'a\u200d'])
    t.equal(withoutInvisible(text), text, text);
  const wrong: [string, string][] = [
    ['\u200da', 'a'],
    ['a \u200db', 'a b'],
    ['\ufe0f', ''],
    ['a\u200d\u200d', 'a\u200d'],
    ['a\ufe0f\ufe0fb', 'a\ufe0fb'],
    ['a\u200b\u200db', 'ab'],
    ['\u3164\u200d', ''],
  ];
  for (const [text, rest] of wrong) t.equal(withoutInvisible(text), rest, encodeURI(text));
  for (const joiner of '\u200c\u200d\ufe0e\ufe0f') t.ok(holdsInvisible(`a${joiner}`));
  t.end();
});
