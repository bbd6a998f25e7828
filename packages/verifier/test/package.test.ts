// suite: e2e
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname, join } from 'node:path';
import { buildSync } from 'esbuild';
import tap, { test, type Test } from 'tap';
import { chromiumMissing, openPage } from '../../../test/support/browser.ts';
import { bearer } from '../../../test/support/client.ts';
import { readDocument, ROOT } from '../../../test/support/documents.ts';
import { bareEnvironment, skipReason } from '../../../test/support/environment.ts';
import { testFolder } from '../../../test/support/folder.ts';
import { freePort } from '../../../test/support/free-port.ts';
import { latchkey } from '../../../test/support/latchkey.ts';
import { listen } from '../../../test/support/listen.ts';
import { readBlocks } from '../../../test/support/markdown.ts';
import { logOutOver, signUpOver } from '../../../test/support/over-http.ts';
import { aPackageWithVerifier, packedVerifier, packVerifier } from '../../../test/support/packed-packages.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { readyService } from '../../../test/support/service.ts';
import { toolsMissing } from '../../../test/support/tools.ts';
import { until } from '../../../test/support/until.ts';
import '../../../test/support/watch-leaks.ts';

const skip = toolsMissing('npm', 'tar');
const archive = skip ? '' : packVerifier(testFolder(tap));

