import { test } from 'tap';
import { fold, stemsOf, undoSubstitutions } from '../../../src/domain/passwords/guess-forms.ts';

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
