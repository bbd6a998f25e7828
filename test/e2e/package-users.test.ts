import { execFile, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { test, type Test } from 'tap';
import { anAccount } from '../support/client.ts';
import { ROOT } from '../support/documents.ts';
import { bareEnvironment, skipReason } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { signUpOver } from '../support/over-http.ts';
import { unpack } from '../support/packed-packages.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import '../support/watch-leaks.ts';

/** Our packages in the hands of their users: packed, in a folder that has nothing else of this project. */
const LIBRARIES = ['verifier', 'client'];

/** With a lock file of its own, because nobody else needs what users test and bundle with. */
const TOOLS = join(ROOT, 'scripts/package-users');
const OLDEST_NODE = join(TOOLS, `node_modules/node-${process.platform}-${process.arch}/bin/node`);

/** Where a compiler is, and its options. The older one would take 10 s to check the types of Node and of pages. */
const COMPILERS: [folder: string, ...options: string[]][] = [
  ['node_modules/typescript'],
  ['test/typed-client/node_modules/typescript', '--skipLibCheck'],
];

interface Entry {
  /** What users import. */
  name: string;
  /** The package that has it. */
  library: string;
  /** The folder of that package. */
  folder: string;
  /** The conditions of `exports`, in their order. */
  conditions: Record<string, { types: string; default: string }>;
}

/** What a user does with an entry, given what it exports and what the main entry of its package exports. */
const USES: Readonly<Record<string, string>> = {
  '@latchkey/verifier': `async ({ createVerifier, refusalOf, VerifierError }) => {
    const { ISSUER, ID, SECRET, TOKEN, USER } = process.env;
    const verifier = createVerifier({ issuer: ISSUER, audience: 'latchkey', client: { id: ID, secret: SECRET } });
    await verifier.ready();
    assert.equal((await verifier.verify(TOKEN)).userId, Number(USER));
    const refused = await verifier.verify(TOKEN + 'x').catch((error) => error);
    await verifier.close();
    assert.ok(refused instanceof VerifierError, String(refused));
    assert.equal(refusalOf(refused).status, 401);
  }`,
  '@latchkey/verifier/testing': `async ({ testIssuer }, { VerifierError }) => {
    const issuer = await testIssuer();
    const verifier = await issuer.verifier();
    const token = await issuer.token({ userId: 7 });
    assert.equal((await verifier.verify(token)).userId, 7);
    await issuer.revoke(token);
    const refused = await verifier.verify(token).catch((error) => error);
    await verifier.close();
    await issuer.close();
    assert.ok(refused instanceof VerifierError, String(refused));
    assert.equal(refused.reason, 'revoked');
  }`,
  '@latchkey/client': `async ({ createClient, LatchkeyError }) => {
    const { ISSUER, NAME, PASSWORD, USER } = process.env;
    const client = createClient({ url: ISSUER });
    const refused = await client.login({ username: '', password: '' }).catch((error) => error);
    assert.ok(refused instanceof LatchkeyError, String(refused));
    assert.equal(refused.status, 400);
    const { user } = await client.login({ username: NAME, password: PASSWORD });
    assert.equal(user.id, Number(USER));
    await client.logout();
    assert.equal(client.session, null);
  }`,
  '@latchkey/client/passkey': `async ({ logInWithPasskey }, { createClient, LatchkeyError }) => {
    const refused = await logInWithPasskey(createClient({ url: 'http://127.0.0.1:1' })).catch((error) => error);
    assert.ok(refused instanceof LatchkeyError, String(refused));
    assert.equal(refused.code, 'no_answer');
  }`,
  '@latchkey/client/testing': `async ({ testServer }, { LatchkeyError }) => {
    const server = await testServer({ users: [] });
    await server.outage(true);
    const refused = await (await server.client()).login({ username: 'ada', password: 'x' }).catch((error) => error);
    assert.ok(refused instanceof LatchkeyError, String(refused));
  }`,
};

/** In jsdom. It has no `fetch`, and Node’s refuses jsdom’s signals, so tests of pages take all of it from Node. */
const PAGE = `
const { TestEnvironment } = require('jest-environment-jsdom');
module.exports = class extends TestEnvironment {
  constructor(...given) {
    super(...given);
    Object.assign(this.global, { AbortController, AbortSignal, fetch, Headers, Request, Response });
  }
};`;

/** With two copies, an error of one would be no instance of the other’s class. */
const ONE_COPY = `
test('one copy, by import and by require', async () => {
  const { createRequire } = await import('node:module');
  const load = createRequire(process.cwd() + '/');
  for (const name of ENTRIES) {
    const [imported, required] = [await import(name), load(name)];
    for (const key of Object.keys(imported)) assert.equal(imported[key], required[key], key);
  }
});`;

/** A user’s test: what runs it, in its folder, and how it is written. */
interface Runner {
  command: string[];
  file: string;
  how: 'import' | 'require';
  /** Where it has the function `test` from, if that is no global. */
  head?: string;
  tail?: string;
  isOfPages?: boolean;
  files?: Record<string, string>;
}

const RUNNERS: Readonly<Record<string, Runner>> = {
  'Jest, in its environment for Node': {
    command: jest({ testEnvironment: 'node' }),
    file: 'use.test.js',
    how: 'require',
  },
  'Jest, in jsdom': {
    command: jest({ testEnvironment: './page.js' }),
    file: 'use.test.js',
    how: 'require',
    isOfPages: true,
    files: { 'page.js': PAGE },
  },
  'Jest, with the preset of React Native': {
    command: jest({ preset: '@react-native/jest-preset' }),
    file: 'use.test.js',
    how: 'import',
    isOfPages: true,
    files: { 'babel.config.js': `module.exports = { presets: ['module:@react-native/babel-preset'] };` },
  },
  Vitest: {
    command: [process.execPath, program('vitest/vitest.mjs'), 'run'],
    file: 'use.test.mjs',
    how: 'import',
    head: `import { test } from 'vitest';`,
  },
  'node:test of the oldest Node, with import': nodeTest(OLDEST_NODE, 'import'),
  'node:test of the oldest Node, with require': nodeTest(OLDEST_NODE, 'require'),
  'node:test of this Node, with import': nodeTest(process.execPath, 'import'),
  'node:test of this Node, with require': nodeTest(process.execPath, 'require'),
};

/** Uses every export, so that a bundler leaves out only what no export needs. */
const PAGE_OF_BOTH = `
import * as client from '@latchkey/client';
import * as verifier from '@latchkey/verifier';
globalThis.latchkey = { client, verifier };
const options = { issuer: 'http://127.0.0.1:1', audience: 'a', client: { id: 'i', secret: 's' }, onError() {} };
const mine = verifier.createVerifier(options);
const { code } = await mine.verify('x').catch((error) => error);
await mine.close();
console.log(code, typeof client.createClient({ url: 'http://127.0.0.1:1' }).fetch);`;

/** Each bundles `page.mjs` into `bundle.mjs`, and prints the files whose code is in it. */
const BUNDLERS: Readonly<Record<string, string>> = {
  Vite: `
    import { build } from 'vite';
    const { output } = await build({
      logLevel: 'silent',
      build: {
        outDir: '.',
        emptyOutDir: false,
        modulePreload: { polyfill: false },
        rollupOptions: { input: 'page.mjs', output: { entryFileNames: 'bundle.mjs' } },
      },
    });
    console.log(JSON.stringify(output.flatMap(({ moduleIds }) => moduleIds)));`,
  webpack: `
    import webpack from 'webpack';
    const options = {
      mode: 'production',
      entry: './page.mjs',
      output: { path: process.cwd(), filename: 'bundle.mjs', module: true },
      experiments: { outputModule: true },
      // Otherwise a module holds the others.
      optimization: { concatenateModules: false },
    };
    webpack(options, (error, stats) => {
      if (error || stats.hasErrors()) throw error ?? new Error(stats.toString());
      const { chunkGraph, modules } = stats.compilation;
      const used = [...modules].filter((module) => chunkGraph.getNumberOfModuleChunks(module) > 0);
      console.log(JSON.stringify(used.map(({ resource }) => resource ?? '')));
    });`,
};

const skip =
  toolsMissing('npm', 'tar') ||
  skipReason(installTools()) ||
  skipReason(existsSync(OLDEST_NODE) ? null : `${OLDEST_NODE} is for Linux only`);

test('the packed packages in the hands of their users', { skip }, async (t) => {
  // Everything that a project finds: the packed packages in its own folder, and the tools above it.
  const above = testFolder(t);
  const project = join(above, 'project');
  mkdirSync(project);
  symlinkSync(join(TOOLS, 'node_modules'), join(above, 'node_modules'));
  const entries = LIBRARIES.flatMap((library) => entriesOf(library, unpack(project, library)));
  cpSync(join(ROOT, 'node_modules/jose'), join(project, 'node_modules/jose'), { recursive: true });
  const names = new Map<Entry, string[]>();

  await t.test('have the same names as ES modules and in CommonJS', async (t) => {
    for (const entry of entries) {
      const { folder, name, conditions } = entry;
      t.strictSame(Object.keys(conditions), ['module-sync', 'require', 'default'], name);
      t.strictSame(conditions['module-sync'], conditions.default, name);
      const at = (condition: string) => join(folder, conditions[condition]?.default ?? '');
      const imported = (await import(pathToFileURL(at('default')).href)) as object;
      const required = createRequire(import.meta.url)(at('require')) as object;
      t.strictSame(Object.keys(required).sort(), Object.keys(imported).sort(), name);
      names.set(entry, Object.keys(imported));
      t.ok(name in USES, `${name} is used below`);
    }
  });

  await t.test('hold the licences of what the CommonJS build bundles', (t) => {
    const licences = readFileSync(
      join(project, 'node_modules/@latchkey/verifier/dist/cjs/LICENSES.md'),
      'utf8',
    );
    const jose = (name: string) => readFileSync(join(project, 'node_modules/jose', name), 'utf8');
    const { version } = JSON.parse(jose('package.json')) as { version: string };
    t.strictSame(licences.match(/^## .*$/gm), [`## jose ${version}`]);
    t.ok(licences.includes(jose('LICENSE.md').trim()));
    t.end();
  });

  const env = await aLatchkey(t);
  for (const [name, runner] of Object.entries(RUNNERS))
    await t.test(name, async (t) => {
      const own = entries.filter(({ library }) => !runner.isOfPages || library === 'client');
      const folder = aFolder(project, name, { [runner.file]: testOf(runner, own), ...runner.files });
      const [node = '', ...words] = runner.command;
      t.equal((await run(folder, node, words, env)).complaint, '');
    });

  for (const [compiler, ...options] of COMPILERS)
    for (const module of ['node16', 'nodenext', 'preserve'])
      await t.test(`the types, by tsc ${versionOf(compiler)} with module ${module}`, async (t) => {
        const source = typesOf(names);
        const files = { 'use.cts': source, 'use.mts': source };
        const folder = aFolder(project, t.name, files);
        const strict = [
          '--strict',
          '--exactOptionalPropertyTypes',
          '--noEmit',
          '--types',
          'node',
          ...options,
        ];
        const target = ['--target', 'ES2023', '--lib', 'ES2023,DOM', '--module', module];
        const words = [join(ROOT, compiler, 'bin/tsc'), ...strict, ...target, ...Object.keys(files)];
        t.equal((await run(folder, process.execPath, words)).complaint, '');
      });

  for (const [name, script] of Object.entries(BUNDLERS))
    await t.test(`${name} bundles the main entries alone`, async (t) => {
      const folder = aFolder(project, name, { 'page.mjs': PAGE_OF_BOTH, 'bundle-page.mjs': script });
      const { complaint, output } = await run(folder, process.execPath, ['bundle-page.mjs']);
      t.equal(complaint, '');
      const files = JSON.parse(output) as string[];
      const others = entries
        .filter(({ name, library }) => name !== `@latchkey/${library}`)
        .map(({ conditions }) => conditions.default?.default.replace('./dist/', ''));
      for (const library of LIBRARIES) {
        const own = files.flatMap((file) => file.split(`@latchkey/${library}/dist/`)[1] ?? []);
        t.ok(own.includes(`create-${library}.js`), own.join());
        t.strictSame(
          own.filter((file) => file.includes('/') || others.includes(file)),
          [],
          'neither CommonJS nor another entry',
        );
      }
      const { output: printed } = await run(folder, process.execPath, ['bundle.mjs']);
      t.equal(printed, 'invalid_token function\n');
    });
});

/** @returns why npm cannot install them */
function installTools(): string | null {
  const changed = (name: string) => statSync(join(TOOLS, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  // npm writes it last.
  if (changed('node_modules/.package-lock.json') > changed('package-lock.json')) return null;
  const options = ['ci', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  const { status, stderr } = spawnSync('npm', options, { cwd: TOOLS, encoding: 'utf8' });
  return status === 0 ? null : `npm ci fails in scripts/package-users: ${stderr.trim().split('\n')[0]}`;
}

function entriesOf(library: string, folder: string): Entry[] {
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
    exports: Record<string, string | Entry['conditions']>;
  };
  return Object.entries(exports).flatMap(([path, conditions]) =>
    typeof conditions === 'string'
      ? []
      : [{ name: `@latchkey/${library}${path.slice(1)}`, library, folder, conditions }],
  );
}

/** A Latchkey with a user and a registered service, as the environment of a user’s test. */
async function aLatchkey(t: Test) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const PORT = String(await freePort());
  const ISSUER = `http://127.0.0.1:${PORT}`;
  await readyService(t, { DATABASE_URL, PORT, ISSUER });
  const { serviceId: ID, secret: SECRET } = await aRegisteredService(DATABASE_URL);
  const account = anAccount();
  const { access_token: TOKEN, user } = await signUpOver(ISSUER, account);
  const { username: NAME, password: PASSWORD } = account;
  return { ISSUER, ID, SECRET, TOKEN, NAME, PASSWORD, USER: String(user.id) };
}

function jest(config: object): string[] {
  return [process.execPath, program('jest/bin/jest.js'), '--ci', '--config', JSON.stringify(config)];
}

function nodeTest(node: string, how: 'import' | 'require'): Runner {
  const file = how === 'import' ? 'use.test.mjs' : 'use.test.cjs';
  const head = how === 'import' ? `import test from 'node:test';` : `const test = require('node:test');`;
  return { command: [node, '--test', file], file, how, head, tail: ONE_COPY };
}

function program(path: string): string {
  return join(TOOLS, 'node_modules', path);
}

function versionOf(folder: string): string {
  return (JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8')) as { version: string })
    .version;
}

/** The text of a test that uses these entries. */
function testOf({ how, head = '', tail = '' }: Runner, entries: readonly Entry[]): string {
  const load = (variable: string, name: string) =>
    how === 'import' ? `import * as ${variable} from '${name}';` : `const ${variable} = require('${name}');`;
  const main = ({ library }: Entry) => variableOf(`@latchkey/${library}`);
  return [
    how === 'import' ? `import assert from 'node:assert';` : `const assert = require('node:assert');`,
    head,
    ...entries.map(({ name }) => load(variableOf(name), name)),
    `const ENTRIES = ${JSON.stringify(entries.map(({ name }) => name))};`,
    ...entries.map(
      (entry) =>
        `test('${entry.name}', async () => { await (${USES[entry.name]})(${variableOf(entry.name)}, ${main(entry)}); });`,
    ),
    tail,
  ].join('\n');
}

/** A program that compiles if every name is there, and if the compiler knows that others are not. */
function typesOf(names: ReadonlyMap<Entry, readonly string[]>): string {
  return [...names]
    .map(([{ name }, exported]) => {
      const variable = variableOf(name);
      return `import * as ${variable} from '${name}';
        export const of${variable}: (keyof typeof ${variable})[] = ${JSON.stringify(exported)};
        // @ts-expect-error
        ${variable}.noSuchName;`;
    })
    .join('\n');
}

function variableOf(name: string): string {
  return name.replace(/\W+/g, '_');
}

/** A new folder in the project. */
function aFolder(project: string, name: string, files: Readonly<Record<string, string>>): string {
  const folder = join(project, name.replace(/\W+/g, '-'));
  mkdirSync(folder);
  for (const [file, text] of Object.entries({ 'package.json': '{}', ...files }))
    writeFileSync(join(folder, file), text);
  return folder;
}

/** @returns what the program has printed; as a complaint too, if it fails */
async function run(cwd: string, file: string, words: string[], env: Record<string, string> = {}) {
  const options = { cwd, env: bareEnvironment(env) };
  try {
    return { complaint: '', output: (await promisify(execFile)(file, words, options)).stdout };
  } catch (error) {
    const { stdout = '', stderr = '', message } = error as Error & { stdout?: string; stderr?: string };
    return { complaint: `${message}\n${stdout}${stderr}`, output: stdout };
  }
}
