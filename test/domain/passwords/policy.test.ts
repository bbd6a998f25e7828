import { test } from 'tap';
import { normalisePassword, parsePassword, refuseGuessable } from '../../../src/domain/passwords/policy.ts';

const COMPOSED = 'caf\u00e9';
const DECOMPOSED = 'cafe\u0301';
const owner = { username: 'ada', name: 'Ada Lovelace', email: 'countess@example.com' };
const isCommon = (password: string) => password === 'password1';

test('one password typed on two keyboards is one password', (t) => {
  t.not(COMPOSED, DECOMPOSED);
  t.equal(normalisePassword(DECOMPOSED), COMPOSED);
  t.strictSame(parsePassword(DECOMPOSED, 4), { ok: true, value: COMPOSED });
  t.equal(normalisePassword('ﬁ½'), 'ﬁ½', 'but not more alike than they look (NFC, not NFKC)');
  t.end();
});

test('a password is as long as its code points after normalisation', (t) => {
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

test('any characters will do, but not none', (t) => {
  for (const password of [
    'correct horse battery',
    '\u0000\u0001\u0002\u0003\n\t\r\u007f',
    '  eight ',
    '12345678',
  ]) {
    t.strictSame(parsePassword(password, 8), { ok: true, value: password }, 'and it is not trimmed');
  }
  for (const blank of [' '.repeat(8), '\t\n\u00a0\u3000    ']) {
    t.strictSame(parsePassword(blank, 8), { ok: false, message: 'must not be blank' });
  }
  t.end();
});

test('a lone surrogate is no character', (t) => {
  for (const lone of ['password\ud800', '\udc00password', 'pass\udc00\ud800word']) {
    t.strictSame(parsePassword(lone, 8), { ok: false, message: 'must be well-formed Unicode' });
  }
  t.end();
});

test('the first guesses are refused, however they are written', (t) => {
  for (const password of ['password1', 'PASSWORD1', ' Password1 ', 'ｐａｓｓｗｏｒｄ１']) {
    t.equal(refuseGuessable(password, owner, isCommon), 'is one of the commonest passwords', password);
  }
  const own = ['ada', 'ADA', 'ada lovelace', ' Ada Lovelace ', 'countess@example.com', 'COUNTESS', 'ａｄａ'];
  for (const password of own) {
    t.equal(refuseGuessable(password, owner, isCommon), 'must not be your own name or address', password);
  }
  for (const password of ['ada1', 'lovelace', 'example.com', 'password12']) {
    t.equal(refuseGuessable(password, owner, isCommon), null, password);
  }
  t.end();
});
