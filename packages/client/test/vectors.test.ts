import { test } from 'tap';
import { createClient } from '../src/main.ts';
import { clientsDocument, readVectors } from './clients-document.ts';
import { readDocument } from '../../../test/support/documents.ts';
import { aBareHost, loadBare } from './bare-context.ts';
import { expectedOf, runVector, type Host, type Range } from './run-vector.ts';

const vectors = readVectors();

test('every short row holds in Node, where waits take their time', async (t) => {
  const host: Host = {
    createClient,
    now: Date.now,
    passed: () => performance.now(),
    respond: (status, headers, text) => new Response(text, { status, headers }),
    isAsynchronous: false,
  };
  const run = vectors
    .filter(({ long }) => !long)
    .map(async (row) => ({ row, ...(await runVector(row, host)) }));
  for (const { row, seen } of await Promise.all(run)) t.strictSame(seen, expectedOf(row), row.id);
});

for (const random of [0, 0.5, 0.999]) {
  test(`every row holds with what React Native has, and waits as it says (${random})`, async (t) => {
    for (const row of vectors) {
      const { host, finish, passed } = aBareHost(random);
      const { seen, waits } = await finish(runVector(row, host));
      t.strictSame(seen, expectedOf(row), row.id);
      const isExact = (seconds: number, [least, most]: Range) =>
        Math.abs(seconds - least - random * (most - least)) < 0.001;
      for (const { waited, allowed } of waits) t.ok(isExact(waited, allowed), `${row.id}: ${waited} s`);
      // Node and pages run the short rows only.
      t.ok(row.long ? isExact(passed(), row.long) : passed() < 3, `${row.id} took ${passed()} s`);
    }
  });
}

test('to import the library reads no global and adds none', (t) => {
  const { main, read, added } = loadBare({});
  t.type(main.createClient, 'function');
  t.strictSame([read, added], [[], []]);
  // They would notice.
  const client = main.createClient({ url: 'https://auth.example' });
  void client.onChange(() => undefined);
  t.strictSame([...new Set(read)], ['addEventListener']);
  t.end();
});

test('rows have ids of their own, and cells that fit a table', (t) => {
  t.equal(new Set(vectors.map(({ id }) => id)).size, vectors.length);
  for (const row of vectors) for (const cell of [row.happened, row.do]) t.ok(cell.length <= 100, cell);
  t.end();
});

test('docs/clients.md has the rows as npm run docs writes them', async (t) => {
  const text = readDocument('docs/clients.md');
  t.equal(text, await clientsDocument(text));
  t.match(text, /^\| `logout-expired` +\| At logout, /m);
  t.end();
});
