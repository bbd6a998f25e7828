import { test } from 'tap';
import { isOfOneScript } from '../../../src/domain/users/scripts.ts';

test('accepts one script, with characters common to all', (t) => {
  for (const text of [
    '',
    '42',
    '-_.',
    '🐎',
    'ada-42',
    'zoë',
    'łukasz',
    'адам7',
    'αλέξης',
    'נועה',
    'نرگس',
    'ᏣᎳᎩ',
    'ስም',
    'i\u0307',
  ])
    t.ok(isOfOneScript(text), text);
  t.end();
});

test('accepts Latin with Japanese, Chinese or Korean scripts, and these in their usual combinations', (t) => {
  for (const text of ['山田かなカナ', 'yamada山田', 'カーabc', '王ㄨㄤ', 'wang王ㄨㄤ', '김金', 'kim김金'])
    t.ok(isOfOneScript(text), text);
  for (const text of ['かな김', 'ㄨㄤかな', 'ㄨ김', 'a김かな']) t.notOk(isOfOneScript(text), text);
  t.end();
});

test('refuses other mixtures', (t) => {
  for (const text of ['аdmin', 'pаy', 'αdmin', 'admіn', 'адамα', 'a\u0561', '山я', 'a\u0661', 'ꓮdmin'])
    t.notOk(isOfOneScript(text), text);
  t.end();
});

test('every letter that this Node knows has a script', (t) => {
  const unknown: string[] = [];
  for (let codePoint = 0; codePoint < 0x11_0000; codePoint++) {
    // The Han and Hangul blocks are the bulk of them, and each has one script.
    if ((codePoint > 0x4e00 && codePoint < 0x9f00) || (codePoint > 0xac00 && codePoint < 0xd700)) continue;
    const letter = String.fromCodePoint(codePoint);
    if (/\p{L}/u.test(letter) && !isOfOneScript(letter)) unknown.push(codePoint.toString(16));
  }
  t.strictSame(unknown, []);
  t.end();
});
