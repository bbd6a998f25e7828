import { test } from 'tap';
import { ACCOUNT_FIELDS, fieldsOf, type FieldUse } from '../../src/domain/users/account-fields.ts';
import { readDocument } from '../support/documents.ts';

/** The rows of the first table below a heading: the text of each cell. */
function tableBelow(path: string, heading: string): string[][] {
  const [, section = ''] = readDocument(path).split(`\n${heading}\n`);
  const lines = section.split('\n');
  const first = lines.findIndex((line) => line.startsWith('|'));
  const rows = lines.slice(first + 2);
  return rows
    .slice(
      0,
      rows.findIndex((line) => !line.startsWith('|')),
    )
    .map((line) =>
      line
        .split('|')
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

const namesOf = (use: FieldUse) => fieldsOf(use).map((field) => ACCOUNT_FIELDS[field].json as string);

test('docs/importing.md lists the fields that an import takes', (t) => {
  const listed = tableBelow('docs/importing.md', '## Fields').map(([name = '']) => name.replaceAll('`', ''));
  t.strictSame(listed.sort(), namesOf('import').sort());
  t.end();
});

test('docs/development.md lists the fields that a seed takes', (t) => {
  const listed = tableBelow('docs/development.md', '## Seed').flatMap(([names = '']) =>
    [...names.matchAll(/`(\w+)`/g)].map(([, name = '']) => name),
  );
  t.strictSame(listed.sort(), namesOf('seed').sort());
  t.end();
});

test('docs/services.md says which field is taken and shown where', (t) => {
  const uses: FieldUse[] = ['create', 'change', 'import', 'export'];
  const listed = tableBelow('docs/services.md', '### Fields').map(([name = '', ...cells]) => [
    name.replaceAll('`', ''),
    ...cells.slice(0, uses.length),
  ]);
  const expected = Object.values(ACCOUNT_FIELDS).map(({ json }) => [
    json as string,
    ...uses.map((use) => (namesOf(use).includes(json) ? 'yes' : '')),
  ]);
  t.strictSame(listed.sort(), expected.sort());
  t.end();
});
