// `npm run prose` refuses words that make sentences hard to read, in every file that we write: a name for who or what
// acts reads faster (the client, the owner, an attacker, the replica, each, any). It searches the current folder.
import { spawnSync } from 'node:child_process';

/** Each with what to write instead. */
const WORDS = {
  anybody: 'any client',
  everybody: 'every client',
  nobody: 'no client',
  somebody: 'a client',
  whatever: 'any',
  whatsoever: 'any',
  whichever: 'the one that',
  whoever: 'the client that',
  whomever: 'the client that',
  whosoever: 'the client that',
  aforementioned: 'this',
  henceforth: 'from now on',
  hereby: 'so',
  hereof: 'of this',
  heretofore: 'until now',
  hereto: 'to this',
  herewith: 'with this',
  hitherto: 'until now',
  notwithstanding: 'although',
  thence: 'from there',
  thereby: 'so',
  therefrom: 'from it',
  therein: 'in it',
  thereof: 'of it',
  thereto: 'to it',
  thereupon: 'then',
  whence: 'from where',
  whereby: 'by which',
  wherein: 'in which',
  whereof: 'of which',
  whereupon: 'then',
};

/** This list and the test that plants its words; texts that tools made or others wrote; and a system user's name. */
const EXEMPT = [
  'scripts/prose.mjs',
  'test/scripts/prose.test.ts',
  'package-lock.json',
  'docs/openapi.json',
  'LICENSE',
  'packages/agent/LICENSE',
  'packages/client/LICENSE',
  'packages/load/LICENSE',
  'packages/verifier/LICENSE',
  'scripts/confusables.mjs',
  'src/domain/users/confusables-table.ts',
  'src/infra/embedded/server-account.ts',
];

const pattern = `\\b(${Object.keys(WORDS).join('|')})`;
const words = ['grep', '--no-index', '--exclude-standard', '-nioIE', pattern, '--', '.'];
const { status, stdout, stderr } = spawnSync(
  'git',
  [...words, ...EXEMPT.map((path) => `:(exclude)${path}`)],
  {
    encoding: 'utf8',
  },
);
for (const line of stdout?.trim().split('\n').filter(Boolean) ?? []) {
  const word = line.split(':').at(-1) ?? '';
  process.stdout.write(`${line}: write "${WORDS[word.toLowerCase()]}", or name who or what acts\n`);
}
if (status !== 1 && status !== 0) process.stderr.write(`git grep failed: ${stderr ?? 'is git installed?'}\n`);
process.exitCode = status === 1 ? 0 : 1;
