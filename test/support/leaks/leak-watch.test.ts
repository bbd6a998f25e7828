// suite: tools
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';

const ROOT = new URL('../../../../', import.meta.url).pathname;
const PLANTED = new URL('planted.js', import.meta.url).pathname;

/** Runs a test file whose instance logs a secret. */
async function run() {
  const secret = `Hunter2-${randomBytes(6).toString('hex')}`;
  const child = spawn(process.execPath, [PLANTED, secret]);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  }
  const [code] = (await once(child, 'close')) as [number];
  return { code, output, secret };
}

test('a leak fails its test file, whose report does not repeat it', async (t) => {
  const { code, output, secret } = await run();
  t.equal(code, 1);
  t.match(output, /the app of "log": LEAK in its log: password: .*‹password›.*"msg":"planted"/);
  t.notOk(output.toLowerCase().includes(secret.toLowerCase()));
});

/** They start no Latchkey, so nothing could be searched. */
const WITHOUT_LATCHKEY = ['test/e2e/testing-page.test.ts', 'test/fuzz/passkeys.test.ts'];

test('every file of the attack, end-to-end and fuzz suites is watched', (t) => {
  const files = ['attack', 'e2e', 'fuzz'].flatMap((suite) =>
    readdirSync(join(ROOT, 'test', suite))
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => join('test', suite, name)),
  );
  t.ok(files.length > 10);
  for (const file of files) {
    const text = readFileSync(join(ROOT, file), 'utf8');
    if (WITHOUT_LATCHKEY.includes(file))
      t.notMatch(text, /support\/(app|service|stores|redis-app)\.ts/, file);
    else t.match(text, "import '../support/watch-leaks.ts';", file);
  }
  t.end();
});
