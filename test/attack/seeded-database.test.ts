import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { latchkey } from '../support/latchkey.ts';
import { logInOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { failedStart, startService } from '../support/service.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

// Whoever has read a seed knows the passwords and secrets in it, and wants them to be good in production.

const USER = { username: 'grace', email: 'grace@example.com', password: 'nanoseconds of copper wire' };

/** A database that a seed has filled, and the environment of a replica in production. */
async function aSeededDatabase(t: Test) {
  const { url } = await testDatabase(t);
  const seed = join(testFolder(t), 'seed.json');
  writeFileSync(seed, JSON.stringify({ users: [USER] }));
  const service = await startService(t, { DATABASE_URL: url, SEED_FILE: seed });
  t.equal((await logInOver(service.url, USER.username, USER.password)).status, 200);
  await service.stop();
  return { url, seed };
}

function production(t: Test, DATABASE_URL: string) {
  const keys = testFolder(t);
  writeFileSync(join(keys, '0001.pem'), KEYS.ES256());
  const redis = testRedis(t);
  return {
    // As an editor may leave it.
    NODE_ENV: 'production\n',
    DATABASE_URL,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
    ISSUER: 'https://auth.example.com',
    SIGNING_KEYS_DIR: keys,
    REFRESH_TOKEN_SECRET: aSecret(),
    SCRYPT_LOG_N: '17',
  };
}

const REFUSAL = /^DATABASE_URL: a seed has filled this database.*\. To do: give production a database/m;

const isMarked = async (url: string) => (await sql(url, 'SELECT FROM seed_mark')).length === 1;

test(
  'production starts neither on a seeded database nor on its backup, whatever the operator runs',
  {
    skip: redisMissing || toolsMissing('pg_dump', 'pg_restore'),
  },
  async (t) => {
    const { url } = await aSeededDatabase(t);
    const backup = join(testFolder(t), 'backup');
    const { url: restored } = await testDatabase(t, { migrated: false });
    const run = (program: string, ...args: string[]) =>
      execFileSync(program, args, { env: bareEnvironment(), encoding: 'utf8' });
    run('pg_dump', '--format=custom', `--file=${backup}`, url);
    run('pg_restore', '--no-owner', `--dbname=${restored}`, backup);

    for (const [what, database] of Object.entries({ 'the database': url, 'its backup': restored })) {
      const env = production(t, database);
      const attempt = async (when: string) => {
        const { code, stderr } = await failedStart(t, env);
        t.equal(code, 1, `${what}, ${when}`);
        t.match(stderr, REFUSAL);
        t.notMatch(stderr, /^\s+at /m, 'no stack');
        t.strictSame(
          await sql(database, 'SELECT FROM installation WHERE name = $1', ['ISSUER']),
          [],
          'it records nothing',
        );
      };
      // The seeding replica has recorded its own.
      await sql(database, 'DELETE FROM installation');
      await attempt('as it is');
      const doctor = await latchkey(['doctor'], env);
      t.match(doctor, { code: 1, stdout: /^fail {2}seed: DATABASE_URL: a seed has filled this database/m });
      for (const command of [
        ['migrate'],
        ['recover', '--yes'],
        ['purge'],
        ['user', 'delete', USER.username, '--yes'],
      ])
        await latchkey(command, env);
      t.ok(await isMarked(database), 'no command takes the mark away');
      await attempt('after the commands');
    }
  },
);

test(
  'a replica whose database was away when it started ends once it finds the mark, and lets nobody in before',
  {
    skip: redisMissing,
  },
  async (t) => {
    const { url } = await aSeededDatabase(t);
    await sql(url, 'DELETE FROM installation');
    const proxy = await faultProxy(t, url, 'refuse');
    const replica = await startService(t, production(t, proxy.url));
    const statuses = new Set<number>();
    const logIn = async () => {
      const answer = await logInOver(replica.url, USER.username, USER.password).catch(() => null);
      if (answer) statuses.add(answer.status);
      return replica.process.exitCode !== null;
    };
    await logIn();
    const ended = once(replica.process, 'exit');
    proxy.set('pass');
    await until(logIn);
    t.strictSame(await ended, [1, null]);
    t.match(replica.log(), REFUSAL);
    t.strictSame([...statuses], [503]);
  },
);

test('production takes no seed', { skip: redisMissing }, async (t) => {
  const { url, seed } = await aSeededDatabase(t);
  const { code, stderr } = await failedStart(t, { ...production(t, url), SEED_FILE: ` ${seed}` });
  t.equal(code, 1);
  t.match(stderr, '- SEED_FILE must not be set in production');
});
