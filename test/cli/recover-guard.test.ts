import { hostname } from 'node:os';
import { test } from 'tap';
import { latchkey } from '../support/latchkey.ts';
import { signUpOver, verifyOver } from '../support/over-http.ts';
import { testDatabase } from '../support/postgres.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { readyService } from '../support/service.ts';
import { until } from '../support/until.ts';

test(
  'recover refuses while a replica serves, and says what it does once none does',
  {
    skip: redisMissing,
  },
  async (t) => {
    const [{ url }, redis] = [await testDatabase(t), testRedis(t)];
    const stores = { DATABASE_URL: url, REDIS_URL: redis.url, REDIS_PREFIX: redis.prefix };
    const service = await readyService(t, stores);
    const pair = await signUpOver(service.url);
    const recover = (...args: string[]) => latchkey(['recover', '--yes', '--end-all', ...args], stores);

    const { code, stderr } = await recover('--json');
    t.equal(code, 1);
    t.match(JSON.parse(stderr), { replica: hostname(), error: /stop every replica.+Nothing has changed$/ });
    t.equal(await verifyOver(service.url, pair.access_token), 200);
    await service.stop('SIGKILL');
    t.match(await recover(), { code: 1, stderr: /stop every replica, wait 5 s/ }, 'it may still serve');

    await until(async () => (await recover('--json', '--skip-ids', '50')).code === 0);
    const again = await recover('--skip-ids', '1000');
    t.match(again, { code: 0, stdout: /^Redis holds 1 tokens$/m });
    t.match(
      again.stderr,
      /^highest token id: 51 in PostgreSQL, 1 in Redis$/m,
      'the first run changed nothing',
    );
    t.match(again.stderr, /^- ids go on after 1051 \(users\) and 1051 \(tokens\)$/m);
    t.match(again.stderr, /^- every other session/m);
  },
);

test('recover refuses to begin without a confirmation, with a wrong number of ids, or with both choices', async (t) => {
  for (const [line, message] of [
    ['--json', /give --yes/],
    ['--yes --skip-ids 0', /--skip-ids takes/],
    ['--yes --end-all --keep-sessions', /not both/],
  ] as const)
    t.match(await latchkey(['recover', ...line.split(' ')]), { code: 2, stderr: message }, line);
});
