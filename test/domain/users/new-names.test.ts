import fc from 'fast-check';
import { test } from 'tap';
import { parseEmail, parseLabel, parseLoginName, parseUsername } from '../../../src/domain/identifiers.ts';
import { makeNewNames, isOfOneScript } from '../../../src/domain/users/new-names.ts';
import { testScale } from '../../support/environment.ts';

const numRuns = Math.ceil(2000 * testScale);
const names = makeNewNames(['admin', 'root', 'système']);
const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.string({ unit: fc.constantFrom(...Array.from('abаα\u200b\u200d\u3164\u0301\u2800 山')), maxLength: 12 }),
);

/** The code of each message about a username. */
const CODES: Record<string, string> = {
  'must not hold invisible characters': 'not_allowed_character',
  'must not begin with a combining mark': 'not_allowed_character',
  'must not have more than four combining marks on a letter, or the same one twice': 'not_allowed_character',
  'must not mix letters of several scripts': 'mixed_scripts',
  'must not be, or look like, a reserved name': 'reserved',
};

test('usernames of real people are accepted', (t) => {
  for (const name of 'ada ADA-42 zoë адам نرگس yamada山田 ada🐎 o’brien administrator2'.split(' '))
    t.match(names.username(name), { ok: true }, name);
  t.match(names.username('e\u0301\u0323'.repeat(20)), { ok: true });
  t.end();
});

test('usernames that look like others are refused', (t) => {
  const refused: Record<string, string[]> = {
    'must not hold invisible characters': [
      'a\u200bb',
      'ada\u202e',
      'a\u3164',
      '\u2800',
      'a\u200d',
      '☎\ufe0f',
      'a\u00adb',
      '\ue000',
    ],
    'must not begin with a combining mark': ['\u0301', '\u0301ada', '\u0e31'],
    'must not have more than four combining marks on a letter, or the same one twice': [
      'a\u0301\u0301',
      'x\u0300\u0301\u0302\u0303\u0304',
      'é\u0301',
    ],
    'must not mix letters of several scripts': ['аda', 'adа', 'αda', 'ada\u0661'],
    'must not be, or look like, a reserved name': [
      'admin',
      'ADMIN',
      ' ａｄｍｉｎ',
      'syste\u0300me',
      'admi\u0307n',
      'adm\u0131n',
    ],
  };
  for (const [message, values] of Object.entries(refused))
    for (const value of values)
      t.strictSame(names.username(value), { ok: false, code: CODES[message], message }, encodeURI(value));
  t.end();
});

test('names and addresses contain no invisible characters', (t) => {
  for (const name of ['Ada Lovelace', 'می‌خواهم', '👩‍🚀', 'аda']) t.match(names.name(name), { ok: true }, name);
  for (const name of ['a\u200bb', '\u3164', '\u2800', 'a\u202eb', '\u200da', 'a\u2028b', 'a \u200d'])
    t.strictSame(
      names.name(name),
      { ok: false, code: 'not_allowed_character', message: 'must not hold invisible characters' },
      encodeURI(name),
    );
  for (const name of ['', ' ', '\u0301', ' \u0301'])
    t.strictSame(names.name(name), { ok: false, code: 'blank', message: 'must not be blank' });
  t.match(names.email('ada@example.com'), { ok: true });
  for (const email of [
    'a\u200bda@example.com',
    'ada@exam\u00adple.com',
    'ada\u200d@example.com',
    'ada\u3164@example.com',
  ])
    t.strictSame(names.email(email), {
      ok: false,
      code: 'not_allowed_character',
      message: 'must not hold invisible characters',
    });
  t.end();
});

test('an accepted value is canonical, and a login finds it', (t) => {
  let taken = 0;
  t.doesNotThrow(() => {
    fc.assert(
      fc.property(anyText, (text) => {
        const parsed = names.username(text);
        if (!parsed.ok) return true;
        taken++;
        const canonical = parseUsername(text);
        const login = parseLoginName(text);
        return (
          canonical.ok &&
          canonical.value === parsed.value &&
          login !== null &&
          'username' in login &&
          login.username === parsed.value
        );
      }),
      { numRuns },
    );
  });
  t.ok(taken > 0, `${taken} were taken`);
  t.end();
});

test('a name older than a rule can still log in', (t) => {
  for (const old of ['admin', 'аdmin', 'a\u200bb', '\u3164\u3164', 'a\u0301\u0301', '\u202eada']) {
    const canonical = parseUsername(old);
    t.ok(canonical.ok && !names.username(old).ok, encodeURI(old));
    t.strictSame(parseLoginName(old), { username: canonical.ok && canonical.value });
  }
  t.strictSame(parseLoginName('a\u200bda@example.com'), { email: 'a\u200bda@example.com' });
  t.ok(parseEmail('a\u200bda@example.com').ok && parseLabel('\u3164').ok);
  t.end();
});

test('a lone surrogate is reported as one', (t) => {
  for (const parse of [names.username, names.name, names.email])
    t.strictSame(parse('a\ud800@b'), {
      ok: false,
      code: 'not_allowed_character',
      message: 'must be well-formed Unicode',
    });
  t.end();
});

test('accepts one script, with characters common to all', (t) => {
  const texts = '42 -_. 🐎 ada-42 zoë łukasz адам7 αλέξης נועה نرگس ᏣᎳᎩ ስም i\u0307'.split(' ');
  for (const text of ['', ...texts]) t.ok(isOfOneScript(text), text);
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
