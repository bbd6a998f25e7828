import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { loadConfig, loadSettings, type Environment } from '../../src/config/config.ts';
import { problemsOf } from '../support/config-problems.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';

const GIB = 1024 ** 3;

function aFolder(t: Test, files: Record<string, string> = {}): string {
  const folder = testFolder(t);
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  return folder;
}

test('an empty environment gives the embedded defaults, with one line for each', (t) => {
  const config = loadConfig({}, GIB);
  t.match(config, { HOST: '127.0.0.1', PORT: 3000, OPS_PORT: 9464, production: false, TRUST_PROXY: null });
  t.match(config, {
    RATE_LIMIT_LOGIN: { count: 30, seconds: 60 },
    ACCESS_TOKEN_TTL: 900,
    SIGNUP_ENABLED: true,
    LLT_ENABLED: true,
    LLT_MAX_AGE: 0,
    LLT_LOGIN_MAX_AGE: 0,
    LIMITED_TOKENS_ENABLED: true,
    LIMITED_TOKEN_MAX_AGE: 31_536_000,
    RESERVED_USERNAMES: ['admin', 'administrator', 'root', 'support', 'security', 'system'],
    DOCS_ENABLED: true,
  });
  const named = config.embedded.map((line) => line.split(' ')[0]);
  t.strictSame(named, [
    'DATABASE_URL',
    'REDIS_URL',
    'SIGNING_KEYS_DIR',
    'REFRESH_TOKEN_SECRET',
    'FACTOR_KEYS',
  ]);
  t.ok(Object.isFrozen(config));
  t.end();
});

test('an empty variable counts as missing', (t) => {
  t.equal(loadConfig({ PORT: '', DATABASE_URL: '', ISSUER: '' }, GIB).PORT, 3000);
  t.end();
});

test('white space and byte order marks around variables and files do not count', (t) => {
  const secret = aSecret();
  const folder = aFolder(t, { secret: `\ufeff${secret}\r\n`, blank: '\ufeff \n', '1.pem': KEYS.ES256() });
  const env = {
    NODE_ENV: '\ufeffproduction\n',
    DATABASE_URL: ' postgres://localhost/latchkey\n',
    REDIS_URL: '\tredis://localhost\r\n',
    ISSUER: '\ufeff https://auth.example.com \n',
    SIGNING_KEYS_DIR: `${folder}\n`,
    REFRESH_TOKEN_SECRET: ' \n',
    REFRESH_TOKEN_SECRET_FILE: ` ${folder}/secret\n`,
    PORT: ' 3001\n',
  };
  const { production, DATABASE_URL, ISSUER, PORT, readRefreshSecrets } = loadConfig(env, GIB);
  t.strictSame(
    { production, DATABASE_URL, ISSUER, PORT, secret: readRefreshSecrets?.() },
    {
      production: true,
      DATABASE_URL: 'postgres://localhost/latchkey',
      ISSUER: 'https://auth.example.com',
      PORT: 3001,
      secret,
    },
  );
  for (const blank of [' ', '\ufeff', '\r\n'])
    t.match(problemsOf({ ...env, ISSUER: blank }), ['ISSUER is required in production']);
  const empty = { REFRESH_TOKEN_SECRET_FILE: `${folder}/blank` };
  t.match(problemsOf({ ...env, ...empty }), ['REFRESH_TOKEN_SECRET is required in production']);
  // libuv, which reads it too, takes one thread for the first.
  t.match(problemsOf({ UV_THREADPOOL_SIZE: '\ufeff8' }), ['UV_THREADPOOL_SIZE must be a whole number']);
  t.strictSame(problemsOf({ HASH_CONCURRENCY: '4', UV_THREADPOOL_SIZE: ' 6\n' }), []);
  t.end();
});

