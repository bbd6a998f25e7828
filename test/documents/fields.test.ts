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

/** For each table of PostgreSQL, the first row about it in the list of what is kept. */
const KEPT: Record<string, string> = {
  users: 'an account',
  reserved_names: 'the names of a deleted account, as keyed hashes',
  tokens: 'a session that nobody refreshes',
  known_devices: 'a known device',
  password_resets: 'a token of a mail, and one that you hand out',
  mailed_tokens: 'a token of a mail, and one that you hand out',
  wanted_mails: 'a wanted mail, and the address of a notice',
  factors: 'a second factor, and recovery codes',
  passkeys: 'a second factor, and recovery codes',
  recovery_codes: 'a second factor, and recovery codes',
  feed_readers: 'a reader of the feed, with its instance',
  service_clients: 'registered services, and their issuers',
  client_trusts: 'registered services, and their issuers',
  issuer_keys: 'registered services, and their issuers',
  signing_keys: 'when a key was seen and signed',
  installation: 'what replicas agree on',
  installation_marks: 'the marks of Redis',
  seed_mark: 'that a seed has filled the database',
  user_imports: 'how far an import has got',
  refused_import_lines: 'how far an import has got',
};

test('docs/operating.md says of every table for how long its rows stay', (t) => {
  const schema = readDocument('prisma/schema.prisma');
  const tables = [...schema.matchAll(/^model [^]+?@@map\("(\w+)"\)/gm)].map(([, name = '']) => name);
  t.strictSame(Object.keys(KEPT).sort(), tables.sort());
  const rows = tableBelow('docs/operating.md', '## What is kept').map(([what]) => what);
  for (const [table, what] of Object.entries(KEPT)) t.ok(rows.includes(what), `${table}: ${what}`);
  t.end();
});
