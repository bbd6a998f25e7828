import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { bearer } from '../support/client.ts';
import { readDocument, ROOT } from '../support/documents.ts';
import { bareEnvironment, skipReason } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { freePort } from '../support/free-port.ts';
import { latchkey } from '../support/latchkey.ts';
import { readBlocks } from '../support/markdown.ts';
import { logOutOver, signUpOver } from '../support/over-http.ts';
import { packedVerifier, packVerifier } from '../support/packed-packages.ts';
import { testDatabase } from '../support/postgres.ts';
import { ready, startService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

/** A service in an empty folder: an example of the README, and what npm installs besides the verifier. */
const SERVICES: [name: string, file: string, example: RegExp, packages: string[]][] = [
  ['Express 5', 'app.mts', /from 'express'/, ['express@5', '@types/express@5']],
  ['Express 4', 'app.mts', /from 'express'/, ['express@4', '@types/express@4']],
  ['Fastify 5.0.0', 'app.mts', /from 'fastify'/, ['fastify@5.0.0']],
  ['the current Fastify', 'app.mts', /from 'fastify'/, ['fastify@5']],
  ['CommonJS', 'app.cts', /= require\(/, []],
];

const examples = readBlocks(readDocument('packages/verifier/README.md')).filter(
  ({ language }) => language === 'ts',
);

const noRegistry = () =>
  skipReason(npm('.', 'view', 'jose', 'name').status === 0 ? null : 'the npm registry does not answer');
const skip = toolsMissing('npm', 'tar') || noRegistry();

test('the README’s examples compile strictly and run in an empty folder', { skip }, async (t) => {
  t.equal(examples.length, 6);
  const { url, env } = await aLatchkey(t);
  const archive = packVerifier(testFolder(t));
  for (const [name, file, example, packages] of SERVICES) {
    await t.test(name, async (t) => {
      const folder = testFolder(t);
      installed(t, folder, [archive, '@types/node@20', ...packages]);
      const [block, ...others] = examples.filter(({ text }) => example.test(text));
      t.strictSame(others, []);
      writeFileSync(join(folder, file), block?.text ?? '');
      t.equal(compile(folder, file), '');
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
  await t.test('the others compile', (t) => {
    const folder = testFolder(t);
    installed(t, folder, [archive, '@types/node@20']);
    const others = examples.filter(({ text }) => !SERVICES.some(([, , example]) => example.test(text)));
    t.equal(others.length, 3);
    for (const { text } of others) {
      writeFileSync(join(folder, 'app.mts'), text);
      t.equal(compile(folder, 'app.mts'), '');
    }
    t.end();
  });
});

test(
  'the packed verifier names what a real Latchkey refuses',
  { skip: toolsMissing('npm', 'tar') },
  async (t) => {
    const { url, env, create } = await aLatchkey(t);
    const { createVerifier } = await packedVerifier(t);
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
      ...{ code: 'invalid_token', reason: 'type', expected: 'access or llt', found: 'rt+jwt' },
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
  },
);

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

/** npm's own configuration chooses the registry. */
function npm(cwd: string, ...args: string[]) {
  return spawnSync('npm', args, { cwd, encoding: 'utf8' });
}

function installed(t: Test, folder: string, packages: string[]): void {
  writeFileSync(join(folder, 'package.json'), '{}');
  const { status, stderr } = npm(
    folder,
    'install',
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    ...packages,
  );
  t.equal(status, 0, status === 0 ? 'npm installs' : stderr);
}

/** @returns the compiler's complaints, also about the types of installed packages. */
function compile(folder: string, file: string): string {
  const options = ['--strict', '--module', 'nodenext', '--target', 'es2023', '--types', 'node'];
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc');
  return spawnSync(process.execPath, [tsc, ...options, file], { cwd: folder, encoding: 'utf8' }).stdout;
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
