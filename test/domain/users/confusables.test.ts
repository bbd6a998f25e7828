import fc from 'fast-check';
import { test } from 'tap';
import { skeletonOf } from '../../../src/domain/users/confusables.ts';
import { parseUsername } from '../../../src/domain/identifiers.ts';
import { testScale } from '../../support/environment.ts';

const numRuns = Math.ceil(3000 * testScale);
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({
    unit: fc.constantFrom(...Array.from('аесорхуіјѕԁαορυνιıłøɡℓ০०᎕ꓮ'), 'i\u0307', '\u0301', '가', 'x'),
    maxLength: 40,
  }),
);

test('names that look alike have one skeleton', (t) => {
  const pairs: [string, string][] = [
    ['рау', 'pay'],
    ['ѕсоре', 'scope'],
    ['ραυ', 'pau'],
    ['ǀ', 'l'],
    ['i\u0307brahim', 'ibrahim'],
    ['ı\u0307brahim', 'ibrahim'],
    ['pay\u200b', 'pay'],
    ['pa\u034fy', 'pay'],
    ['o’brien', "o'brien"],
    ['ꓮꓓꓟꓲꓠ', 'admln'],
    ['é', 'e\u0301'],
  ];
  for (const [one, other] of pairs) t.equal(skeletonOf(one), skeletonOf(other), `${one} ${other}`);
  t.end();
});

test('names that do not look alike have different skeletons', (t) => {
  const names = 'ada åda адам modern modem l 1 i 0 o 阿達 아다 かな カナ'.split(' ');
  t.equal(new Set(names.map(skeletonOf)).size, names.length);
  t.end();
});

test('ASCII maps to itself', (t) => {
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary-ascii', maxLength: 64 }), (text) => skeletonOf(text) === text),
      { numRuns },
    );
  });
  t.end();
});

test('a skeleton is its own skeleton, decomposed, and short enough for an index', (t) => {
  let seen = 0;
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(anyText, (text) => {
        const parsed = parseUsername(text);
        if (!parsed.ok) return true;
        seen++;
        const skeleton = skeletonOf(parsed.value);
        return skeletonOf(skeleton) === skeleton && skeleton === skeleton.normalize('NFD');
      }),
      { numRuns },
    );
  });
  t.ok(seen > numRuns / 10, `${seen} of ${numRuns} were usernames`);
  t.end();
});

test('no username has a skeleton that is too long for an index', (t) => {
  let longest = 0;
  for (let codePoint = 0x80; codePoint < 0x11_0000; codePoint++) {
    if (codePoint >= 0xd800 && codePoint < 0xe000) continue;
    longest = Math.max(longest, Buffer.byteLength(skeletonOf(String.fromCodePoint(codePoint))));
  }
  t.ok(longest * 64 < 2704, `${longest} bytes a character: a B-tree takes 2,704 in all`);
  t.end();
});
