import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { test } from 'tap';
import { refuseGuessable } from '../../../src/domain/passwords/policy.ts';
import { DIGEST_BYTES, loadCommonPasswords } from '../../../src/infra/crypto/common-passwords.ts';
import { testScale } from '../../support/environment.ts';

/** In dist/: what the build copied. */
const FOLDER = new URL('../../../src/infra/crypto/breached-passwords/', import.meta.url);
const numRuns = Math.ceil(1000 * testScale);
const owner = { username: 'ada', name: 'Ada Lovelace', email: 'countess@example.com' };
const isCommon = loadCommonPasswords();

const LISTED = [
  'password',
  'iloveyou',
  'dragon',
  'monkey',
  'letmein',
  'sunshine',
  'football',
  'trustno1',
  'superman',
];
const SPELLINGS: Record<string, string> = {
  a: 'aA@4',
  e: 'eE3',
  i: 'iI1!',
  l: 'lL1',
  o: 'oO0',
  s: 'sS$5',
  t: 'tT7',
};

test('common passwords are on the list, a sentence is not', (t) => {
  for (const form of ['password', 'qwertyuiop', 'iioveyou']) t.equal(isCommon(form), true, form);
  for (const form of ['correct horse battery stapie', '', 'Password']) t.equal(isCommon(form), false, form);
  t.end();
});

test('the list has over 100,000 entries, ascending, and is the one that its notice describes', (t) => {
  const list = readFileSync(new URL('digests.bin', FOLDER));
  const notice = readFileSync(new URL('README.md', FOLDER), 'utf8');
  const count = list.length / DIGEST_BYTES;
  t.ok(Number.isInteger(count) && count >= 100_000, String(count));
  t.match(notice, count.toLocaleString('en'));
  t.match(notice, createHash('sha256').update(list).digest('hex'));
  for (let at = DIGEST_BYTES; at < list.length; at += DIGEST_BYTES)
    if (list.readUIntBE(at, DIGEST_BYTES) <= list.readUIntBE(at - DIGEST_BYTES, DIGEST_BYTES))
      t.fail(`not ascending at ${at}`);
  t.end();
});

test('a listed password stays refused in any case, with substitutions and up to five digits or signs', (t) => {
  const spelt = (word: string) =>
    fc
      .tuple(
        ...Array.from(word).map((letter) =>
          fc.constantFrom(...Array.from(SPELLINGS[letter] ?? letter + letter.toUpperCase())),
        ),
      )
      .map((letters) => letters.join(''));
  const tail = fc.string({ unit: fc.constantFrom(...Array.from('0123456789!?.#-_* ')), maxLength: 5 });
  const disguised = fc.tuple(fc.constantFrom(...LISTED).chain(spelt), tail).map(([word, end]) => word + end);
  fc.assert(
    fc.property(disguised, (password) => refuseGuessable(password, owner, isCommon) !== null),
    { numRuns },
  );
  t.pass(`${numRuns} passwords`);
  t.end();
});

test('random passwords of 16 characters and passphrases of four words are accepted', (t) => {
  const ascii = fc.string({ unit: 'grapheme-ascii', minLength: 16, maxLength: 16 });
  const word = fc.constantFrom(...LISTED, 'correct', 'horse', 'battery', 'staple');
  const phrase = fc.uniqueArray(word, { minLength: 4, maxLength: 4 }).map((words) => words.join(' '));
  fc.assert(
    fc.property(
      fc.oneof(phrase, random16(ascii)),
      (password) => refuseGuessable(password, owner, isCommon) === null,
    ),
    { numRuns },
  );
  t.pass(`${numRuns} passwords`);
  t.end();
});

/** fast-check likes repetitions: those with few different characters are not random. */
function random16(ascii: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return ascii.filter((text) => new Set(text.trim()).size >= 8);
}
