// suite: e2e
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import tap, { test, type Test } from 'tap';
import { bareEnvironment } from '../../../test/support/environment.ts';
import { testFolder } from '../../../test/support/folder.ts';
import type { Report } from '../src/report.ts';
import { listedAccount } from './listed-accounts.ts';
import { startStub, type PlantedFault } from './stub-service.ts';

const LOAD = new URL('../src/main.js', import.meta.url).pathname;

const LISTED = ['--accounts', listOf(20)];

function listOf(users: number): string {
  const file = join(testFolder(tap), 'accounts.csv');
  const accounts = Array.from({ length: users }, (_, i) => listedAccount(i));
  writeFileSync(file, accounts.map(({ username, password }) => `${username},${password}\n`).join(''));
  return file;
}

/** Runs the command. @param env more variables. */
async function load(words: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [LOAD, ...words], {
    env: bareEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve));
  return { code: child.exitCode, stdout, stderr };
}

/** A short run against a service with this fault, in which devices lose many answers. */
async function runAgainst(t: Test, fault: PlantedFault, scenario = 'mixed-day') {
  const folder = testFolder(t);
  const url = await startStub(t, fault);
  const words = [scenario, '--url', url, ...LISTED, '--users', '20', '--rate', '300', '--seconds', '1'];
  const ran = await load([...words, '--report', folder], { LOAD_LOST: '0.1' });
  const read = (name: string) => readFileSync(join(folder, name), 'utf8');
  return { ...ran, report: JSON.parse(read('report.json')) as Report, page: read('report.html') };
}

test('a service that keeps its promises passes, although devices lose answers', async (t) => {
  const { code, stdout, stderr, report, page } = await runAgainst(t, 'none');
  t.equal(stderr, '');
  t.equal(code, 0, stdout);
  t.strictSame(Object.values(report.correctness), [0, 0, 0, 0, 0]);
  for (const count of Object.values(report.judged)) t.ok(count > 0, 'all was judged');
  t.ok(report.totals.lost_on_purpose > 0);
  t.equal(report.settings.users, 20);
  t.ok(report.over_time.length > 0);
  t.match(page, 'new uPlot(');
  const others = page.replace('/*! https://github.com/leeoniya/uPlot', '');
  t.notMatch(others, /<(link|img)|\ssrc=|https?:\/\/(?!127)/, 'the page loads nothing');
  t.notMatch(stdout, '\u001b', 'plain lines without a terminal');
});

const FAULTS = [
  ['accepts ended tokens', 'revoked_accepted'],
  ['refuses good tokens', 'good_refused'],
  ['repeats pairs', 'duplicate_ids'],
  ['signs out', 'sign_outs'],
  ['logs in as another user', 'wrong_user'],
  ['refreshes as another user', 'wrong_user'],
  ['verifies as another user', 'wrong_user'],
] as const;

for (const [fault, count] of FAULTS)
  test(`a service that ${fault} fails the run, and the report says so`, async (t) => {
    const { code, stderr, report, page } = await runAgainst(t, fault);
    t.equal(code, 1);
    t.ok(report.correctness[count] > 0, JSON.stringify(report.correctness));
    t.match(stderr, `failed: ${count}: `);
    t.ok(report.findings.some(({ promise }) => promise === count));
    t.match(page, 'class="verdict bad"');
    if (fault === 'accepts ended tokens')
      t.match(report.findings[0], { promise: count, text: /^the access token .* was accepted$/ });
  });

test('an operation that never succeeds fails the run', async (t) => {
  // A short mixed day may draw no logout.
  const { code, stderr, page } = await runAgainst(t, 'fails at logouts', 'login-storm');
  t.equal(code, 1);
  t.match(stderr, /^failed: logout never succeeded: \d+ × 500\n$/);
  t.match(page, 'logout never succeeded');
});