const BAD: Record<string, string[]> = {
  PORT: ['x', '-1', '65536', '3000.0', '0x10', '3 000', '1e3'],
  OPS_PORT: ['x'],
  DATABASE_URL: ['x', 'mysql://x/y', 'hunter2'],
  DATABASE_POOL: ['0', '-1'],
  REDIS_URL: ['localhost:6379', 'http://x'],
  REDIS_PREFIX: ['{x}', 'a}', '{'],
  ISSUER: ['x', 'ftp://x', 'http:x', 'https:/x', 'https://x/?a=1', 'https://x/#b'],
  ACCESS_TOKEN_TTL: ['0', '15m'],
  REFRESH_TOKEN_TTL: ['0'],
  SERVICE_TOKEN_TTL: ['59', '3601'],
  SESSION_MAX_AGE: ['-1'],
  REFRESH_RETRY_WINDOW: ['-1', '1.5'],
  SIGNUP_ENABLED: ['yes', '1', 'TRUE'],
  LLT_ENABLED: ['no', '0'],
  LLT_MAX_AGE: ['-1', '1d', '400000000'],
  LLT_LOGIN_MAX_AGE: ['-1', '1.5', 'never'],
  LIMITED_TOKENS_ENABLED: ['no', '0'],
  LIMITED_TOKEN_MAX_AGE: ['59', '0', '1y', '400000000'],
  // Else software that is set to it would take limited tokens for the users' own.
  AUDIENCE: ['latchkey#limited', '#limited', 'a#limited#limited'],
  RESERVED_USERNAMES: ['a b', 'admin,a@b', 'x'.repeat(65)],
  DOCS_ENABLED: ['no', '0', 'False'],
  RATE_LIMIT_LOGIN: ['30', '30/0', '0/60', '30/60/1', '-1/60', '30/m'],
  RATE_LIMIT_SIGNUP: ['x'],
  RATE_LIMIT_ACCOUNT: ['10', '10/0', '0/900'],
  RATE_LIMIT_NETWORK: ['x'],
  RATE_LIMIT_SIGNUP_NETWORK: ['100', '0/3600'],
  RATE_LIMIT_LLT: ['100', '100/0', '0/3600', '100/h'],
  RATE_LIMIT_LLT_NETWORK: ['1000', '0/3600'],
  RATE_LIMIT_PROFILE: ['60', '60/0'],
  SHED_REDIS_MEMORY: ['101', '-1', '85%'],
  RATE_LIMIT_ALLOW: ['x', '10.0.0.0/33', '::1/129', '10.0.0.0/', '10.0.0.1/x', '10.0.0.1,y'],
  TRUST_PROXY: ['true', '1', '*', 'all', '10.0.0.1/8/8', '10.0.0.0/33', '10.0.0.0/8,1.1.1.1/99', 'x.example'],
  SCRYPT_LOG_N: ['0', '25'],
  HASH_QUEUE_TIMEOUT: ['0'],
  LOG_LEVEL: ['loud', 'INFO'],
  LOG_REQUESTS: ['some', 'verify', 'verify=some', 'login=all', 'all;none', 'verify=all=none'],
  REFRESH_TOKEN_SECRET: ['short', 'not base64url: !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!', `${aSecret()},short`],
  SIGNING_KEYS_DIR: ['/nowhere', '/dev/null'],
};

