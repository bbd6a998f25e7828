import { test } from 'tap';
import {
  normalisePassword,
  parsePassword,
  refuseGuessable,
  requireUnguessable,
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
  t.strictSame(parsePassword(DECOMPOSED, 5), { ok: false, message: 'must have at least 5 characters' });
  t.match(parsePassword('🔑'.repeat(8), 8), { ok: true });
  t.match(parsePassword('🔑'.repeat(7), 8), { ok: false }, 'fourteen UTF-16 units, seven characters');
  t.match(parsePassword('🔑'.repeat(1024), 8), { ok: true });
  t.strictSame(parsePassword('x'.repeat(1025), 8), {
    ok: false,
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
    t.strictSame(parsePassword(blank, 8), { ok: false, message: 'must not be blank' });
  }
  t.end();
});

test('a lone surrogate is refused', (t) => {
  for (const lone of ['password\ud800', '\udc00password', 'pass\udc00\ud800word']) {
    t.strictSame(parsePassword(lone, 8), { ok: false, message: 'must be well-formed Unicode' });
  }
  t.end();
});

const COMMON = 'is one of the commonest passwords, or too close to one';
const PATTERN = 'is a simple pattern, such as a repetition or a row of keys';

test('the most likely guesses are refused, in any spelling', (t) => {
  for (const password of ['password1', 'PASSWORD1', ' Password1 ', 'ｐａｓｓｗｏｒｄ１']) {
    t.equal(refuseGuessable(password, owner, isCommon), COMMON, password);
  }
  const own = ['ada', 'ADA', 'ada lovelace', ' Ada Lovelace ', 'countess@example.com', 'COUNTESS', 'ａｄａ'];
  own.push('countess1', 'AdaLovelace2026', 'ada lovelace!', 'countess@example.com1');
  for (const password of own) {
    t.equal(refuseGuessable(password, owner, isCommon), 'must not be your own name or address', password);
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
    t.equal(refuseGuessable(password, owner, isListed), COMMON, password);
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
    t.equal(refuseGuessable(password, owner, none), PATTERN, password.slice(0, 12));
  }
  t.end();
});

test('the error names the field', (t) => {
  requireUnguessable('difference engine', owner, isCommon);
  const refused = (path: string) => ({ code: 'password_refused', errors: [{ path, message: COMMON }] });
  t.throws(() => {
    requireUnguessable('password1', owner, isCommon);
  }, refused('/password'));
  t.throws(() => {
    requireUnguessable('password1', owner, isCommon, '/new_password');
  }, refused('/new_password'));
  t.end();
});
