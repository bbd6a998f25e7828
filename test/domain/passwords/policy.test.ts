import { test } from 'tap';
import {
  normalisePassword,
  parsePassword,
  refuseGuessable,
  requireUnguessable,
  fold,
  stemsOf,
  undoSubstitutions,
  isPattern,
  repeatedUnit,
} from '../../../src/domain/passwords/policy.ts';

const COMPOSED = 'caf\u00e9';
const DECOMPOSED = 'cafe\u0301';
const owner = { username: 'ada', name: 'Ada Lovelace', email: 'countess@example.com' };
/** `password1` with its substitutions undone. */
const isCommon = (form: string) => form === 'passwordi';

test('a password typed on two keyboards is the same password', (t) => {
  t.not(COMPOSED, DECOMPOSED);
  t.equal(normalisePassword(DECOMPOSED), COMPOSED);
  t.strictSame(parsePassword(DECOMPOSED, 4), { ok: true, value: COMPOSED });
  t.equal(normalisePassword('ﬁ½'), 'ﬁ½', 'canonical equivalence only (NFC, not NFKC)');
  t.end();
});

test('the length of a password is its code points after normalisation', (t) => {
  t.strictSame(parsePassword(DECOMPOSED, 5), {
    ok: false,
    code: 'too_short',
    params: { min: 5 },
    message: 'must have at least 5 characters',
  });
  t.match(parsePassword('🔑'.repeat(8), 8), { ok: true });
  t.match(parsePassword('🔑'.repeat(7), 8), { ok: false }, 'fourteen UTF-16 units, seven characters');
  t.match(parsePassword('🔑'.repeat(1024), 8), { ok: true });
  t.strictSame(parsePassword('x'.repeat(1025), 8), {
    ok: false,
    code: 'too_long',
    params: { max: 1024 },
    message: 'must have at most 1024 characters',
  });
  t.match(parsePassword('e\u0301'.repeat(1024), 8), { ok: true });
  t.end();
});

test('any characters are allowed, but a password is not empty', (t) => {
  for (const password of [
    'correct horse battery',
    '\u0000\u0001\u0002\u0003\n\t\r\u007f',
    '  eight ',
    '12345678',
  ]) {
    t.strictSame(parsePassword(password, 8), { ok: true, value: password }, 'passwords are not trimmed');
  }
  for (const blank of [' '.repeat(8), '\t\n\u00a0\u3000    ']) {
    t.strictSame(parsePassword(blank, 8), { ok: false, code: 'blank', message: 'must not be blank' });
  }
  t.end();
});

test('a lone surrogate is refused', (t) => {
  for (const lone of ['password\ud800', '\udc00password', 'pass\udc00\ud800word']) {
    t.strictSame(parsePassword(lone, 8), {
      ok: false,
      code: 'not_allowed_character',
      message: 'must be well-formed Unicode',
    });
  }
  t.end();
});

const COMMON = { code: 'common', message: 'is one of the commonest passwords, or too close to one' };
const PATTERN = { code: 'pattern', message: 'is a simple pattern, such as a repetition or a row of keys' };
const PERSONAL = { code: 'personal', message: 'must not be your own name or address' };

test('the most likely guesses are refused, in any spelling', (t) => {
  for (const password of ['password1', 'PASSWORD1', ' Password1 ', 'ｐａｓｓｗｏｒｄ１']) {
    t.strictSame(refuseGuessable(password, owner, isCommon), COMMON, password);
  }
  const own = ['ada', 'ADA', 'ada lovelace', ' Ada Lovelace ', 'countess@example.com', 'COUNTESS', 'ａｄａ'];
  own.push('countess1', 'AdaLovelace2026', 'ada lovelace!', 'countess@example.com1');
  for (const password of own) {
    t.strictSame(refuseGuessable(password, owner, isCommon), PERSONAL, password);
  }
  for (const password of ['ada1', 'lovelace', 'example.com', 'passwords']) {
    t.equal(refuseGuessable(password, owner, isCommon), null, password);
  }
  t.end();
});

test('a listed password is refused with substitutions, decoration, and twice', (t) => {
  const isListed = (form: string) => form === 'dragon' || form === 'password';
  for (const password of [
    'Passw0rd!',
    'P@$$w0rd2024!',
    'Drag0n12',
    'dragon 1999',
    'dragondragon',
    'Dr4gonDr4gon7',
  ]) {
    t.strictSame(refuseGuessable(password, owner, isListed), COMMON, password);
  }
  for (const password of [
    'dragon tamer',
    'dragon123456',
    '12dragon',
    'dragon1x',
    'dragondragonfly',
    'my password',
  ]) {
    t.equal(refuseGuessable(password, owner, isListed), null, `${password} is another password`);
  }
  t.end();
});

test('patterns are refused, with decoration as well', (t) => {
  const none = () => false;
  for (const password of [
    'aaaaaaaa',
    'Ü'.repeat(1024),
    'AbcAbcAbc',
    '12345678!',
    'QWERTYuiop1',
    '1Qaz2Wsx#99',
  ]) {
    t.strictSame(refuseGuessable(password, owner, none), PATTERN, password.slice(0, 12));
  }
  t.end();
});

