import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readDocument, ROOT } from '../../../test/support/documents.ts';
import { codeOf, readTable } from '../../../test/support/markdown.ts';

interface Manifest {
  dependencies: Record<string, string>;
}
interface Lock {
  packages: Record<string, { version?: string; license?: string; resolved?: string }>;
}

const read = (name: string): unknown =>
  JSON.parse(readFileSync(join(ROOT, 'lab/bench/peers', name), 'utf8')) as unknown;
const { dependencies } = read('package.json') as Manifest;
const { packages } = read('package-lock.json') as Lock;

test('docs/dependencies.md lists the packages of the peers, with their licences', (t) => {
  const [, section = ''] = readDocument('docs/dependencies.md').split('## For the comparison with peers\n');
  const rows = readTable(section, /^\| package/).map(([name = '', , licence]) => [codeOf(name)[0], licence]);
  t.strictSame(
    rows,
    Object.keys(dependencies).map((name) => [name, packages[`node_modules/${name}`]?.license]),
  );
  t.end();
});

test('the peers are pinned, and their lock file names no registry', (t) => {
  for (const [name, version] of Object.entries(dependencies))
    t.equal(packages[`node_modules/${name}`]?.version, version, name);
  t.strictSame(
    Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined),
    [],
  );
  t.end();
});
