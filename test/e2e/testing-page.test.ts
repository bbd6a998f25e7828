import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'tap';
import { readDocument, ROOT } from '../support/documents.ts';
import { bareEnvironment } from '../support/environment.ts';
import { freePort } from '../support/free-port.ts';
import { readBlocks } from '../support/markdown.ts';
import { aPackageWithAgent, aPackageWithVerifier } from '../support/packed-packages.ts';
import { modulesMissing, PYTHON_PATH } from '../support/python.ts';
import { toolsMissing } from '../support/tools.ts';

const blocks = readBlocks(readDocument('docs/integrating/testing.md'));

/** What each test of a service shows. */
const SHOWN = ['good until', 'needs the scope', 'demands a second factor', 'no refusal'];

const OPTIONS = {
  module: 'NodeNext',
  target: 'ES2023',
  strict: true,
  exactOptionalPropertyTypes: true,
  types: ['node'],
  skipLibCheck: false,
};

/** The sections with TypeScript, and the packages of their frameworks. */
const SECTIONS: Record<string, { packages: string[]; shown: string[] }> = {
  Express: { packages: ['express', '@types/express'], shown: SHOWN },
  Fastify: { packages: ['fastify'], shown: SHOWN },
  'Frameworks with the web’s Request': { packages: [], shown: SHOWN },
  'The fake verifier': { packages: [], shown: ['second factor'] },
};

test('every block of the page is run', (t) => {
  const found = blocks.map(({ language, section }) => `${language} ${section}`);
  t.strictSame(
    found.sort(),
    ['python With an agent', ...Object.keys(SECTIONS).map((name) => `ts ${name}`)].sort(),
  );
  t.end();
});

const skip = toolsMissing('npm', 'tar');

for (const [section, { packages, shown }] of Object.entries(SECTIONS))
  test(`the tests of ${section} pass with the packed verifier`, { skip }, (t) => {
    const block = blocks.find((each) => each.section === section);
    const folder = aPackageWithVerifier(t);
    for (const name of ['@types/node', 'undici-types', ...packages]) link(folder, name);
    writeFileSync(join(folder, 'service.test.mts'), block?.text ?? '');
    const options = JSON.stringify({ compilerOptions: OPTIONS, files: ['service.test.mts'] });
    writeFileSync(join(folder, 'tsconfig.json'), options);
    t.strictSame(complaints(folder), []);

    const reporter = ['--test', '--test-reporter=tap', 'service.test.mjs'];
    const { stdout, status } = run(folder, process.execPath, reporter);
    t.equal(status, 0, stdout);
    const passed = [...stdout.matchAll(/^ *ok \d+ - (.*)$/gm)].map(([, name]) => name);
    for (const each of shown)
      t.ok(
        passed.some((name) => name?.includes(each)),
        `${each}: ${stdout}`,
      );
    t.end();
  });

/** @returns those about the block and about our own types */
function complaints(folder: string): string[] {
  const { stdout } = run(folder, process.execPath, [join(ROOT, 'node_modules/typescript/bin/tsc')]);
  return stdout.split('\n').filter((line) => /service\.test|latchkey/.test(line));
}

test(
  'the tests of a service in Python pass with the packed agent',
  { skip: skip || modulesMissing('flask', 'pytest') },
  async (t) => {
    const folder = aPackageWithAgent(t);
    mkdirSync(join(folder, 'node_modules/.bin'));
    for (const [name, program] of [
      ['latchkey-test-issuer', 'verifier/dist/testing/program.js'],
      ['latchkey-agent', 'agent/dist/main.js'],
    ] as const) {
      // As npm does.
      chmodSync(join(folder, 'node_modules/@latchkey', program), 0o755);
      symlinkSync(`../@latchkey/${program}`, join(folder, 'node_modules/.bin', name));
    }
    const ports: Record<string, string> = { 4181: String(await freePort()), 4182: String(await freePort()) };
    const adapt = (text: string) => text.replaceAll(/\b418[12]\b/g, (port) => ports[port] ?? port);
    const service = readFileSync(join(ROOT, 'examples/agent-flask/service.py'), 'utf8');
    writeFileSync(join(folder, 'service.py'), adapt(service));
    const block = blocks.find(({ language }) => language === 'python');
    writeFileSync(join(folder, 'test_service.py'), adapt(block?.text ?? ''));

    const env = {
      // The agent and the issuer run in the Node of this test.
      PATH: `${dirname(process.execPath)}:${PYTHON_PATH}`,
      AGENT_LISTEN: `127.0.0.1:${ports[4181]}`,
      AGENT_OPS_LISTEN: `127.0.0.1:${ports[4182]}`,
      PYTHONDONTWRITEBYTECODE: '1',
    };
    const { stdout, stderr, status } = run(
      folder,
      '/usr/bin/python3',
      ['-m', 'pytest', '-v', 'test_service.py'],
      env,
    );
    t.equal(status, 0, stdout + stderr);
    for (const each of SHOWN) t.match(stdout, new RegExp(`${each.replaceAll(' ', '_')}.* PASSED`), each);
  },
);

function run(cwd: string, program: string, args: string[], env = {}) {
  return spawnSync(program, args, { cwd, env: bareEnvironment(env), encoding: 'utf8', timeout: 120_000 });
}

function link(folder: string, name: string): void {
  const path = join(folder, 'node_modules', name);
  mkdirSync(dirname(path), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules', name), path);
}
