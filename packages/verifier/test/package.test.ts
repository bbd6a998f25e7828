// suite: e2e
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import tap, { test, type Test } from 'tap';
import { bearer } from '../../../test/support/client.ts';
import { readDocument, ROOT } from '../../../test/support/documents.ts';
import { bareEnvironment, skipReason } from '../../../test/support/environment.ts';
import { testFolder } from '../../../test/support/folder.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { latchkey } from '../../../test/support/latchkey.ts';
import { readBlocks } from '../../../test/support/markdown.ts';
import { logOutOver, signUpOver } from '../../../test/support/over-http.ts';
import { aPackageWithVerifier, packedVerifier, packVerifier } from '../../../test/support/packed-packages.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { ready, startService } from '../../../test/support/service.ts';
import { toolsMissing } from '../../../test/support/tools.ts';
import { until } from '../../../test/support/until.ts';
import '../../../test/support/watch-leaks.ts';

const skip = toolsMissing('npm', 'tar');
const archive = skip ? '' : packVerifier(testFolder(tap));

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

const NODE = ['@types/node', 'undici-types'];

test('the packed verifier in another package', { skip }, async (t) => {
  const folder = aPackageWithVerifier(t, archive);
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

  await t.test('has types that pass a strict compiler and fit Fastify’s and Express’s', (t) => {
    link(folder, ...NODE, 'fastify', 'express', '@types/express');
    t.strictSame(compile(folder, 'service.ts', SERVICE), []);
    const { stdout, stderr, status } = run(folder, 'service.js');
    t.equal(stderr, '');
    t.equal(status, 0);
    t.equal(stdout.trim(), 'malformed Infinity');
    t.end();
  });
});

const examples = readBlocks(readDocument('packages/verifier/README.md')).filter(
  ({ language }) => language === 'ts',
);
const EXPRESS = /from 'express'/;
const FASTIFY = /from 'fastify'/;

