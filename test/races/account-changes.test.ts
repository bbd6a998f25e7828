import { test } from 'tap';
import { aManager } from '../support/accounts.ts';
import { aClient, begun } from '../support/begun.ts';
import { call, pairOf, refresh, signUp } from '../support/client.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { assertRoles } from '../support/roles.ts';
import { sql } from '../support/sql.ts';
import { twoReplicas } from '../support/two-replicas.ts';

test('a service and the owner change different fields at once', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const target = await twoReplicas(t, { REDIS_URL: url, REDIS_PREFIX: prefix });
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const locks = await aClient(t, databaseUrl);
  const watch = await aClient(t, databaseUrl);

  for (const isServiceFirst of [true, false]) {
    await t.test(isServiceFirst ? 'the service first' : 'the owner first', async (t) => {
      const { user, access_token: token, refresh_token: refreshToken } = await signUp(target);
      const service = begun(() => ask(`PATCH /api/users/${user.id}`, { roles: ['admin'] }));
      const owner = begun(() => call(target, 'PATCH /api/user', { token, payload: { name: 'Countess' } }));
      const [first, second] = isServiceFirst ? [service, owner] : [owner, service];
      await locks.query('BEGIN');
      await locks.query(`SELECT id FROM users WHERE id = ${user.id} FOR NO KEY UPDATE`);
      await first.begin(watch);
      await second.begin(watch, 2);
      t.strictSame([first.isDone(), second.isDone()], [false, false], 'both wait for the lock');
      await locks.query('COMMIT');
      for (const each of [service, owner]) t.equal((await each.result()).statusCode, 200);
      t.strictSame(await sql(databaseUrl, 'SELECT name, roles FROM users WHERE id = $1', [user.id]), [
        { name: 'Countess', roles: ['admin'] },
      ]);
      await assertRoles(t, target, token, 'admin');
      t.equal(pairOf(await refresh(target, refreshToken)).user.name, 'Countess');
    });
  }
});
