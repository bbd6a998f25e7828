import { test } from 'tap';
import { readArguments } from './arguments.ts';
import { SCENARIO_NAMES } from './scenarios.ts';

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
  ])
    t.throws(() => readArguments(['mixed-day', '--url', url], {}), /--url/, url);
  t.end();
});

test('every scenario has defaults; variables change them, and options come first', (t) => {
  for (const scenario of SCENARIO_NAMES) {
    const usual = readArguments([scenario], {});
    t.match(usual, { command: 'run', scenario, url: null, lost: 0.02 });
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
  ] as const)
    t.throws(() => readArguments(['mixed-day', `${option}=${value}`], {}), new RegExp(option));
  t.throws(() => readArguments(['mixed-day'], { LOAD_LOST: '1' }), /LOAD_LOST/);
  t.throws(() => readArguments(['mixed-day', '--users', '20000000'], {}), /--users: .* maximum/);
  t.throws(() => readArguments(['seed'], {}), /--users/);
  t.throws(() => readArguments(['seed', '--users', '5', '--url', 'http://localhost'], {}), /--url/);
  t.throws(() => readArguments(['mixed-day', 'verify-heavy'], {}), /one scenario/);
  t.end();
});

test('herd accepts no URL: it makes an outage', (t) => {
  t.throws(() => readArguments(['herd', '--url', 'http://127.0.0.1:3000'], {}), /service of its own/);
  t.end();
});
