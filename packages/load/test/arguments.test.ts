import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { readArguments as read, readMergeArguments } from '../src/arguments.ts';
import { SCENARIO_NAMES } from '../src/scenarios.ts';
import { testFolder } from '../../../test/support/folder.ts';
import { listAccounts } from './listed-accounts.ts';

/** As in the repository. */
const readArguments = (words: string[], env: Record<string, string>) => read(words, env, listAccounts);

const THEIRS = [
  'https://auth.example.com',
  'http://10.0.0.7:3000',
  'http://127.0.0.1.example.com',
  'http://[::2]',
];
const OURS = ['http://127.0.0.1:3000', 'http://localhost:3000', 'http://[::1]:3000', 'http://127.9.9.9'];

test('only loopback may be a target, unless the caller owns it', (t) => {
  for (const url of THEIRS) {
    t.throws(() => readArguments(['mixed-day', '--url', url], {}), /is not this machine/, url);
    t.match(readArguments(['mixed-day', '--url', url, '--yes-i-own-this'], {}), { url });
  }
  for (const url of OURS) t.match(readArguments(['mixed-day', '--url', url], {}), { url });
  t.end();
});

test('a target is an origin', (t) => {
  for (const url of [
    'localhost:3000',
    'ftp://localhost',
    'http://localhost/api',
    'http://me:secret@localhost',
    'http://:secret@localhost',
    'htp://me:secret@localhost',
    'http://me:secret@localhost:99999',
    'http://localhost/#fragment',
    'http://[::1',
  ])
    t.throws(() => readArguments(['mixed-day', '--url', url], {}), /--url(?!.*secret)/, url);
  t.end();
});

test('every scenario has defaults; variables change them, and options come first', (t) => {
  for (const scenario of SCENARIO_NAMES) {
    const usual = readArguments([scenario], {});
    t.match(usual, { scenario, url: null, lost: 0.02 });
    t.match(usual, { connections: scenario === 'herd' ? 10_000 : 256 });
    const env = { LOAD_USERS: '7', LOAD_SECONDS: '3', LOAD_RATE: '5', LOAD_LOST: '0', LOAD_CONNECTIONS: '9' };
    const changed = { users: 7, seconds: 3, lost: 0, connections: 9 };
    t.match(readArguments([scenario], env), changed);
    t.match(readArguments([scenario, '--users', '8', '--seconds', '4'], env), { users: 8, seconds: 4 });
  }
  t.match(readArguments(['mixed-day'], { LOAD_RATE: '5' }), { rate: 5 });
  t.match(readArguments(['mixed-day', '--rate', '6'], { LOAD_RATE: '5' }), { rate: 6 });
  t.end();
});

test('figures that make no sense are refused by name', (t) => {
  for (const [option, value] of [
    ['--users', '0'],
    ['--seconds', '-1'],
    ['--rate', 'fast'],
    ['--rate', 'Infinity'],
    ['--seconds', '1e999'],
  ] as const)
    t.throws(() => readArguments(['mixed-day', `${option}=${value}`], {}), new RegExp(option));
  for (const [words, problem] of [
    [['--rate', '-1'], /^--rate: its value may not begin with a dash$/],
    [['--rates', '1'], /^Unknown option '--rates'$/],
    [['--rate'], /^Option '--rate <value>' argument missing$/],
  ] as const)
    t.throws(() => readArguments(['mixed-day', ...words], {}), { message: problem });
  t.throws(() => readArguments(['mixed-day'], { LOAD_LOST: '1' }), /LOAD_LOST/);
  t.throws(() => readArguments(['mixed-day', '--users', '20000000'], {}), /--users: .* maximum/);
  t.throws(() => readArguments(['mixed-day', 'verify-heavy'], {}), /one scenario/);
  t.end();
});

test('thresholds are milliseconds and a share; a merge takes them too', (t) => {
  const none = { max_p99_ms: null, max_errors: null, max_late_ms: null };
  t.strictSame(readArguments(['mixed-day'], {}).thresholds, none);
  const words = ['--max-p99', '250', '--max-errors=0', '--max-late', '0.5'];
  const thresholds = { max_p99_ms: 250, max_errors: 0, max_late_ms: 0.5 };
  t.strictSame(readArguments(['mixed-day', ...words], {}).thresholds, thresholds);
  t.strictSame(readMergeArguments(['a', 'b/report.json', ...words]), {
    reports: ['a', 'b/report.json'],
    thresholds,
    report: 'reports/merged',
  });
  for (const [option, value, problem] of [
    ['--max-p99', 'fast', /^--max-p99: give milliseconds, not "fast"$/],
    ['--max-errors', '5', /^--max-errors: give a share from 0 to 1, not "5"$/],
    ['--max-late', '', /^--max-late: give milliseconds/],
    ['--max-p99', '-1', /^--max-p99: give milliseconds/],
  ] as const)
    t.throws(() => readArguments(['mixed-day', `${option}=${value}`], {}), problem);
  t.throws(() => readArguments(['mixed-day', '--max-p99', '-1'], {}), /^--max-p99: its value may not begin/);
  t.throws(() => readArguments(['herd', '--max-late', '5'], {}), /^--max-late: the herd/);
  t.throws(() => readMergeArguments([]), /^merge: name the reports/);
  t.throws(() => readMergeArguments(['a', '--url', 'http://127.0.0.1']), /^Unknown option '--url'$/);
  t.end();
});

