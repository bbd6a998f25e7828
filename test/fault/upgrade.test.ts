import { test } from 'tap';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { buildPreviousRelease, previousReleaseMissing } from '../support/previous-release.ts';
import { startRedis } from '../support/redis-server.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { startFleet } from './harness/fleet.ts';
import { assertNoImpact } from './harness/assert-no-impact.ts';

const skip = toolsMissing('bash', 'nginx', 'redis-server') || previousReleaseMissing;

// docs/migrations.md
test('the previous release is upgraded under load, then rolled back', { skip }, async (t) => {
  const previous = buildPreviousRelease(t);
  const { url: DATABASE_URL } = await testDatabase(t, { migrated: false });
  const redis = await startRedis(t);
  const migrated = await latchkey(['migrate', '--json'], { DATABASE_URL }, previous.cli);
  t.equal(migrated.code, 0, migrated.stderr);
  await fill(DATABASE_URL);
  const stores = { DATABASE_URL, REDIS_URL: redis.url };
  const fleet = await startFleet(t, stores, [previous.server, previous.server]);
  const replaceOne = async (server?: string) => {
    const [oldest] = fleet.replicas;
    await fleet.add(server);
    if (oldest) t.equal(await fleet.remove(oldest), 0, 'the replaced replica exited with 0');
    await fleet.renewed(2);
  };

  await fleet.renewed(1);
  const since = performance.now();
  const expanded = await latchkey(['migrate', '--json'], { DATABASE_URL });
  t.comment(`migrated in ${Math.round(performance.now() - since)} ms`);
  t.equal(expanded.code, 0, expanded.stderr);
  await fleet.renewed(2);
  // Forward, with both versions side by side after the first step; then back in the same way.
  for (const server of [undefined, undefined, previous.server, previous.server]) await replaceOne(server);
  const { applied } = JSON.parse(expanded.stdout) as { applied: string[] };
  const what = `upgraded from ${previous.name}, with ${applied.length} migrations, and rolled back, behind nginx`;
  await assertNoImpact(t, what, fleet);
});

/** A million sessions: a migration that reads or rewrites every row holds up the clients. */
async function fill(databaseUrl: string): Promise<void> {
  await sql(
    databaseUrl,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash)
     SELECT 'user-' || n, 'user-' || n, n || '@example.com', 'Ada', '' FROM generate_series(1, 100000) AS n`,
  );
  await sql(
    databaseUrl,
    `INSERT INTO tokens (user_id, type, name, created_at, latest, first)
     SELECT id, 'session', 'a device', now(), 1, 1 FROM users, generate_series(1, 10)`,
  );
}