test('thresholds decide the exit code, of a run and of the merge of several', async (t) => {
  const folder = testFolder(t);
  const url = await startStub(t, 'none');
  const reports = [join(folder, 'a'), join(folder, 'b')] as const;
  const words = ['mixed-day', '--url', url, ...LISTED, '--users', '20', '--rate', '300', '--seconds', '1'];
  const { code, stderr } = await load([...words, '--report', reports[0], '--max-p99', '0']);
  t.equal(code, 1);
  t.match(stderr, /^failed: the p99 is [\d.]+ ms, above --max-p99 0\n$/);
  const one = JSON.parse(readFileSync(join(reports[0], 'report.json'), 'utf8')) as Report;
  // Another generator of the same moment.
  mkdirSync(reports[1]);
  const machine = { ...one.machine, cpu: 'another' };
  writeFileSync(join(reports[1], 'report.json'), JSON.stringify({ ...one, machine }));

  const merged = join(folder, 'merged');
  t.match(await load(['merge', ...reports, '--report', merged]), { code: 1, stderr: /--max-p99 0\n$/ });
  t.match(await load(['merge', ...reports, '--report', merged, '--max-p99', '9999']), {
    code: 0,
    stderr: '',
  });
  const read = (name: string) => readFileSync(join(merged, name), 'utf8');
  const all = JSON.parse(read('report.json')) as Report;
  t.equal(all.totals.requests, 2 * one.totals.requests);
  t.match(all, { generators: 2, settings: { users: 40, rate: 600 } });
  t.match(read('report.html'), 'class="verdict good"');
  const [head, first] = read('operations.csv').split('\n');
  t.match(head, /^operation,requests,.*,p95_ms,p99_ms,p99\.9_ms,max_ms$/);
  t.ok(first?.startsWith(`all,${all.totals.requests},`));
  t.equal(read('over-time.csv').trim().split('\n').length, 1 + all.over_time.length);
});

test('a device that cannot go on ends the run with a message', async (t) => {
  const url = await startStub(t, 'sends tokens that are none');
  const words = [
    'login-storm',
    '--url',
    url,
    ...LISTED,
    '--users',
    '20',
    '--rate',
    '300',
    '--seconds',
    '600',
  ];
  const { code, stderr } = await load([...words, '--report', testFolder(t)]);
  t.equal(code, 1);
  t.match(stderr, /^a device cannot go on, so the run ended: .*JSON/);
  t.notMatch(stderr, '    at ', 'a message, not a stack');
});

test('a run in which nothing is answered fails', async (t) => {
  const words = ['mixed-day', '--url', 'http://127.0.0.1:1', ...LISTED, '--seconds', '1'];
  const { code, stderr } = await load([...words, '--report', testFolder(t)]);
  t.equal(code, 1);
  t.match(
    stderr,
    /^http:\/\/127\.0\.0\.1:1 does not answer: .*ECONNREFUSED.* Check --url[^\n]+\n$/,
    'one line',
  );
});

test('wrong arguments are exit code 2, with the usage', async (t) => {
  for (const words of [[], ['no-such-scenario'], ['mixed-day', '--users', 'many'], ['mixed-day', '--what']]) {
    const { code, stderr } = await load(words);
    t.equal(code, 2, words.join(' '));
    t.match(stderr, '\n\nlatchkey-load SCENARIO');
  }
});

test('help and version are asked for, not mistakes', async (t) => {
  const help = await load(['--help']);
  t.match(help, { code: 0, stderr: '' });
  t.match(help.stdout, /^latchkey-load SCENARIO[^]*--yes-i-own-this/);
  const { version } = JSON.parse(readFileSync('packages/load/package.json', 'utf8')) as { version: string };
  t.strictSame(await load(['--version']), { code: 0, stdout: `${version}\n`, stderr: '' });
});

test('a folder that cannot hold the report is refused before the run', async (t) => {
  const file = join(testFolder(t), 'file');
  writeFileSync(file, '');
  const url = await startStub(t, 'none');
  const { code, stdout, stderr } = await load([
    'mixed-day',
    '--url',
    url,
    ...LISTED,
    '--report',
    join(file, 'reports'),
  ]);
  t.strictSame({ code, stdout }, { code: 1, stdout: '' });
  t.match(stderr, /^--report: cannot write to .*file\/reports: ENOTDIR\n$/);
});

test('plain http beyond this machine is warned of', async (t) => {
  const words = ['mixed-day', ...LISTED, '--report', testFolder(t), '--yes-i-own-this', '--url'];
  t.match((await load([...words, 'http://0.0.0.0:1'])).stdout, /0\.0\.0\.0:1 is not encrypted: .*https/);
  for (const url of ['http://127.0.0.1:1', 'https://0.0.0.0:1'])
    t.equal((await load([...words, url])).stdout, '', url);
});

test('a service beyond this machine is refused without the caller’s word', async (t) => {
  const { code, stderr } = await load(['mixed-day', '--url', 'https://auth.example.com']);
  t.equal(code, 2);
  t.match(stderr, '--yes-i-own-this');
});
