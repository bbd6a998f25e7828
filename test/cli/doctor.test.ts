import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { runDoctor } from '../support/doctor.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';

test(
  'doctor prints one line per check, and the same as JSON with --json',
  { skip: redisMissing },
  async (t) => {
    const { url: DATABASE_URL } = await testDatabase(t);
    const { url: REDIS_URL, prefix: REDIS_PREFIX } = testRedis(t);
    const env = { DATABASE_URL, REDIS_URL, REDIS_PREFIX };
    const { code, healthy, findings } = await runDoctor(env);
    t.equal(code, 0, 'warnings, but no failure');
    t.equal(healthy, true);
    t.match(findings, {
      configuration: [{ state: 'warn' }],
      database: [{ state: 'ok' }],
      migrations: [{ state: 'ok' }],
      redis: [{ state: 'ok' }],
    });

    const { stdout, code: sameCode } = await latchkey(['doctor'], { SCRYPT_LOG_N: '4', ...env });
    t.equal(sameCode, 0);
    const lines = stdout.trimEnd().split('\n');
    t.equal(lines.length, Object.values(findings).flat().length);
    for (const line of lines) t.match(line, /^(ok {2}|warn|fail) {2}[a-z].*: .+/);
    const todos = lines.filter((line) => line.includes('. To do: '));
    t.ok(
      todos.every((line) => !line.startsWith('ok')) && todos.length > 0,
      'a check that passes asks for nothing',
    );
    t.equal(
      todos.length,
      lines.filter((line) => !line.startsWith('ok')).length,
      'every other check says what to do',
    );
  },
);

test('doctor exits with 1 if a check fails, and shows no secret', async (t) => {
  const away = {
    DATABASE_URL: 'postgres://ada:sesame@127.0.0.1:1/none',
    REDIS_URL: 'redis://ada:sesame@127.0.0.1:1',
  };
  const stores = [
    away,
    {
      ...away,
      REDIS_MODE: 'sentinel',
      REDIS_NODES: '127.0.0.1:1',
      REDIS_SENTINEL_NAME: 'main',
      REDIS_SENTINEL_PASSWORD: 'sesame',
    },
    { ...away, REDIS_MODE: 'cluster', REDIS_NODES: '127.0.0.1:1' },
  ];
  for (const env of stores) {
    const { code, healthy, stdout, stderr, findings } = await runDoctor(env);
    t.equal(code, 1);
    t.equal(healthy, false);
    t.match(findings, { database: [{ state: 'fail' }], redis: [{ state: 'fail' }] });
    t.notMatch(stdout + stderr, /sesame|\n {4}at /);
  }
  const unusable = await runDoctor({
    ...away,
    REFRESH_TOKEN_SECRET: 'sesame',
    SCRYPT_LOG_N: '24',
    HASH_CONCURRENCY: '64',
    UV_THREADPOOL_SIZE: '66',
  });
  t.equal(unusable.code, 1);
  t.strictSame(
    Object.keys(unusable.findings),
    ['configuration'],
    'without a configuration no other check runs',
  );
  t.match(unusable.findings, {
    configuration: [
      { state: 'fail', found: /^REFRESH_TOKEN_SECRET: / },
      { state: 'fail', found: /the memory limit is/ },
    ],
  });
  t.notMatch(unusable.stdout, /sesame/);
});

test('doctor on a fresh machine names the embedded stores and leaves no files behind', async (t) => {
  const folder = testFolder(t);
  const { code, findings } = await runDoctor({ DATA_DIR: join(folder, 'data') });
  t.equal(code, 0);
  t.match(findings, {
    database: [{ found: /embedded/ }],
    redis: [{ found: /after a restart, each is rebuilt/ }],
  });
  t.strictSame(readdirSync(folder), []);
});

test('doctor refuses other arguments', async (t) => {
  for (const args of [
    ['doctor', 'twice'],
    ['doctor', '--frobnicate'],
  ])
    t.equal((await latchkey(args)).code, 2);
});
