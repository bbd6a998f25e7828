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
import { typeErrors } from '../../../test/support/type-errors.ts';

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
  t.ok(size > 1000 && size <= 4608, `${size} bytes`);
  t.equal(bundled(`import '@latchkey/client'`).length, 0);
  const passkeys = gzipSync(bundled(`export * from '@latchkey/client/passkey'`), { level: 9 }).length;
  t.ok(passkeys > 500 && passkeys <= 2048, `passkeys: ${passkeys} bytes`);
  const page = new TextDecoder().decode(bundled(`export * from '@latchkey/client'`));
  const testing = new TextDecoder().decode(bundled(`export * from '@latchkey/client/testing'`));
  t.strictSame(
    [page, testing].map((text) => text.includes('latchkey.test')),
    [false, true],
  );
  t.end();
});

/** What `client.request\` takes and answers, and mistakes, each of which must not compile. */
const TYPED = `
import { createClient, LatchkeyError, type Client, type Operations } from '@latchkey/client';
import { testServer } from '@latchkey/client/testing';
const client: Client = createClient({ url: 'https://id.example.com', storage: () => localStorage, onError: (error) => error.code });
const id = 7 as number;
const [path, method] = ['/api/x' as string, 'GET' as string];
const names: string[] = (await client.request('GET', '/api/user/tokens')).tokens.map(({ name }) => name);
const next: string | null = (await client.request('GET', \`/api/user/tokens?ended_before=\${names[0]}\`)).ended_next;
const token: string = (await client.request('POST', '/api/user/tokens', { name: 'x', scopes: ['a'] as const, audience: undefined })).token;
const ended: number = (await client.request('DELETE', '/api/user/tokens?keep=current')).ended;
const msg: string = (await client.request('DELETE', \`/api/user/tokens/\${id}\`)).msg;
const unknown: unknown[] = [await client.request(method, path, { any: 1 }), await client.request('GET', '/api/other')];
const loose: (method: string, path: string, body?: unknown) => Promise<unknown> = client.request;
const profile: Operations['/api/user']['GET']['answer'] = await client.request('GET', '/api/user');
const server = testServer({ users: [{ username: 'ada', password: 'x' }] });
server.refuse('createLongLivedToken', 'login_too_old');
server.client({ storage: null }).onChange(() => server.end(id));
export { names, next, token, ended, msg, unknown, loose, profile, LatchkeyError };
`;
const MISTAKES: readonly [string, string][] = [
  [`name: 'x', scopes`, `nam: 'x', scopes`],
  [`'/api/user/tokens', { name: 'x', scopes: ['a'] as const, audience: undefined }`, `'/api/user/tokens'`],
  [`client.request('GET', '/api/user');`, `client.request('GET', '/api/user', {});`],
  [`.tokens.map(({ name })`, `.tokens.map(({ device })`],
  [
    `request('DELETE', \`/api/user/tokens/\${id}\`)).msg`,
    `request('DELETE', \`/api/user/tokens/\${path}\`)).msg`,
  ],
  [`'/api/user/tokens?keep=current'`, `'/api/user/tokens?keep=all'`],
  [`'login_too_old'`, `'factor_unknown'`],
  [`storage: () => localStorage`, `storag: () => localStorage`],
];

test('request is typed by method and path', { skip }, (t) => {
  const folder = aPackageWithClient(t);
  const programs = [
    TYPED,
    ...MISTAKES.map(([find, replace]) => {
      t.equal(TYPED.split(find).length, 2, find);
      return TYPED.replace(find, replace);
    }),
  ];
  for (const [i, text] of programs.entries()) writeFileSync(join(folder, `${i}.ts`), text);
  const errors = typeErrors(
    folder,
    programs.map((_, i) => `${i}.ts`),
    [],
  );
  t.strictSame(
    errors.filter(({ file }) => file === '0.ts'),
    [],
  );
  for (const [i, [, replace]] of MISTAKES.entries())
    t.ok(
      errors.some(({ file }) => file === `${i + 1}.ts`),
      `does not compile: ${replace}`,
    );
  t.end();
});

test('the README’s examples compile strictly in an empty folder', { skip }, (t) => {
  const folder = aPackageWithClient(t);
  const blocks = readBlocks(readDocument('packages/client/README.md')).filter(
    ({ language }) => language === 'ts',
  );
  t.equal(blocks.length, 6);
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
