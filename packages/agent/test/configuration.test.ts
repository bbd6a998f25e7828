import { writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import type { ConfigurationError } from '../src/configuration.ts';
import { readConfiguration } from '../src/configuration.ts';
import type { Environment } from '../src/environment.ts';
import { testFolder } from '../../../test/support/folder.ts';

const SECRET = { LATCHKEY_CLIENT_ID: 'lkc_1', LATCHKEY_CLIENT_SECRET: 'lks_1' };
const NO_SECRET = { LATCHKEY_CLIENT_ID: '', LATCHKEY_CLIENT_SECRET: '' };
const LEAST = { LATCHKEY_URL: 'https://id.example', LATCHKEY_AUDIENCE: 'shop', ...SECRET };

function problemsOf(env: Environment): readonly string[] {
  try {
    readConfiguration({ ...LEAST, ...env });
    return [];
  } catch (error) {
    return (error as ConfigurationError).message.split('\n');
  }
}

test('four variables are enough, and an empty one is missing', (t) => {
  const expected = {
    verifier: {
      url: 'https://id.example',
      issuer: 'https://id.example',
      audience: 'shop',
      client: { id: 'lkc_1', secret: 'lks_1' },
      accept: ['access', 'llt'],
      maxStaleness: 120,
      whenStale: 'introspect',
      reader: { instance: hostname(), software: '@latchkey/agent' },
    },
    credentials: 'LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET',
    listen: { host: '127.0.0.1', port: 4181 },
    ops: { host: '127.0.0.1', port: 4182 },
  };
  t.strictSame(readConfiguration(LEAST), expected);
  const empty = [
    'LATCHKEY_ISSUER',
    'LATCHKEY_CLIENT_TOKEN_FILE',
    'AGENT_ACCEPT',
    'AGENT_INSTANCE',
    'AGENT_LISTEN',
  ];
  t.strictSame(
    readConfiguration({ ...LEAST, ...Object.fromEntries(empty.map((name) => [name, ''])) }),
    expected,
  );
  t.end();
});

test('takes what is given', async (t) => {
  const folder = testFolder(t);
  const [secret, token] = [join(folder, 'secret'), join(folder, 'token')];
  writeFileSync(secret, ' lks_2\n');
  writeFileSync(token, 'one');
  const given = readConfiguration({
    ...LEAST,
    LATCHKEY_CLIENT_SECRET: '',
    LATCHKEY_CLIENT_SECRET_FILE: secret,
    LATCHKEY_ISSUER: 'http://id.example',
    AGENT_ACCEPT: 'access, service',
    AGENT_MAX_STALENESS: '0',
    AGENT_WHEN_STALE: 'refuse',
    AGENT_INSTANCE: 'shop-7d4f9:1',
    AGENT_LISTEN: '[::1]:1',
    AGENT_OPS_LISTEN: '0.0.0.0:65535',
  });
  t.match(given, {
    verifier: {
      issuer: 'http://id.example',
      client: { id: 'lkc_1', secret: 'lks_2' },
      accept: ['access', 'service'],
      maxStaleness: 0,
      whenStale: 'refuse',
      reader: { instance: 'shop-7d4f9:1' },
    },
    credentials: 'LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET_FILE',
    listen: { host: '::1', port: 1 },
    ops: { host: '0.0.0.0', port: 65_535 },
  });
  const { client } = readConfiguration({
    ...LEAST,
    ...NO_SECRET,
    LATCHKEY_CLIENT_TOKEN_FILE: token,
  }).verifier;
  t.equal(await client.assertion?.(), 'one');
  writeFileSync(token, 'two');
  t.equal(await client.assertion?.(), 'two', 'at each use');
});

test('white space and byte order marks around variables and files do not count', (t) => {
  const secret = join(testFolder(t), 'secret');
  writeFileSync(secret, '\ufeff lks_1\r\n');
  const plain = { ...LEAST, LATCHKEY_ISSUER: 'https://issuer.example', AGENT_ACCEPT: 'access', ...NO_SECRET };
  const expected = readConfiguration({ ...plain, ...SECRET });
  const around = (given: Environment) =>
    Object.fromEntries(Object.entries(given).map(([name, value]) => [name, `\ufeff ${value}\t\r\n`]));
  t.strictSame(readConfiguration(around({ ...plain, ...SECRET })), expected);
  const { LATCHKEY_CLIENT_ID } = SECRET;
  const byFile = around({ ...plain, LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET_FILE: secret });
  t.strictSame(readConfiguration(byFile).verifier, expected.verifier);
  t.match(problemsOf({ LATCHKEY_URL: ' \ufeff\n' }), [/it is missing$/]);
  t.end();
});

test('names each variable that is wrong', (t) => {
  const folder = testFolder(t);
  const [file, empty] = [join(folder, 'file'), join(folder, 'empty')];
  writeFileSync(file, 'text');
  writeFileSync(empty, '\n');
  const rows: [env: Environment, problem: RegExp | string][] = [
    [{ LATCHKEY_URL: '' }, /^LATCHKEY_URL must be the http\(s\) URL of Latchkey, .*: it is missing$/],
    [{ LATCHKEY_URL: 'ftp://id.example' }, /^LATCHKEY_URL .*: found ftp:\/\/id\.example$/],
    [{ LATCHKEY_URL: 'redis://ada:pass@id.example' }, /^LATCHKEY_URL .*: found a text with @$/],
    [{ LATCHKEY_ISSUER: 'id.example' }, /^LATCHKEY_ISSUER /],
    // fetch refuses a URL with a user, and paths would be appended to the query.
    ...[
      'https://ada@id.example',
      'https://id.example/?x',
      'https://id.example#x',
      'https://id. example',
      'http://[::1',
    ].map((url): [Environment, RegExp] => [{ LATCHKEY_URL: url }, /^LATCHKEY_URL must be /]),
    [{ LATCHKEY_AUDIENCE: '' }, /^LATCHKEY_AUDIENCE .* missing$/],
    [
      { AGENT_ACCEPT: 'access,refresh' },
      /^AGENT_ACCEPT must be a list of access, llt, service: found access,refresh$/,
    ],
    [{ AGENT_MAX_STALENESS: '-1' }, /^AGENT_MAX_STALENESS /],
    [{ AGENT_WHEN_STALE: 'ask' }, 'AGENT_WHEN_STALE must be introspect, refuse, accept: found ask'],
    ...['shop 1', 'shop/1', 'x'.repeat(129)].map((instance): [Environment, RegExp] => [
      { AGENT_INSTANCE: instance },
      /^AGENT_INSTANCE must be 1 to 128 of /,
    ]),
    ...[
      '0.0.0.0:4181',
      '10.0.0.7:4181',
      '[::]:4181',
      'localhost:4181',
      '127.0.0.1',
      '127.0.0.1:65536',
      '::1:4181',
    ].map((listen): [Environment, RegExp] => [
      { AGENT_LISTEN: listen },
      /^AGENT_LISTEN must be a loopback address and a port/,
    ]),
    [{ AGENT_OPS_LISTEN: 'ops:4182' }, /^AGENT_OPS_LISTEN /],
    [{ ...NO_SECRET }, /^Set exactly one of these: .*: found none of them$/],
    [{ LATCHKEY_CLIENT_ID: '' }, /: found LATCHKEY_CLIENT_SECRET$/],
    [
      { LATCHKEY_CLIENT_SECRET_FILE: file },
      /: found LATCHKEY_CLIENT_ID, .*SECRET, LATCHKEY_CLIENT_SECRET_FILE$/,
    ],
    [{ LATCHKEY_CLIENT_TOKEN_FILE: file }, /: found LATCHKEY_CLIENT_ID, .*, LATCHKEY_CLIENT_TOKEN_FILE$/],
    [
      { LATCHKEY_CLIENT_SECRET: '', LATCHKEY_CLIENT_SECRET_FILE: empty },
      `LATCHKEY_CLIENT_SECRET_FILE must name a file with text: found ${empty}: an empty file`,
    ],
    [
      { ...NO_SECRET, LATCHKEY_CLIENT_TOKEN_FILE: '/none/token' },
      /^LATCHKEY_CLIENT_TOKEN_FILE .*: found \/none\/token: no such file or directory$/,
    ],
    [
      { ...NO_SECRET, LATCHKEY_CLIENT_TOKEN_FILE: folder },
      /^LATCHKEY_CLIENT_TOKEN_FILE .*: illegal operation on a directory$/,
    ],
    [
      { LATCHKEY_CLIENT_SECRET: '', LATCHKEY_CLIENT_SECRET_FILE: 'lks_1' },
      'LATCHKEY_CLIENT_SECRET_FILE must name a file with text: found no absolute path: no such file or directory',
    ],
  ];
  for (const [env, problem] of rows) {
    const problems = problemsOf(env);
    t.equal(problems.length, 1, JSON.stringify(env));
    t.match(problems[0], problem);
  }
  t.equal(
    problemsOf({ LATCHKEY_URL: '', LATCHKEY_AUDIENCE: '', AGENT_ACCEPT: 'x' }).length,
    3,
    'all at once',
  );
  t.end();
});