/** The code of a service. */
const SERVICE = `
import { createTokens, createVerifier, authOf, fastifyVerifier, refusalOf, VerifierError, verifierMiddleware, verifyRequest } from '@latchkey/verifier';
import type { ServiceToken, TokenType, Tokens, TokensOptions, UserToken, VerifiedToken, Verifier, VerifierErrorReason, VerifierOptions } from '@latchkey/verifier';
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
export const onWeb = async (request: Request): Promise<Response> => {
  const { auth, response } = await verifyRequest(verifier, request, { onRefused: ({ found }, { url }) => void [found, url] });
  return response ?? Response.json(auth.userId);
};
export const eitherOnWeb = async (request: Request) => {
  const { auth } = await verifyRequest(both, request);
  // @ts-expect-error it may be refused, and a service
  return auth.userId;
};
export const send = (given: TokensOptions, token: string): Promise<string | Response> => {
  const tokens: Tokens = createTokens(given);
  return tokens.exchange(token, 'orders').catch(refusalOf);
};
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
    const [names, ...printed] = stdout.trim().split('\n');
    t.strictSame(printed, ['invalid_token']);
    t.strictSame(names?.split(','), [
      'VerifierError',
      'authOf',
      'createTokens',
      'createVerifier',
      'fastifyVerifier',
      'refusalOf',
      'verifierMiddleware',
      'verifyRequest',
    ]);
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
const LIMITED = /from 'express'[^]*limited: true/;
const PROOF = /from 'express'[^]*acr: 'mfa'/;
const EXPRESS = /^(?![^]*(limited: true|acr: 'mfa'))[^]*from 'express'/;
const FASTIFY = /from 'fastify'/;
const HONO = ['hono', '@hono/node-server'];
/** Files of frameworks that compile them in ways of their own. */
const COMPILED = /globalThis|export async function GET/;

/** An example of the README, and what its service has besides the verifier: links to our own packages, or versions. */
const SERVICES: [name: string, file: string, example: RegExp, packages: string[]][] = [
  ['the current Express', 'app.mts', EXPRESS, ['express', '@types/express']],
  ['Express 4', 'app.mts', EXPRESS, ['express@4', '@types/express@4']],
  ['the current Fastify', 'app.mts', FASTIFY, ['fastify']],
  ['Fastify 5.0.0', 'app.mts', FASTIFY, ['fastify@5.0.0']],
  ['Hono', 'app.mts', /from 'hono'/, HONO],
  ['CommonJS', 'app.cts', /= require\(/, []],
];

/** Of frameworks with routes in files: the route, the verifier, and what the framework calls the route with. */
const ROUTES: [name: string, file: string, ofVerifier: string, call: string][] = [
  ['Next.js', 'app/orders/route.ts', 'lib/latchkey.ts', 'request'],
  ['SvelteKit', 'src/routes/orders/+server.ts', 'src/lib/server/latchkey.ts', '{ request }'],
];

/** As their compilers resolve modules. */
const BUNDLED = {
  module: 'ESNext',
  moduleResolution: 'bundler',
  noEmit: true,
  paths: { '$lib/*': ['./src/lib/*'] },
};

const registryMissing = () =>
  skipReason(npm('.', 'view', 'jose', 'name').status === 0 ? null : 'the npm registry does not answer');

test('the README’s examples compile strictly and run', { skip }, async (t) => {
  t.equal(examples.length, 14);
  const { url, env } = await aLatchkey(t);
  const works = async ({ get, end }: Awaited<ReturnType<typeof running>>) => {
    const { access_token: token, user } = await signUpOver(url);
    await until(async () => (await get(token)).status === 200);
    t.match(await (await get(token)).json(), { of: user.id });
    t.equal((await get('no token')).status, 401);
    t.equal(await logOutOver(url, token), 200);
    await until(async () => (await get(token)).status === 401);
    t.equal(await end(), '', 'it wrote no warning');
  };
  for (const [name, file, example, packages] of SERVICES) {
    const isInstalled = packages.some((each) => /.@\d/.test(each));
    await t.test(name, { skip: isInstalled && registryMissing() }, async (t) => {
      const folder = isInstalled ? installedWith(t, packages) : aPackageWithVerifier(t, archive);
      if (!isInstalled) link(folder, ...NODE, ...packages);
      const [block, ...others] = examples.filter(({ text }) => example.test(text));
      t.strictSame(others, []);
      t.strictSame(compile(folder, file, block?.text ?? ''), []);
      await works(await running(t, join(folder, file.replace('ts', 'js')), env));
    });
  }
  for (const [name, file, ofVerifier, call] of ROUTES)
    await t.test(name, async (t) => {
      const folder = aPackageWithVerifier(t, archive);
      link(folder, ...NODE, ...HONO);
      const blocks = examples.filter(({ text }) => COMPILED.test(text)).map(({ text }) => text);
      const [verifier = '', ...routes] = blocks;
      const route = routes.find((text) => text.includes(name === 'SvelteKit' ? '$lib' : '../lib')) ?? '';
      const server = `import { createServer } from 'node:http';
        import { getRequestListener } from '@hono/node-server';
        import { GET } from './${file}';
        createServer(getRequestListener((request) => GET(${call}))).listen(Number(process.env.PORT));`;
      for (const [path, text] of [
        [ofVerifier, verifier],
        [file, route],
        ['server.ts', server],
      ] as const) {
        mkdirSync(dirname(join(folder, path)), { recursive: true });
        writeFileSync(join(folder, path), text);
      }
      t.strictSame(compile(folder, file, route, BUNDLED), []);
      const outfile = join(folder, 'server.mjs');
      const bundling = {
        entryPoints: [join(folder, 'server.ts')],
        outfile,
        tsconfig: join(folder, 'tsconfig.json'),
      };
      buildSync({ ...bundling, bundle: true, format: 'esm', platform: 'node', packages: 'external' });
      await works(await running(t, outfile, env));
    });
  await t.test('limited tokens and more proof', (t) => {
    for (const pattern of [LIMITED, PROOF]) {
      const folder = aPackageWithVerifier(t, archive);
      link(folder, ...NODE, 'express', '@types/express');
      const [example, ...others] = examples.filter(({ text }) => pattern.test(text));
      t.strictSame(others, []);
      t.strictSame(compile(folder, 'app.mts', example?.text ?? ''), []);
    }
    t.end();
  });
  await t.test(
    'the one of Fastify listens during an outage, and ends for a wrong configuration',
    async (t) => {
      const folder = aPackageWithVerifier(t, archive);
      link(folder, ...NODE, 'fastify');
      t.strictSame(
        compile(folder, 'app.mts', examples.find(({ text }) => text.includes("from 'fastify'"))?.text ?? ''),
        [],
      );
      const script = join(folder, 'app.mjs');
      const { access_token: token } = await signUpOver(url);
      const away = { ...env, LATCHKEY_ISSUER: 'http://127.0.0.1:1' };
      const { get } = await running(t, script, away);
      t.equal((await get(token)).status, 503);
      const PORT = String(await freePort());
      const mistaken = bareEnvironment({ ...env, LATCHKEY_SECRET: 'mistyped', PORT });
      const { status, stderr } = spawnSync(process.execPath, [script], { env: mistaken, encoding: 'utf8' });
      t.equal(status, 1);
      t.match(stderr, 'client.secret is wrong');
    },
  );
  await t.test('a page of another origin calls the one of Hono', { skip: chromiumMissing }, async (t) => {
    const origin = await listen(
      t,
      createServer((_request, response) => response.end('<!doctype html>')),
    );
    const folder = aPackageWithVerifier(t, archive);
    link(folder, ...NODE, ...HONO);
    const example = examples.find(({ text }) => text.includes("from 'hono'"))?.text ?? '';
    t.strictSame(compile(folder, 'app.mts', example), []);
    const service = await running(t, join(folder, 'app.mjs'), { ...env, PAGE_ORIGIN: origin });
    const { access_token: token, user } = await signUpOver(url);
    await until(async () => (await service.get(token)).status === 200);
    const { page } = await openPage(t, origin);
    await page.goto(origin);
    const ask = (given: string) =>
      page.evaluate(`fetch('${service.url}/orders', { headers: { authorization: 'Bearer ${given}' } })
        .then(async (answer) => [answer.status, await answer.json(), answer.headers.get('www-authenticate')])`);
    t.strictSame(await ask(token), [200, { of: user.id }, null]);
    t.equal(await logOutOver(url, token), 200);
    await until(async () => (await service.get(token)).status === 401);
    t.match(await ask(token), [401, { code: 'invalid_token' }, 'Bearer error="invalid_token"']);
  });
  await t.test('the others compile, without a framework', (t) => {
    const folder = aPackageWithVerifier(t, archive);
    link(folder, ...NODE);
    const named = [...SERVICES.map(([, , example]) => example), LIMITED, PROOF, COMPILED];
    const others = examples.filter(({ text }) => !named.some((example) => example.test(text)));
    t.equal(others.length, 5);
    for (const { text } of others) t.strictSame(compile(folder, 'app.mts', text), []);
    t.end();
  });
});

test('the packed verifier gets tokens of a real Latchkey', { skip }, async (t) => {
  const { url, create, stop } = await aLatchkey(t);
  const { createTokens, refusalOf } = await packedVerifier(t, archive);
  await create('orders-api', '--audience', 'orders');
  const client = await create('gateway', '--may', 'exchange,call:orders');
  const gateway = () => {
    const tokens = createTokens({ issuer: url, client });
    t.teardown(() => tokens.close());
    return tokens;
  };
  const tokens = gateway();
  const verified = async (token: string) =>
    (await fetch(`${url}/api/auth/verify?audience=orders`, { headers: bearer(token) })).status;
  const answerTo = async (call: Promise<string>) => {
    const { status, headers } = await call.then(() => Response.error(), refusalOf);
    return [status, headers.get('www-authenticate') ?? headers.get('retry-after')];
  };
  const [invalid, away] = [
    [401, 'Bearer error="invalid_token"'],
    [503, '1'],
  ];

  // Latchkey knows a new client a second later.
  await until(() =>
    tokens.serviceToken('orders').then(
      () => true,
      () => false,
    ),
  );
  t.equal(await verified(await tokens.serviceToken('orders')), 200);
  const { access_token: subject } = await signUpOver(url);
  const calls = await Promise.all(Array.from({ length: 100 }, () => tokens.exchange(subject, 'orders')));
  t.equal(new Set(calls).size, 1);
  t.equal(await verified(calls[0] ?? ''), 200);

  const mistake = { code: 'unavailable', reason: 'configuration' };
  await t.rejects(tokens.serviceToken('billing'), { ...mistake, message: /no right `call:billing`/ });
  await t.rejects(tokens.exchange(subject, 'billing'), { ...mistake, option: 'audience', found: 'billing' });
  await t.rejects(tokens.exchange(subject, 'latchkey'), { ...mistake, option: 'audience' });
  const secretless = createTokens({ issuer: url, client: { ...client, secret: 'mistyped' } });
  await t.rejects(secretless.exchange(subject, 'orders'), { ...mistake, message: /client\.secret is wrong/ });
  t.strictSame(await answerTo(tokens.serviceToken('billing')), away);

  for (const token of [
    '',
    'x',
    'x.y.z',
    `${subject}x`,
    `a.${'b'.repeat(100_000)}.c`,
    await tokens.serviceToken('orders'),
  ])
    await t.rejects(tokens.exchange(token, 'orders'), { code: 'invalid_token' }, token.slice(0, 20));
  t.equal(await logOutOver(url, subject), 200);
  await until(async () => (await verified(calls[0] ?? '')) === 401);
  t.strictSame(await answerTo(gateway().exchange(subject, 'orders')), invalid, 'after a logout');
  await stop();
  t.strictSame(await answerTo(gateway().exchange(subject, 'orders')), away, 'while Latchkey is away');
});

/** A running Latchkey that is its own issuer, and the environment of a registered service. */
async function aLatchkey(t: Test) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const service = await readyService(t, { DATABASE_URL, PORT: String(port), ISSUER: url });
  const create = async (name: string, ...options: string[]) => {
    const { stdout } = await latchkey(['client', 'create', name, '--json', ...options], { DATABASE_URL });
    const { client_id: id, client_secret: secret } = JSON.parse(stdout) as Record<string, string>;
    return { id, secret };
  };
  const { id, secret } = await create('orders');
  return {
    url,
    create,
    stop: () => service.stop('SIGKILL'),
    env: { LATCHKEY_ISSUER: url, LATCHKEY_ID: id, LATCHKEY_SECRET: secret },
  };
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
function compile(folder: string, file: string, source: string, more: object = {}): string[] {
  writeFileSync(join(folder, file), source);
  const options = JSON.stringify({ compilerOptions: { ...COMPILER_OPTIONS, ...more }, files: [file] });
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
  const url = `http://127.0.0.1:${port}`;
  const get = (token: string) => fetch(`${url}/orders`, { headers: bearer(token) });
  await until(() => {
    if (child.exitCode !== null) throw new Error(errors);
    return get('no token').then(
      () => true,
      () => false,
    );
  });
  return { url, get, end };
}
