import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { ROOT } from '../support/documents.ts';

const FOLDER = 'src/infra/crypto/breached-passwords';

interface Script {
  readSource: () => string[];
  renderDigests: (passwords: string[]) => Promise<Buffer>;
}
const { readSource, renderDigests } = (await import(join(ROOT, 'scripts/breached-passwords.mjs'))) as Script;

test('the list of breached passwords is what the script writes', async (t) => {
  const passwords = readSource();
  const written = readFileSync(join(ROOT, FOLDER, 'digests.bin'));
  t.ok((await renderDigests(passwords)).equals(written), 'npm run passwords');

  const long = passwords.filter((password) => Array.from(password).length >= 8);
  const count = (await renderDigests(long)).length / 5;
  t.ok(count >= 100_000, `${count} of 8 or more characters`);
  const notice = readFileSync(join(ROOT, FOLDER, 'README.md'), 'utf8');
  t.match(notice, count.toLocaleString('en'));
});

test('passwords with one list form are one entry', async (t) => {
  t.equal((await renderDigests(['password', 'Passw0rd', 'P@$$word'])).length, 5);
});

test('the build copies the list and its notice', (t) => {
  for (const file of ['digests.bin', 'README.md'])
    t.ok(readFileSync(join(ROOT, FOLDER, file)).equals(readFileSync(join(ROOT, 'dist', FOLDER, file))), file);
  t.end();
});