test('the error names the field', (t) => {
  requireUnguessable('difference engine', owner, isCommon);
  const refused = (path: string) => ({ code: 'password_refused', errors: [{ path, ...COMMON }] });
  t.throws(() => {
    requireUnguessable('password1', owner, isCommon);
  }, refused('/password'));
  t.throws(() => {
    requireUnguessable('password1', owner, isCommon, '/new_password');
  }, refused('/new_password'));
  t.end();
});

test('substitutions are undone, and i, l and 1 count as one letter', (t) => {
  for (const spelling of ['p@ssword', 'pa$$w0rd', 'p455w0rd', 'passw0rd'])
    t.equal(undoSubstitutions(spelling), 'password', spelling);
  t.equal(undoSubstitutions('1!3|e7'), 'iieiet');
  t.equal(undoSubstitutions('hello'), undoSubstitutions('he110'));
  t.equal(undoSubstitutions('größe 2 6 8 9'), 'größe 2 6 8 9', 'other characters stay');
  t.end();
});

test('case, compatibility forms and spaces at the ends make no other guess', (t) => {
  t.equal(fold(' ＰassWord '), 'password');
  t.equal(fold('CAFE\u0301'), 'caf\u00e9');
  t.end();
});

test('up to five digits and signs at the end are decoration, one by one', (t) => {
  t.strictSame(stemsOf('monkey12!'), ['monkey12!', 'monkey12', 'monkey1', 'monkey']);
  t.strictSame(stemsOf('passw0rd!'), ['passw0rd!', 'passw0rd'], 'a letter ends it');
  t.strictSame(stemsOf('monkey123456').at(-1), 'monkey1', 'five at most');
  t.strictSame(stemsOf('ab1234'), ['ab1234', 'ab123', 'ab12'], 'four characters stay');
  t.strictSame(stemsOf('monkey🔑🔑'), ['monkey🔑🔑', 'monkey🔑', 'monkey'], 'no character is cut in two');
  t.strictSame(stemsOf('correct horse'), ['correct horse']);
  t.end();
});

test('a number is not cut, but loses the signs behind it', (t) => {
  t.strictSame(stemsOf('2718281828'), ['2718281828']);
  t.strictSame(stemsOf('12345678!?'), ['12345678!?', '12345678!', '12345678']);
  t.end();
});

test('a character or a short unit that is repeated is a pattern, at any length', (t) => {
  for (const unit of ['a', ' ', '🐎', 'ü', 'ab', 'abc', 'x7k9'])
    for (const count of [2, 8, 1024 / Array.from(unit).length])
      t.ok(isPattern(unit.repeat(count)), `${unit} ${count} times`);
  t.ok(isPattern('x7kx7kx7'), 'the last copy is cut off');
  t.notOk(isPattern('x7k9qx7k9q'), 'a unit of five');
  t.notOk(isPattern('aaaaaaab'));
  t.notOk(isPattern(`${'a'.repeat(1023)}b`));
  t.end();
});

test('the unit of a repetition is the shortest', (t) => {
  t.equal(repeatedUnit('aaaa'), 'a');
  t.equal(repeatedUnit('monkeymonkey'), 'monkey');
  t.equal(repeatedUnit('monkeymonkeymon'), 'monkey');
  t.equal(repeatedUnit('monkey'), null);
  t.equal(repeatedUnit(''), null);
  const numbers = Array.from({ length: 65 }, (_, i) => String.fromCodePoint(0x4e00 + i)).join('');
  t.equal(repeatedUnit(numbers.slice(1).repeat(2)), numbers.slice(1), '64 characters at most');
  t.equal(repeatedUnit(numbers.repeat(2)), null);
  t.equal(repeatedUnit('a'), null);
  t.end();
});

test('sequences and rows of keys are patterns, in both directions', (t) => {
  const rows = ['12345678', '1234567890', '01234567', 'abcdefgh', 'qwertyuiop', 'asdfghjkl', 'zxcvbnm'];
  rows.push('azertyuiop', 'qsdfghjklm', 'wxcvbn', 'qwertzuiop', 'asdfghjklöä', 'yxcvbnm', '!@#$%^&*');
  for (const row of rows) {
    t.ok(isPattern(row), row);
    t.ok(isPattern(Array.from(row).reverse().join('')), `${row} backwards`);
  }
  const ends = '90-= op[] kl;\' nm,./ ()_+ op{} kl:" nm<>? jklmù bn,;:! 90ß iopü klöä nm,.-'.split(' ');
  for (const end of ends) t.ok(isPattern(end), end);
  t.notOk(isPattern('789009'), 'two rows');
  t.end();
});

test('several runs of keys are a pattern, columns as well', (t) => {
  for (const walk of [
    '1qaz2wsx',
    '!qaz@wsx',
    '1aqw2zsx',
    '1qay2wsx',
    'qwerasdf',
    'qweasdzxc',
    'abc12345',
    'qwertyrewq',
  ])
    t.ok(isPattern(walk), walk);
  t.end();
});

test('words with neighbouring keys in them are no pattern', (t) => {
  const words = [
    'difference',
    'property',
    'power tower',
    'typewriter',
    'qwertyx',
    'xabcdefg',
    '1qaz2w',
    '31415926',
  ];
  for (const word of words) t.notOk(isPattern(word), word);
  t.end();
});