test('herd accepts no URL: it makes an outage', (t) => {
  t.throws(() => readArguments(['herd', '--url', 'http://127.0.0.1:3000'], {}), /service of its own/);
  t.end();
});

const URL = ['--url', 'http://127.0.0.1:3000'];
const ID = { LATCHKEY_CLIENT_ID: 'lkc_1' };

test('the package alone needs a service, and accounts there', (t) => {
  t.throws(() => read(['mixed-day'], {}), /^--url is missing/);
  t.throws(() => read(['herd', ...URL], {}), /name one scenario: (?!.*herd)/);
  t.throws(() => read(['mixed-day', ...URL], {}), /set LATCHKEY_CLIENT_ID.*--sign-up or --accounts/);
  t.match(
    read(['mixed-day', '--sign-up', ...URL], ID),
    { accounts: { from: 'sign-up' } },
    'options come first',
  );
  t.throws(() => readArguments(['mixed-day', '--sign-up'], {}), /^--url is missing/);
  t.match(readArguments(['mixed-day', ...URL], {}).accounts, {
    from: 'list',
    hint: 'add the users to the service',
  });
  t.equal(readArguments(['mixed-day'], ID).accounts, null, 'a service of its own');
  t.end();
});

test('a client is an id and a secret, from the environment or a file', (t) => {
  const file = join(testFolder(t), 'secret');
  writeFileSync(file, 'lks_1\n');
  const client = { clientId: 'lkc_1', secret: 'lks_1' };
  for (const secret of [{ LATCHKEY_CLIENT_SECRET: 'lks_1' }, { LATCHKEY_CLIENT_SECRET_FILE: file }])
    t.match(read(['mixed-day', ...URL], { ...ID, ...secret }), { accounts: { from: 'client', client } });
  for (const [env, problem] of [
    [ID, /one of LATCHKEY_CLIENT_SECRET and/],
    [{ LATCHKEY_CLIENT_SECRET: 'lks_1' }, /set LATCHKEY_CLIENT_ID/],
    [{ ...ID, LATCHKEY_CLIENT_SECRET: 'lks_1', LATCHKEY_CLIENT_SECRET_FILE: file }, /one of/],
    [{ ...ID, LATCHKEY_CLIENT_SECRET_FILE: `${file}s` }, /LATCHKEY_CLIENT_SECRET_FILE: cannot read .*ENOENT/],
  ] as const)
    t.throws(() => read(['mixed-day', ...URL], env), problem);
  t.end();
});

test('white space and byte order marks around variables and files do not count', (t) => {
  const file = join(testFolder(t), 'secret');
  writeFileSync(file, '\ufefflks_1\r\n');
  const env = { LATCHKEY_CLIENT_ID: '\ufefflkc_1\n', LATCHKEY_CLIENT_SECRET: ' \n', LOAD_USERS: ' 7\r\n' };
  t.match(read(['mixed-day', ...URL], { ...env, LATCHKEY_CLIENT_SECRET_FILE: `${file}\n` }), {
    accounts: { from: 'client', client: { clientId: 'lkc_1', secret: 'lks_1' } },
    users: 7,
  });
  t.end();
});

test('a file of accounts has usernames and passwords, in any form that a login takes', (t) => {
  const file = join(testFolder(t), 'accounts');
  const ofFile = (text: string, ...words: string[]) => {
    writeFileSync(file, text);
    return read(['mixed-day', '--accounts', file, ...URL, ...words], {});
  };
  const list = [
    { username: 'ada', password: 'a,b' },
    { username: 'bob', password: ' c' },
  ];
  t.match(ofFile('Ada,a,b\r\n\nbob, c\n'), { users: 2, accounts: { from: 'list', list } });
  t.match(ofFile('ada,x\nbob,y\n', '--users', '1'), { users: 1 });
  t.throws(() => ofFile('ada,x\n', '--users', '2'), /--users: 2, and --accounts has 1/);
  t.throws(() => ofFile('\n'), /has no line/);
  for (const wrong of ['secret', 'ada@example.com,secret', ',secret', 'secret,'])
    t.throws(() => ofFile(`ada,x\n${wrong}\n`), /line 2: give username,password(?!.*secret)/, wrong);
  t.throws(() => ofFile('ada,x\n', '--sign-up'), /take one/);
  t.throws(
    () => read(['mixed-day', ...URL, '--accounts', `${file}s`], {}),
    /--accounts: cannot read .*ENOENT/,
  );
  t.end();
});
