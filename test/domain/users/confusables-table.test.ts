import { join } from 'node:path';
import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { CONFUSABLES, CONFUSABLES_VERSION } from '../../../src/domain/users/confusables-table.ts';
import { parseUsername } from '../../../src/domain/identifiers.ts';

interface Script {
  renderTable: () => string;
  readIcu: (binary: Buffer) => Map<string, string>;
  reduced: (pairs: Map<string, string>) => Map<string, string>;
}

const ROOT = new URL('../../../../', import.meta.url).pathname;
const { renderTable, readIcu, reduced } = (await import(join(ROOT, 'scripts/confusables.mjs'))) as Script;

/** A distribution's Node may load ICU from a shared library. */
const hasData = readFileSync(process.execPath).includes('Cfu ');
const isSameUnicode = hasData && process.versions.unicode === CONFUSABLES_VERSION;

test(
  'the table equals the script’s output for this Node’s data',
  { skip: isSameUnicode ? false : `the table is of Unicode ${CONFUSABLES_VERSION}` },
  (t) => {
    t.equal(readFileSync(join(ROOT, 'src/domain/users/confusables-table.ts'), 'utf8'), renderTable());
    t.end();
  },
);

test('the ICU data is parsed correctly', { skip: hasData ? false : 'no data in this Node' }, (t) => {
  const pairs = readIcu(readFileSync(process.execPath));
  for (const [from, to] of ['аa', 'рp', '1l'].map((pair) => Array.from(pair) as [string, string]))
    t.equal(pairs.get(from), to, from);
  t.equal(pairs.get('m'), 'rn', 'a text of several characters');
  t.equal(pairs.get('a'), undefined);
  t.ok(pairs.size > 6000);
  t.throws(() => readIcu(Buffer.from('nothing like it')), /no ICU confusables/);
  t.end();
});

test('only characters of canonical usernames are kept, each mapped to the end of its chain', (t) => {
  const table = reduced(
    new Map([
      ['m', 'rn'],
      ['Ⅿ', 'M'],
      ['а', 'a'],
      ['ӕ', 'аε'],
      ['ꓮ', 'A'],
      ['é', 'e'],
    ]),
  );
  t.strictSame(
    [...table],
    [
      ['а', 'a'],
      ['ӕ', 'aε'],
      ['ꓮ', 'a'],
    ],
  );
  t.throws(
    () =>
      reduced(
        new Map([
          ['а', 'бб'],
          ['б', 'а'],
        ]),
      ),
    /no prototype/,
  );
  t.end();
});

test('every entry is for a character that a username may contain', (t) => {
  const of = (hex: string) => String.fromCodePoint(...hex.split('.').map((one) => parseInt(one, 16)));
  const seen = new Set<string>();
  for (const entry of CONFUSABLES.trim().split(/\s/)) {
    const [, characters = ''] = entry.split(':');
    for (const character of characters.split(',').map(of)) {
      if (seen.has(character) || character <= '\x7f') t.fail(`${entry} has a forbidden character`);
      seen.add(character);
      const parsed = parseUsername(`x${character}`);
      if (!parsed.ok) t.fail(`${entry} is useless`);
    }
  }
  t.ok(seen.size > 2000);
  t.end();
});
