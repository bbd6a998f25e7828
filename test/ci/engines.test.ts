// suite: tools
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { minVersion, satisfies } from 'semver';
import { test } from 'tap';

const ROOT = new URL('../../../', import.meta.url).pathname;

/**
 * Development packages that refuse the oldest Node, and why they stay. npm warns about each at `npm ci`.
 * Prisma's CLI requires `@prisma/streams-local` for `prisma dev`, which this project does not use.
 */
const REFUSING = ['node_modules/@prisma/streams-local'];

interface LockFile {
  packages: Record<string, { dev?: boolean; devOptional?: boolean; engines?: { node?: string } }>;
}

const { engines } = readJson('package.json') as { engines: { node: string } };
const oldest = minVersion(engines.node)?.version ?? '';

test('packages accept the oldest Node that this project accepts', (t) => {
  const { packages } = readJson('package-lock.json') as LockFile;
  const refusing = Object.entries(packages)
    .filter(([, entry]) => entry.engines?.node !== undefined && !satisfies(oldest, entry.engines.node))
    .map(([path]) => path);
  t.equal(oldest, '20.19.0');
  t.strictSame(refusing, REFUSING);
  for (const path of REFUSING) {
    t.ok(packages[path]?.dev ?? packages[path]?.devOptional, `--omit=dev --omit=optional omits ${path}`);
  }
  t.end();
});

function readJson(name: string): unknown {
  return JSON.parse(readFileSync(join(ROOT, name), 'utf8'));
}
