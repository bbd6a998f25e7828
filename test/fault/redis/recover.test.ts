import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call, logIn, refresh, signUp, verify } from '../../support/client.ts';
import { latchkey } from '../../support/latchkey.ts';
import { withClient } from '../../support/postgres.ts';
import { refused } from '../../support/problem.ts';
import { readmeRights } from '../../support/redis-acl.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { redisServersMissing } from '../../support/redis-server.ts';
import { until } from '../../support/until.ts';

const USERS = 12;

test(
  'recover reads every master of a cluster, as the user of docs/operating.md',
  { skip: redisServersMissing },
  async (t) => {
    const cluster = await startCluster(t, '--user', ...readmeRights());
    const env = { ...cluster.env, REDIS_URL: 'redis://latchkey:secret@cluster' };
    const target = await buildTestApp(t, { env });
    const { databaseUrl: url } = target;
    const kept = await Promise.all(Array.from({ length: USERS }, () => signUp(target)));
    const ended = await Promise.all(kept.map(({ user }) => logIn(target, user.username)));
    const lost = await Promise.all(kept.map(({ user }) => logIn(target, user.username)));
    for (const { access_token: token } of ended)
      t.equal((await call(target, 'DELETE /api/auth', { token })).statusCode, 200);

    // The database as in a backup from before the logouts and the last logins.
    await withClient(url, async (client) => {
      await client.query('UPDATE tokens SET revoked_at = NULL, pending = false, settled_at = NULL');
      await client.query(
        `DELETE FROM tokens WHERE id IN (SELECT max(id) FROM tokens GROUP BY user_id HAVING count(*) > 2)`,
      );
    });
    const recover = () => latchkey(['recover', '--yes', '--json'], { ...cluster.env, DATABASE_URL: url });
    // Its background tasks do not run: nothing renews the heartbeat that it wrote at its start.
    let done = await recover();
    await until(async () => done.code === 0 || (done = await recover()).code === 0);
    const { code, stdout, stderr } = done;
    t.equal(code, 0, stderr);
    t.match(JSON.parse(stdout), { tokens: 3 * USERS, revoked: USERS, lost: USERS });
    for (const over of [...ended, ...lost]) {
      refused(t, await verify(target, over.access_token), 401, 'invalid_token');
      refused(t, await refresh(target, over.refresh_token), 401, 'invalid_token');
    }
    for (const { access_token: token } of kept) t.equal((await verify(target, token)).statusCode, 200);
  },
);
