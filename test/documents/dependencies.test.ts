import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import { readDocument, ROOT } from '../support/documents.ts';
import { codeOf, readTable } from '../support/markdown.ts';

/** Licences that we may ship: each allows use without conditions on the rest of the product. */
const ALLOWED = [
  '0BSD',
  'Apache-2.0',
  'BlueOak-1.0.0',
  'BSD-2-Clause',
  'BSD-3-Clause',
  'ISC',
  'MIT',
  'Unlicense',
];

/** Sections of docs/dependencies.md, and the file and field that each lists. */
const SECTIONS = {
  'In the image': ['package.json', 'dependencies'],
  'In `@latchkey/verifier`': ['packages/verifier/package.json', 'dependencies'],
  'In `@latchkey/agent`': ['packages/agent/package.json', 'dependencies'],
  'In `@latchkey/load`': ['packages/load/package.json', 'dependencies'],
  Optional: ['package.json', 'optionalDependencies'],
  'For development and tests': ['package.json', 'devDependencies'],
  'In `examples/spa`': ['examples/spa/package.json', 'dependencies'],
  'For the test of a generated client': ['test/typed-client/package.json', 'devDependencies'],
} as const;

interface LockEntry {
  dependencies?: Record<string, string>;
  dev?: boolean;
  optional?: boolean;
  devOptional?: boolean;
  peer?: boolean;
  license?: string;
}
const { packages } = readJson('package-lock.json') as { packages: Record<string, LockEntry> };

test('docs/dependencies.md lists every dependency, with its licence', (t) => {
  for (const [title, [path, key]] of Object.entries(SECTIONS)) {
    const manifest = readJson(path) as Record<string, Record<string, string>>;
    const [, section = ''] = readDocument('docs/dependencies.md').split(`## ${title}\n`);
    const rows = readTable(section, /^\| package/);
    t.strictSame(
      rows.map(([name = '']) => codeOf(name)[0]),
      Object.keys(manifest[key] ?? {}),
      title,
    );
    for (const [name = '', purpose, licence] of rows) {
      const below = `node_modules/${codeOf(name)[0] ?? ''}`;
      const own = join(dirname(path), below);
      t.equal(licence, licenceOf(existsSync(join(ROOT, own)) ? own : below), name);
      t.ok(purpose, `${name} has a purpose`);
    }
  }
  t.end();
});

test('every package of the image has an allowed licence', (t) => {
  const shipped = Object.entries(packages).filter(
    ([path, { dev, optional, devOptional, peer }]) =>
      path !== '' && !dev && !optional && !devOptional && !peer,
  );
  t.ok(shipped.length > 100, `${shipped.length} packages`);
  const refused = shipped.map(([path]) => `${path}: ${licenceOf(path)}`).filter((line) => !isAllowed(line));
  t.strictSame(refused, []);
  t.end();
});

/** A package and all that it needs, by their paths in the lock file. */
function closureOf(path: string, seen = new Set<string>()): Set<string> {
  if (seen.has(path)) return seen;
  seen.add(path);
  for (const name of Object.keys(packages[path]?.dependencies ?? {})) {
    let folder = `${path}/`;
    // As Node looks for it: from the package's own folder upwards.
    while (folder !== '' && !(`${folder}node_modules/${name}` in packages))
      folder = folder.slice(0, Math.max(0, folder.lastIndexOf('node_modules/', folder.length - 2)));
    closureOf(`${folder}node_modules/${name}`, seen);
  }
  return seen;
}

test('docs/dependencies.md names what the verifier of passkeys brings, and each is there once', (t) => {
  const [, text = ''] = readDocument('docs/dependencies.md').split('`@simplewebauthn/server` brings');
  const [paragraph = ''] = text.split('\n\n');
  const brought = [...closureOf('node_modules/@simplewebauthn/server')].slice(1);
  const names = brought.map((path) => path.slice(path.lastIndexOf('node_modules/') + 13));
  t.match(paragraph, new RegExp(`^ these ${brought.length} packages`));
  for (const name of names) t.ok(paragraph.includes(`\`${name}\``), name);
  // A second copy has a register of types of its own, in which the others' types are missing.
  const copies = Object.keys(packages).filter((path) => path.endsWith('node_modules/@peculiar/asn1-schema'));
  t.strictSame(copies, ['node_modules/@peculiar/asn1-schema']);
  t.end();
});

test('each lock file has an .npmrc beside it, so that no install runs a dependency’s scripts', (t) => {
  const list = ['ls-files', '--cached', '--others', '--exclude-standard', '*package-lock.json'];
  const locks = execFileSync('git', list, { cwd: ROOT, encoding: 'utf8' }).trim().split('\n');
  t.ok(locks.includes('package-lock.json') && locks.length > 1, locks.join());
  // npm reads the .npmrc of the folder that it installs into, and of none above it.
  for (const lock of locks) {
    const npmrc = join(ROOT, dirname(lock), '.npmrc');
    t.match(existsSync(npmrc) && readFileSync(npmrc, 'utf8'), /^ignore-scripts=true$/m, npmrc);
  }
  t.end();
});

function isAllowed(line: string): boolean {
  return ALLOWED.some((licence) => line.endsWith(`: ${licence}`));
}

/** The licence in the package; for packages of other systems, which are not installed, the one in the lock file. */
function licenceOf(path: string): string {
  try {
    const { license } = readJson(join(path, 'package.json')) as { license?: unknown };
    return typeof license === 'string' ? license : 'none';
  } catch {
    return packages[path]?.license ?? 'none';
  }
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
}