test('a bad value is reported by the name of its variable, and not repeated', (t) => {
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

test('limited tokens are on as long-lived ones are, unless they are turned on or off alone', (t) => {
  const isOn = (env: Record<string, string>) => loadConfig(env, GIB).LIMITED_TOKENS_ENABLED;
  t.equal(isOn({ LLT_ENABLED: 'false' }), false);
  t.equal(isOn({ LLT_ENABLED: 'false', LIMITED_TOKENS_ENABLED: 'true' }), true);
  t.equal(isOn({ LIMITED_TOKENS_ENABLED: 'false' }), false);
  for (const AUDIENCE of ['a#limited-', 'limited', '#limite', 'x#Limited'])
    t.equal(loadConfig({ AUDIENCE }, GIB).AUDIENCE, AUDIENCE);
  t.end();
});

test('AUDIENCE may not equal ISSUER, also by its default', (t) => {
  for (const env of [
    { ISSUER: 'https://auth.example', AUDIENCE: 'https://auth.example' },
    { AUDIENCE: loadConfig({}, GIB).ISSUER },
  ])
    t.match(problemsOf(env), [/^AUDIENCE must not equal ISSUER/]);
  t.end();
});

test('all problems are reported together', (t) => {
  const env = Object.fromEntries(Object.entries(BAD).map(([name, values]) => [name, values[0]]));
  const named = problemsOf(env).map((problem) => problem.split(/[ :]/)[0]);
  for (const name of Object.keys(BAD)) t.ok(named.includes(name), name);
  t.end();
});

test('a variable can come from a file', (t) => {
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
  t.equal(config.readRefreshSecrets?.(), 'another', 'read again at each call');
  t.match(problemsOf({ PORT: '1', PORT_FILE: join(folder, 'port') }), [/^PORT and PORT_FILE are both set/]);
  t.match(problemsOf({ PORT_FILE: join(folder, 'gone') }), [/^PORT_FILE cannot be read \(ENOENT\)/]);
  const env = { PORT_FILE: join(folder, 'port'), LOG_LEVEL: 'loud' };
  t.equal(loadSettings(env, 'PORT').PORT, 4000, 'nor are other settings read');
  t.end();
});

test('production refuses missing and weak settings', (t) => {
  const keys = aFolder(t, { '1.pem': KEYS.ES256() });
  const empty = join(aFolder(t, { empty: '\n' }), 'empty');
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
    const missing = [`${name} is required in production`];
    t.strictSame(problemsOf({ ...good, [name]: undefined }), missing);
    t.strictSame(problemsOf({ ...good, [name]: undefined, [`${name}_FILE`]: empty }), missing);
  }
  t.equal(loadConfig(good, 64 * GIB).DOCS_ENABLED, false, 'the reference is off in production');
  t.equal(loadConfig({ ...good, DOCS_ENABLED: 'true' }, 64 * GIB).DOCS_ENABLED, true);
  const costs = ['17/8/1', '16/8/2', '15/8/3', '14/8/5', '13/8/10', '18/8/1', '17/16/1', '16/8/3'];
  const weak = ['16/8/1', '15/8/2', '14/8/4', '13/8/9', '12/8/16', '17/7/1', '4/8/1'];
  const withCost = (cost: string) => {
    const [SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P] = cost.split('/');
    return problemsOf({ ...good, SCRYPT_LOG_N, SCRYPT_R, SCRYPT_P });
  };
  for (const cost of costs) t.strictSame(withCost(cost), [], cost);
  for (const cost of weak) t.match(withCost(cost), [/^SCRYPT_LOG_N.*OWASP/], cost);
  t.strictSame(problemsOf({ ...good, PASSWORD_MIN_LENGTH: '7' }), [
    'PASSWORD_MIN_LENGTH must be at least 8 in production',
  ]);
  t.strictSame(problemsOf({ ...good, PASSWORD_MIN_LENGTH: '8' }), []);
  const unlimited = { RATE_LIMIT_FACTOR: '0' };
  t.strictSame(problemsOf({ ...good, ...unlimited }), ['RATE_LIMIT_FACTOR must not be 0 in production']);
  t.strictSame(problemsOf({ PASSWORD_MIN_LENGTH: '7', ...unlimited }), [], 'a trial may be weaker');
  t.end();
});

test('hashing that does not fit in memory is refused, with the sum', (t) => {
  const env = { HASH_CONCURRENCY: '3', SCRYPT_LOG_N: '17' };
  t.strictSame(problemsOf(env, 768 * 1024 ** 2), []);
  t.match(problemsOf(env, 767 * 1024 ** 2), [
    /^HASH_CONCURRENCY 3 x 128 MiB .* \+ 384 MiB .* = 768 MiB, but the memory limit is 767 MiB$/,
  ]);
  t.end();
});

test('hashing may not take every thread: DNS look-ups need one', (t) => {
  t.strictSame(problemsOf({ HASH_CONCURRENCY: '3' }), []);
  t.match(problemsOf({ HASH_CONCURRENCY: '4' }), [/UV_THREADPOOL_SIZE to 6/]);
  t.strictSame(problemsOf({ HASH_CONCURRENCY: '4', UV_THREADPOOL_SIZE: '6' }), []);
  t.end();
});

test('unusable keys are reported at startup, without any of their content', (t) => {
  const broken = aFolder(t, { '1.pem': 'hunter2' });
  t.match(problemsOf({ SIGNING_KEYS_DIR: broken }), [/^SIGNING_KEYS_DIR: 1\.pem is not/]);
  t.match(problemsOf({ SIGNING_KEYS_DIR: aFolder(t) }), [/^SIGNING_KEYS_DIR: the folder holds no/]);
  t.end();
});

test('proxies and networks are parsed', (t) => {
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

test('with the embedded default the issuer follows the port; otherwise a mismatch is reported', (t) => {
  const issuerOf = (env: Environment) => {
    const { ISSUER, warnings } = loadConfig(env, GIB);
    return [ISSUER, warnings.some((line) => line.startsWith('ISSUER is not set'))];
  };
  t.strictSame(issuerOf({}), ['http://localhost:3000', false]);
  t.strictSame(issuerOf({ PORT: '8080' }), ['http://localhost:8080', false]);
  t.strictSame(issuerOf({ PORT: '0' }), ['http://localhost:3000', true]);
  const DATABASE_URL = 'postgres://db.example/latchkey';
  t.strictSame(issuerOf({ DATABASE_URL }), ['http://localhost:3000', false]);
  t.strictSame(issuerOf({ DATABASE_URL, PORT: '8080' }), ['http://localhost:3000', true]);
  t.strictSame(issuerOf({ PORT: '8080', ISSUER: 'https://auth.example' }), ['https://auth.example', false]);
  t.end();
});

test('FACTOR_ISSUER is the host of ISSUER, without what ends it in a label', (t) => {
  const hosts = {
    'https://auth.example.com': 'auth.example.com',
    'https://auth.example.com:8443': 'auth.example.com',
    'https://example.com/auth/v1': 'example.com',
    'https://xn--bcher-kva.example': 'xn--bcher-kva.example',
    'https://192.0.2.7:8443': '192.0.2.7',
    'https://[2001:db8::7]:8443': 'Latchkey',
    [`https://${'a'.repeat(60)}.com`]: `${'a'.repeat(60)}.com`,
    [`https://${'a'.repeat(60)}.info`]: 'Latchkey',
  };
  for (const [ISSUER, name] of Object.entries(hosts))
    t.equal(loadConfig({ ISSUER }, GIB).FACTOR_ISSUER, name, ISSUER);
  t.equal(loadConfig({ PORT: '3001' }, GIB).FACTOR_ISSUER, 'localhost', 'also by the default');
  for (const FACTOR_ISSUER of ['Ada & Co', 'x'.repeat(64), '\u{1d400}'.repeat(64)])
    t.equal(loadConfig({ FACTOR_ISSUER }, GIB).FACTOR_ISSUER, FACTOR_ISSUER);
  const message = 'must have 1 to 64 visible characters, without a colon';
  for (const FACTOR_ISSUER of ['a:b', 'a\nb', 'x'.repeat(65), 'a\u200bb', ' \u3000x:'])
    t.strictSame(problemsOf({ FACTOR_ISSUER }), [`FACTOR_ISSUER ${message}`]);
  t.end();
});

test('passkeys need an RP ID and origins that fit it', (t) => {
  t.match(loadConfig({}, GIB), { WEBAUTHN_RP_ID: null, WEBAUTHN_ORIGINS: [] });
  const hash = 'q8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2m';
  const good: Record<string, string[]> = {
    'example.com': ['https://example.com', 'https://app.example.com:8443', `android:apk-key-hash:${hash}`],
    'app.example.com': ['https://app.example.com', `android:apk-key-hash-sha256:${hash}=`],
    localhost: ['http://localhost:3000', 'https://app.localhost', 'http://app.localhost:5173'],
    'xn--bcher-kva.example': ['https://xn--bcher-kva.example'],
  };
  for (const [WEBAUTHN_RP_ID, origins] of Object.entries(good)) {
    const env = { WEBAUTHN_RP_ID, WEBAUTHN_ORIGINS: origins.join(', ') };
    t.match(loadConfig(env, GIB), { WEBAUTHN_RP_ID, WEBAUTHN_ORIGINS: origins });
  }

  const alone = { WEBAUTHN_RP_ID: 'WEBAUTHN_ORIGINS', WEBAUTHN_ORIGINS: 'WEBAUTHN_RP_ID' };
  t.strictSame(problemsOf({ WEBAUTHN_RP_ID: 'example.com' }), [
    `WEBAUTHN_RP_ID needs ${alone.WEBAUTHN_RP_ID}`,
  ]);
  t.strictSame(problemsOf({ WEBAUTHN_ORIGINS: 'https://example.com' }), [
    `WEBAUTHN_ORIGINS needs ${alone.WEBAUTHN_ORIGINS}`,
  ]);
  const ids = ['com', 'Example.com', 'https://example.com', 'example.com:443', 'example.com.', '192.0.2.7'];
  for (const WEBAUTHN_RP_ID of [
    ...ids,
    '[2001:db8::7]',
    'example.com/x',
    'ada@example.com',
    'bücher.example',
  ])
    t.match(problemsOf({ WEBAUTHN_RP_ID, WEBAUTHN_ORIGINS: 'https://example.com' }), [
      /^WEBAUTHN_RP_ID must be a domain/,
    ]);
  const bad: Record<string, RegExp> = {
    'https://example.com/': /write https:\/\/example.com$/,
    'https://example.com/login': /write https:\/\/example.com$/,
    'https://Example.com': /write https:\/\/example.com$/,
    'https://example.com:443': /write https:\/\/example.com$/,
    'https://*.example.com': /must hold origins such as/,
    'http://example.com': /must begin with https/,
    'example.com': /must hold origins such as/,
    null: /must hold origins such as/,
    'ios:bundle-id:com.example': /must hold origins such as/,
    'android:apk-key-hash:AAAA': /must hold origins such as/,
    'https://evil-example.com': /neither WEBAUTHN_RP_ID nor below it/,
    'https://example.com.evil.example': /neither WEBAUTHN_RP_ID nor below it/,
    'http://localhost:3000': /neither WEBAUTHN_RP_ID nor below it/,
  };
  for (const [WEBAUTHN_ORIGINS, problem] of Object.entries(bad))
    t.match(problemsOf({ WEBAUTHN_RP_ID: 'example.com', WEBAUTHN_ORIGINS }), [problem], WEBAUTHN_ORIGINS);
  t.end();
});

test('NODE_ENV is one of three words', (t) => {
  for (const value of ['development', 'test']) t.equal(loadConfig({ NODE_ENV: value }, GIB).NODE_ENV, value);
  t.equal(loadConfig({ NODE_ENV: '' }, GIB).NODE_ENV, 'development');
  for (const value of ['prod', 'Production', 'staging'])
    t.throws(() => loadConfig({ NODE_ENV: value }, GIB), {
      message: /NODE_ENV must be production, development or test/,
    });
  t.end();
});
