import { test } from 'tap';
import { isPattern, repeatedUnit } from '../../../src/domain/passwords/patterns.ts';

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
  const ends = [
    '90-=',
    'op[]',
    "kl;'",
    'nm,./',
    '()_+',
    'op{}',
    'kl:"',
    'nm<>?',
    'jklmù',
    'bn,;:!',
    '90ß',
    'iopü',
    'klöä',
  ];
  for (const end of [...ends, 'nm,.-']) t.ok(isPattern(end), end);
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