/** An example of the README, and what its service has besides the verifier: links to our own packages, or versions. */
const SERVICES: [name: string, file: string, example: RegExp, packages: string[]][] = [
  ['the current Express', 'app.mts', EXPRESS, ['express', '@types/express']],
  ['Express 4', 'app.mts', EXPRESS, ['express@4', '@types/express@4']],
  ['the current Fastify', 'app.mts', FASTIFY, ['fastify']],
  ['Fastify 5.0.0', 'app.mts', FASTIFY, ['fastify@5.0.0']],
  ['CommonJS', 'app.cts', /= require\(/, []],
];

const registryMissing = () =>
  skipReason(npm('.', 'view', 'jose', 'name').status === 0 ? null : 'the npm registry does not answer');

test('the README’s examples compile strictly and run', { skip }, async (t) => {
  t.equal(examples.length, 6);
  const { url, env } = await aLatchkey(t);
  for (const [name, file, example, packages] of SERVICES) {
    const isInstalled = packages.some((each) => /.@\d/.test(each));
    await t.test(name, { skip: isInstalled && registryMissing() }, async (t) => {
      const folder = isInstalled ? installedWith(t, packages) : aPackageWithVerifier(t, archive);
      if (!isInstalled) link(folder, ...NODE, ...packages);
      const [block, ...others] = examples.filter(({ text }) => example.test(text));
      t.strictSame(others, []);
      t.strictSame(compile(folder, file, block?.text ?? ''), []);
      const { get, end } = await running(t, join(folder, file.replace('ts', 'js')), env);

      const { access_token: token, user } = await signUpOver(url);
      await until(async () => (await get(token)).status === 200);
      t.match(await (await get(token)).json(), { of: user.id });
      t.equal((await get('no token')).status, 401);
      t.equal(await logOutOver(url, token), 200);
      await until(async () => (await get(token)).status === 401);
      t.equal(await end(), '', 'it wrote no warning');
    });
  }
  await t.test('the others compile, without a framework', (t) => {
    const folder = aPackageWithVerifier(t, archive);
    link(folder, ...NODE);
    const others = examples.filter(({ text }) => !SERVICES.some(([, , example]) => example.test(text)));
    t.equal(others.length, 3);
    for (const { text } of others) t.strictSame(compile(folder, 'app.mts', text), []);
    t.end();
  });
});

test('the packed verifier names what a real Latchkey refuses', { skip }, async (t) => {
  const { url, env, create } = await aLatchkey(t);
  const { createVerifier } = await packedVerifier(t, archive);
  const readyAs = async (client: { id: string | undefined; secret: string | undefined }, issuer = url) => {
    const verifier = createVerifier({
      issuer,
      url,
      audience: 'latchkey',
      client,
      onError: () => undefined,
    });
    try {
      await verifier.ready();
    } finally {
      await verifier.close();
    }
  };
  const mistake = { code: 'unavailable', reason: 'configuration' };
  const client = { id: env.LATCHKEY_ID, secret: env.LATCHKEY_SECRET };
  await t.resolves(readyAs(client));
  const verifier = createVerifier({ issuer: url, audience: 'latchkey', client });
  t.teardown(() => verifier.close());
  const { refresh_token: refreshToken } = await signUpOver(url);
  await t.rejects(verifier.verify(refreshToken), {
    code: 'invalid_token',
    reason: 'type',
    expected: 'access or llt',
    found: 'rt+jwt',
  });
  await t.rejects(readyAs({ ...client, secret: 'mistyped' }), {
    ...mistake,
    message: /client\.secret is wrong/,
  });
  await t.rejects(readyAs(client, 'https://id.example.com'), { ...mistake, found: url });
  for (const [has, lacks] of [
    ['introspect', 'revocations'],
    ['revocations', 'introspect'],
  ] as const) {
    const narrow = await create(has, '--may', has);
    const named = { ...mistake, message: new RegExp(`no right \`${lacks}\``) };
    // The service knows a new client a second later.
    await until(() =>
      readyAs(narrow).then(
        () => false,
        (error: unknown) => String(error).includes(lacks),
      ),
    );
    await t.rejects(readyAs(narrow), named, has);
  }
});

/** A running Latchkey that is its own issuer, and the environment of a registered service. */
async function aLatchkey(t: Test) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const service = await startService(t, { DATABASE_URL, PORT: String(port), ISSUER: url });
  await ready(service);
  const create = async (name: string, ...options: string[]) => {
    const { stdout } = await latchkey(['client', 'create', name, '--json', ...options], { DATABASE_URL });
    const { client_id: id, client_secret: secret } = JSON.parse(stdout) as Record<string, string>;
    return { id, secret };
  };
  const { id, secret } = await create('orders');
  return { url, create, env: { LATCHKEY_ISSUER: url, LATCHKEY_ID: id, LATCHKEY_SECRET: secret } };
}

function run(cwd: string, ...args: string[]) {
  return spawnSync(process.execPath, args, { cwd, env: bareEnvironment(), encoding: 'utf8' });
}

/** npm's own configuration chooses the registry. */
function npm(cwd: string, ...args: string[]) {
  return spawnSync('npm', args, { cwd, encoding: 'utf8' });
}

/** @returns an empty folder in which npm has installed the verifier and these packages. */
function installedWith(t: Test, packages: string[]): string {
  const folder = testFolder(t);
  writeFileSync(join(folder, 'package.json'), '{}');
  const options = ['install', '--no-audit', '--no-fund', '--ignore-scripts'];
  const { status, stderr } = npm(folder, ...options, archive, '@types/node@20', ...packages);
  t.equal(status, 0, status === 0 ? 'npm installs' : stderr);
  return folder;
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

function sizeOf(path: string): number {
  const { size } = lstatSync(path);
  if (!lstatSync(path).isDirectory()) return size;
  return readdirSync(path).reduce((sum, name) => sum + sizeOf(join(path, name)), size);
}

/** The service until the end of the test. @returns how to call it; and how to end it, which returns its errors. */
async function running(t: Test, script: string, env: Record<string, string | undefined>) {
  const port = await freePort();
  const child = spawn(process.execPath, [script], {
    env: bareEnvironment({ ...env, PORT: String(port) }),
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  const exited = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => (errors += chunk.toString()));
  const end = async () => {
    child.kill('SIGKILL');
    await exited;
    return errors;
  };
  t.teardown(end);
  const get = (token: string) => fetch(`http://127.0.0.1:${port}/orders`, { headers: bearer(token) });
  await until(() => {
    if (child.exitCode !== null) throw new Error(errors);
    return get('no token').then(
      () => true,
      () => false,
    );
  });
  return { get, end };
}
