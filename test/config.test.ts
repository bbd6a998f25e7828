import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { ConfigError, loadConfig, type Environment } from '../src/config.ts';
import { aSecret, KEYS } from './support/keys.ts';

const GIB = 1024 ** 3;

/** What is wrong with an environment, in a machine with memory to spare. */
function problemsOf(env: Environment, memory = 64 * GIB): string[] {
  try {
    loadConfig(env, memory);
    return [];
  } catch (error) {
    if (error instanceof ConfigError) return [...error.problems];
    throw error;
  }
}

function aFolder(t: Test, files: Record<string, string> = {}): string {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-config-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

test('nothing at all is a configuration: the embedded defaults, each with its line', (t) => {
  const config = loadConfig({}, GIB);
  t.match(config, { HOST: '127.0.0.1', PORT: 3000, OPS_PORT: 9464, production: false, TRUST_PROXY: null });
  t.match(config, {
    RATE_LIMIT_LOGIN: { count: 30, seconds: 60 },
    ACCESS_TOKEN_TTL: 900,
    SIGNUP_ENABLED: true,
    DOCS_ENABLED: true,
  });
  const named = config.embedded.map((line) => line.split(' ')[0]);
  t.strictSame(named, ['DATABASE_URL', 'REDIS_URL', 'SIGNING_KEYS_DIR', 'REFRESH_TOKEN_SECRET']);
  t.ok(Object.isFrozen(config));
  t.end();
});

test('an empty variable counts as missing', (t) => {
  t.equal(loadConfig({ PORT: '', DATABASE_URL: '', ISSUER: '' }, GIB).PORT, 3000);
  t.end();
});

const BAD: Record<string, string[]> = {
  PORT: ['x', '-1', '65536', '3000.0', '0x10', ' 3000', '1e3'],
  OPS_PORT: ['x'],
  DATABASE_URL: ['x', 'mysql://x/y', 'hunter2'],
  DATABASE_POOL: ['0', '-1'],
  REDIS_URL: ['localhost:6379', 'http://x'],
  REDIS_PREFIX: ['{x}', 'a}', '{'],
  ISSUER: ['x', 'ftp://x', 'https://x/?a=1', 'https://x/#b'],
  ACCESS_TOKEN_TTL: ['0', '15m'],
  REFRESH_TOKEN_TTL: ['0'],
  SESSION_MAX_AGE: ['-1'],
  REFRESH_RETRY_WINDOW: ['-1', '1.5'],
  SIGNUP_ENABLED: ['yes', '1', 'TRUE'],
  DOCS_ENABLED: ['no', '0', 'False'],
  RATE_LIMIT_LOGIN: ['30', '30/0', '0/60', '30/60/1', '-1/60', '30/m'],
  RATE_LIMIT_SIGNUP: ['x'],
  RATE_LIMIT_ALLOW: ['x', '10.0.0.0/33', '::1/129', '10.0.0.1/x', '10.0.0.1,y'],
  TRUST_PROXY: ['true', '1', '*', 'all', '10.0.0.1/8/8', 'x.example.com'],
  SCRYPT_LOG_N: ['0', '25'],
  HASH_QUEUE_TIMEOUT: ['0'],
  LOG_LEVEL: ['loud', 'INFO'],
  REFRESH_TOKEN_SECRET: ['short', 'not base64url: !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!', `${aSecret()},short`],
  SIGNING_KEYS_DIR: ['/nowhere', '/dev/null'],
};

test('what is wrong is named, and its value is not repeated', (t) => {
  for (const [name, values] of Object.entries(BAD)) {
    for (const value of values) {
      const problems = problemsOf({ [name]: value });
      t.equal(problems.length, 1, `${name}=${value}`);
      t.match(problems[0], new RegExp(`^${name}\\b`));
      if (value.length > 4 && name.endsWith('URL')) t.notOk(problems[0]?.includes(value));
    }
  }
  t.end();
});

test('all problems come at once', (t) => {
  const env = Object.fromEntries(Object.entries(BAD).map(([name, values]) => [name, values[0]]));
  const named = problemsOf(env).map((problem) => problem.split(/[ :]/)[0]);
  for (const name of Object.keys(BAD)) t.ok(named.includes(name), name);
  t.end();
});

test('a variable may be the content of a file', (t) => {
  const secret = aSecret();
  const folder = aFolder(t, { url: 'postgres://localhost/x\n', port: '4000\n', secret: `${secret}\n` });
  const config = loadConfig(
    {
      DATABASE_URL_FILE: join(folder, 'url'),
      PORT_FILE: join(folder, 'port'),
      REFRESH_TOKEN_SECRET_FILE: join(folder, 'secret'),
    },
    GIB,
  );
  t.match(config, { DATABASE_URL: 'postgres://localhost/x', PORT: 4000, REFRESH_TOKEN_SECRET: secret });
  t.equal(config.readRefreshSecrets?.(), secret);
  writeFileSync(join(folder, 'secret'), 'another');
  t.equal(config.readRefreshSecrets?.(), 'another', 'as it is now');
  t.match(problemsOf({ PORT: '1', PORT_FILE: join(folder, 'port') }), [/^PORT and PORT_FILE are both set/]);
  t.match(problemsOf({ PORT_FILE: join(folder, 'gone') }), [/^PORT_FILE cannot be read \(ENOENT\)/]);
  t.end();
});

test('production refuses what is missing and what is weak', (t) => {
  const keys = aFolder(t, { '1.pem': KEYS.ES256() });
  const good = {
    NODE_ENV: 'production',
    DATABASE_URL: 'postgres://localhost/x',
    REDIS_URL: 'redis://localhost',
    SIGNING_KEYS_DIR: keys,
    REFRESH_TOKEN_SECRET: aSecret(),
    ISSUER: 'https://auth.example.com',
  };
  t.strictSame(problemsOf(good), []);
  t.strictSame(loadConfig(good, 64 * GIB).embedded, []);
  for (const name of ['DATABASE_URL', 'REDIS_URL', 'SIGNING_KEYS_DIR', 'REFRESH_TOKEN_SECRET', 'ISSUER']) {
    t.strictSame(problemsOf({ ...good, [name]: undefined }), [`${name} is required in production`]);
  }
  const costs = ['17/8/1', '16/8/2', '15/8/3', '14/8/5', '13/8/10', '18/8/1', '17/16/1', '16/8/3'];
  const weak = ['16/8/1', '15/8/2', '14/8/4', '13/8/9', '12/8/16', '17/7/1', '4/8/1'];
  const withCost = (cost: string) => {
    const [SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P] = cost.split('/');
    return problemsOf({ ...good, SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P });
  };
  for (const cost of costs) t.strictSame(withCost(cost), [], cost);
  for (const cost of weak) t.match(withCost(cost), [/^SCRYPT_LOG_N.*OWASP/], cost);
  t.end();
});

test('hashing that cannot fit into memory is refused with the sum', (t) => {
  const env = { HASH_CONCURRENCY: '3', SCRYPT_LOG_N: '17' };
  t.strictSame(problemsOf(env, 512 * 1024 ** 2), []);
  t.match(problemsOf(env, 511 * 1024 ** 2), [
    /^HASH_CONCURRENCY 3 x 128 MiB .* \+ 128 MiB .* = 512 MiB, but the memory limit is 511 MiB$/,
  ]);
  t.end();
});

test('hashing may not take every thread that DNS look-ups need', (t) => {
  t.strictSame(problemsOf({ HASH_CONCURRENCY: '3' }), []);
  t.match(problemsOf({ HASH_CONCURRENCY: '4' }), [/UV_THREADPOOL_SIZE to 6/]);
  t.strictSame(problemsOf({ HASH_CONCURRENCY: '4', UV_THREADPOOL_SIZE: '6' }), []);
  t.end();
});

test('keys that cannot be used are found at the start, and nothing of them is said', (t) => {
  const broken = aFolder(t, { '1.pem': 'hunter2' });
  t.match(problemsOf({ SIGNING_KEYS_DIR: broken }), [/^SIGNING_KEYS_DIR: 1\.pem is not/]);
  t.match(problemsOf({ SIGNING_KEYS_DIR: aFolder(t) }), [/^SIGNING_KEYS_DIR: the folder holds no/]);
  t.end();
});

test('proxies and networks are read', (t) => {
  const config = loadConfig(
    { TRUST_PROXY: 'loopback, 10.0.0.0/8', RATE_LIMIT_ALLOW: '10.1.0.0/16,::1' },
    GIB,
  );
  t.strictSame(config.TRUST_PROXY, ['loopback', '10.0.0.0/8']);
  t.ok(config.RATE_LIMIT_ALLOW.check('10.1.2.3'));
  t.notOk(config.RATE_LIMIT_ALLOW.check('10.2.2.3'));
  t.ok(config.RATE_LIMIT_ALLOW.check('::1', 'ipv6'));
  t.end();
});
