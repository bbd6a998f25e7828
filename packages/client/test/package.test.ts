import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { buildSync } from 'esbuild';
import { test } from 'tap';
import { readDocument, ROOT } from '../../../test/support/documents.ts';
import { readBlocks } from '../../../test/support/markdown.ts';
import { aPackageWithClient } from '../../../test/support/packed-packages.ts';
import { toolsMissing } from '../../../test/support/tools.ts';

const skip = toolsMissing('npm', 'tar');

/** What the README’s examples import besides, as far as they use it. */
const OTHERS = `
declare module 'react' {
  export function useSyncExternalStore<T>(subscribe: (changed: () => void) => () => void, now: () => T, server: () => T): T;
}
declare module 'expo-secure-store' {
  export function getItemAsync(key: string, options?: object): Promise<string | null>;
  export function setItemAsync(key: string, value: string, options?: object): Promise<void>;
  export function deleteItemAsync(key: string, options?: object): Promise<void>;
}`;

test('the packed client is small, and what a bundler does not use goes', { skip }, (t) => {
  const folder = aPackageWithClient(t);
  const bundled = (contents: string) => {
    const { outputFiles } = buildSync({
      logLevel: 'silent',
      stdin: { contents, resolveDir: folder },
      write: false,
      bundle: true,
      minify: true,
      format: 'esm',
      platform: 'browser',
    });
    return outputFiles[0]?.contents ?? new Uint8Array();
  };
  const size = gzipSync(bundled(`export * from '@latchkey/client'`), { level: 9 }).length;
  t.comment(`${size} bytes, minified and gzipped`);
  t.ok(size > 1000 && size <= 4096, `${size} bytes`);
  t.equal(bundled(`import '@latchkey/client'`).length, 0);
  const passkeys = gzipSync(bundled(`export * from '@latchkey/client/passkey'`), { level: 9 }).length;
  t.ok(passkeys > 500 && passkeys <= 2048, `passkeys: ${passkeys} bytes`);
  t.end();
});

test('the README’s examples compile strictly in an empty folder', { skip }, (t) => {
  const folder = aPackageWithClient(t);
  const blocks = readBlocks(readDocument('packages/client/README.md')).filter(
    ({ language }) => language === 'ts',
  );
  t.equal(blocks.length, 5);
  writeFileSync(join(folder, 'page.ts'), blocks.map(({ text }) => text).join('\n'));
  writeFileSync(join(folder, 'others.d.ts'), OTHERS);
  for (const module of ['NodeNext', 'Preserve']) {
    const strict = ['--strict', '--exactOptionalPropertyTypes', '--noEmit', '--lib', 'ES2022,DOM'];
    const options = [...strict, '--target', 'ES2022', '--module', module, 'page.ts', 'others.d.ts'];
    const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
    const { stdout } = spawnSync(process.execPath, [tsc, ...options], { cwd: folder, encoding: 'utf8' });
    t.equal(stdout, '', module);
  }
  t.end();
});
