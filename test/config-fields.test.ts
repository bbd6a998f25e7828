import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { FIELDS } from '../src/config-fields.ts';
import { codeOf, readTable } from './support/markdown.ts';

test('the README’s table of variables lists exactly those that there are, with their defaults', (t) => {
  const rows = readTable(readFileSync('README.md', 'utf8'), /^\| *variable *\| *default *\|/i);
  const listed = rows.flatMap(([names = '', defaults = '']) => {
    const each = codeOf(names);
    // `A`, `B` share a row as their defaults do; a default in words stands alone.
    const values = each.length === 1 ? [defaults] : defaults.split(',');
    return each.map((name, i) => `${name}: ${plain(values[i] ?? '')}`);
  });
  const known = Object.entries(FIELDS).map(([name, { shown }]) => `${name}: ${plain(shown)}`);
  t.strictSame(listed.sort(), known.sort());
  t.end();
});

function plain(text: string): string {
  return text.replaceAll('`', '').trim();
}
