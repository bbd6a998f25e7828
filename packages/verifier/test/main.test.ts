import { spawnSync } from 'node:child_process';
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import { bareEnvironment } from '../../../test/support/environment.ts';
import { aPackageWithVerifier } from '../../../test/support/packed-packages.ts';

const ROOT = new URL('../../../../', import.meta.url).pathname;

/** The code of a service. */
const SERVICE = `
import { createVerifier, authOf, fastifyVerifier, VerifierError, verifierMiddleware } from '@latchkey/verifier';
import type { ServiceToken, TokenType, UserToken, VerifiedToken, Verifier, VerifierErrorReason, VerifierOptions } from '@latchkey/verifier';
import express from 'express';
import Fastify from 'fastify';

const options: VerifierOptions = {
  issuer: 'http://127.0.0.1:1',
  audience: 'latchkey',
  client: { id: 'orders', secret: process.env.HOME },
  whenStale: 'refuse',
  tokenCache: { size: 100 },
  onError: (error: Error) => error.message,
};
const verifier: Verifier = createVerifier({ ...options, client: { id: 'orders', secret: 'secret' } });
// @ts-expect-error not one of the three
export const wrong = () => createVerifier({ ...options, whenStale: 'perhaps' });
const both = createVerifier({ ...options, client: { assertion: () => 'jwt' }, accept: ['access', 'service'] });
// @ts-expect-error a service's token has no user
export const user = async () => (await both.verify('token')).userId;
export const caller = async () => {
  const token = await both.verify('token');
  return token.tokenType === 'service' ? token.clientId : token.userId;
};
export const service: () => Promise<ServiceToken> = () => createVerifier({ ...options, accept: ['service'] }).verify('');
export const llt: () => Promise<UserToken> = () => createVerifier({ ...options, accept: ['llt'] }).verify('');
// @ts-expect-error any of them
export const any = async (accept: TokenType[]) => (await createVerifier({ ...options, accept }).verify('')).userId;
// @ts-expect-error either a secret or an assertion
export const two = () => createVerifier({ ...options, client: { id: 'a', secret: 'b', assertion: () => 'jwt' } });
await both.close();
export const app = Fastify();
export const registered = app.register(fastifyVerifier, {
  verifier,
  onRefused: ({ reason, expected }, { log }) => log.info({ reason, expected }, 'refused'),
});
app.get('/', (request) => authOf(request).userId);
// @ts-expect-error it may be a service
app.get('/user', (request) => authOf(request, both).userId);
app.get('/caller', (request) => authOf(request, both).roles);
await app.register(fastifyVerifier, { verifier: both });
export const web = express();
web.use(verifierMiddleware(both));
web.use(verifierMiddleware(verifier, { onRefused: ({ found }, { url }) => void [found, url] }));
web.get('/', (request, response) => void response.json(authOf(request).claims.sub));
const reasonOf = (error: unknown): VerifierErrorReason | 'a fault' =>
  error instanceof VerifierError ? error.reason : 'a fault';
export const verified: VerifiedToken | string = await verifier.verify('token').catch(reasonOf);
console.log(verified, verifier.staleness());
await verifier.close();
`;

/** The same without the frameworks. */
const BARE = `
import * as verifier from '@latchkey/verifier';
console.log(Object.keys(verifier).join());
const { createVerifier } = verifier;
const mine = createVerifier({ issuer: 'http://127.0.0.1:1', audience: 'a', client: { id: 'i', secret: 's' }, onError() {} });
await mine.verify('x').catch(({ code }) => console.log(code));
await mine.close();
`;

const COMPILER_OPTIONS = {
  module: 'NodeNext',
  target: 'ES2023',
  strict: true,
  exactOptionalPropertyTypes: true,
  types: ['node'],
  skipLibCheck: false,
};

function run(cwd: string, ...args: string[]) {
  return spawnSync(process.execPath, args, { cwd, env: bareEnvironment(), encoding: 'utf8' });
}

function link(folder: string, ...names: string[]): void {
  for (const name of names) {
    const path = join(folder, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), path);
  }
}

/** @returns the complaints about this file and about the verifier's own types. */
function compile(folder: string, file: string, source: string): string[] {
  writeFileSync(join(folder, file), source);
  const options = JSON.stringify({ compilerOptions: COMPILER_OPTIONS, files: [file] });
  writeFileSync(join(folder, 'tsconfig.json'), options);
  const { stdout } = run(folder, join(ROOT, 'node_modules/typescript/bin/tsc'));
  return stdout.split('\n').filter((line) => line.includes(file) || line.includes('latchkey'));
}

test('the packed verifier in another package', async (t) => {
  const folder = aPackageWithVerifier(t);
  const installed = join(folder, 'node_modules/@latchkey/verifier');

  await t.test('needs only jose, and the process exits after close', (t) => {
    writeFileSync(join(folder, 'bare.js'), BARE);
    const { stdout, stderr, status } = run(folder, 'bare.js');
    t.equal(stderr, '');
    t.equal(status, 0);
    const names = 'VerifierError,authOf,createVerifier,fastifyVerifier,verifierMiddleware';
    t.strictSame(stdout.trim().split('\n'), [names, 'invalid_token']);
    t.end();
  });

  await t.test('CommonJS can require it', (t) => {
    writeFileSync(
      join(folder, 'service.cjs'),
      "console.log(typeof require('@latchkey/verifier').createVerifier)",
    );
    t.match(run(folder, 'service.cjs'), { stdout: 'function\n', stderr: '', status: 0 });
    t.end();
  });

  await t.test('no other module of it can be imported', (t) => {
    writeFileSync(join(folder, 'behind.js'), "import '@latchkey/verifier/dist/feed.js';");
    t.match(run(folder, 'behind.js').stderr, 'ERR_PACKAGE_PATH_NOT_EXPORTED');
    t.end();
  });

  await t.test('can be published, holds the licence, and takes less than 1 MB with jose', (t) => {
    const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as Record<
      string,
      unknown
    >;
    t.notOk('private' in manifest);
    t.strictSame(Object.keys(manifest.dependencies as object), ['jose']);
    t.strictSame(readdirSync(installed).sort(), ['LICENSE', 'README.md', 'dist', 'package.json']);
    t.equal(readFileSync(join(installed, 'LICENSE'), 'utf8'), readFileSync(join(ROOT, 'LICENSE'), 'utf8'));
    const bytes = sizeOf(join(folder, 'node_modules'));
    t.comment(`${bytes} bytes`);
    t.ok(bytes < 1e6, `${bytes} bytes`);
    t.end();
  });

  await t.test('its types need no framework', (t) => {
    link(folder, '@types/node', 'undici-types');
    const source =
      "import { verifierMiddleware } from '@latchkey/verifier';\nexport default verifierMiddleware;\n";
    t.strictSame(compile(folder, 'alone.ts', source), []);
    t.end();
  });

  await t.test('has types that pass a strict compiler and fit Fastify’s and Express’s', (t) => {
    link(folder, 'fastify', 'express', '@types/express');
    t.strictSame(compile(folder, 'service.ts', SERVICE), []);
    const { stdout, stderr, status } = run(folder, 'service.js');
    t.equal(stderr, '');
    t.equal(status, 0);
    t.equal(stdout.trim(), 'malformed Infinity');
    t.end();
  });
});

function sizeOf(path: string): number {
  const { size } = lstatSync(path);
  if (!lstatSync(path).isDirectory()) return size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), size);
}
