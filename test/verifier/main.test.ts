import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test, type Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';

const ROOT = new URL('../../../', import.meta.url).pathname;

/** The code of a service. */
const SERVICE = `
import { createVerifier, authOf, fastifyVerifier, VerifierError, verifierMiddleware } from 'latchkey/verifier';
import type { VerifiedToken, Verifier, VerifierOptions } from 'latchkey/verifier';
import express from 'express';
import Fastify from 'fastify';

const options: VerifierOptions = {
  issuer: 'http://127.0.0.1:1',
  audience: 'latchkey',
  client: { id: 'orders', secret: 'secret' },
  whenStale: 'refuse',
  onError: (error: Error) => error.message,
};
const verifier: Verifier = createVerifier(options);
// @ts-expect-error not one of the three
export const wrong = () => createVerifier({ ...options, whenStale: 'perhaps' });
export const app = Fastify();
export const registered = app.register(fastifyVerifier, { verifier });
app.get('/', (request) => authOf(request).userId);
export const web = express();
web.use(verifierMiddleware(verifier));
web.get('/', (request, response) => void response.json(authOf(request).claims.sub));
export const verified: VerifiedToken | string = await verifier
  .verify('token')
  .catch((error: unknown) => (error instanceof VerifierError ? error.code : 'a fault'));
console.log(verified, verifier.staleness());
await verifier.close();
`;

/** The same without the frameworks. */
const BARE = `
import * as verifier from 'latchkey/verifier';
console.log(Object.keys(verifier).join());
const { createVerifier } = verifier;
const mine = createVerifier({ issuer: 'http://127.0.0.1:1', audience: 'a', client: { id: 'i', secret: 's' } });
await mine.verify('x').catch(({ code }) => console.log(code));
await mine.close();
`;

function run(cwd: string, ...args: string[]) {
  return spawnSync(process.execPath, args, { cwd, env: bareEnvironment(), encoding: 'utf8' });
}

/** A separate package with Latchkey as npm packs it, and jose as the only other dependency. */
function aPackage(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-verifier-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  const pack = ['pack', '--silent', '--pack-destination', folder];
  const npm = spawnSync('npm', pack, { cwd: ROOT, encoding: 'utf8' });
  const packed = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  if (packed === undefined) throw new Error(`npm pack: ${npm.stdout}${npm.stderr}`);
  const modules = join(folder, 'node_modules');
  mkdirSync(join(modules, 'latchkey'), { recursive: true });
  spawnSync('tar', ['-xzf', join(folder, packed), '--strip-components=1'], {
    cwd: join(modules, 'latchkey'),
  });
  // Copied, so that it cannot resolve other packages of this project.
  cpSync(join(ROOT, 'node_modules/jose'), join(modules, 'jose'), { recursive: true });
  return folder;
}

function link(folder: string, ...names: string[]): void {
  for (const name of names) {
    const path = join(folder, 'node_modules', name);
    mkdirSync(dirname(path), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), path);
  }
}

test('latchkey/verifier in another package', async (t) => {
  const folder = aPackage(t);

  await t.test('needs only jose, and the process exits after close', (t) => {
    writeFileSync(join(folder, 'bare.js'), BARE);
    const { stdout, stderr, status } = run(folder, 'bare.js');
    t.equal(stderr, '');
    t.equal(status, 0);
    const names = 'VerifierError,authOf,createVerifier,fastifyVerifier,verifierMiddleware';
    t.strictSame(stdout.trim().split('\n'), [names, 'invalid_token']);
    t.end();
  });

  await t.test('no other module of Latchkey can be imported', (t) => {
    writeFileSync(join(folder, 'behind.js'), "import 'latchkey/dist/src/verifier/feed.js';");
    t.match(run(folder, 'behind.js').stderr, 'ERR_PACKAGE_PATH_NOT_EXPORTED');
    t.end();
  });

  await t.test('has types that pass a strict compiler and fit Fastify’s and Express’s', (t) => {
    link(folder, 'fastify', 'express', '@types/express', '@types/node');
    writeFileSync(join(folder, 'service.ts'), SERVICE);
    const compilerOptions = {
      module: 'NodeNext',
      target: 'ES2023',
      strict: true,
      exactOptionalPropertyTypes: true,
      types: ['node'],
      skipLibCheck: false,
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['service.ts'] }));
    const compiled = run(folder, join(ROOT, 'node_modules/typescript/bin/tsc'));
    t.strictSame(
      compiled.stdout.split('\n').filter((line) => /service\.ts|latchkey/.test(line)),
      [],
    );
    const { stdout, stderr, status } = run(folder, 'service.js');
    t.equal(stderr, '');
    t.equal(status, 0);
    t.equal(stdout.trim(), 'invalid_token Infinity');
    t.end();
  });
});
