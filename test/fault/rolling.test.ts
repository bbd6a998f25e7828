import { test, type Test } from 'tap';
import { testScale } from '../support/environment.ts';
import { testDatabase } from '../support/postgres.ts';
import { startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { startFleet, type Fleet } from './harness/fleet.ts';
import { assertNoImpact } from './harness/assert-no-impact.ts';

const skip = toolsMissing('bash', 'nginx', 'redis-server');
const ROUNDS = Math.ceil(testScale);

async function fleetOf(t: Test, count: number): Promise<Fleet> {
  const { url } = await testDatabase(t);
  const redis = await startRedis(t);
  return startFleet(t, { DATABASE_URL: url, REDIS_URL: redis.url }, Array.from({ length: count }));
}

test('every replica is replaced under load, and no request fails', { skip }, async (t) => {
  const fleet = await fleetOf(t, 2);
  await fleet.renewed(1);
  for (let round = 0; round < ROUNDS; round++) {
    for (const replica of Array.from(fleet.replicas)) {
      // As in k8s/base: the new replica first (maxSurge 1, maxUnavailable 0).
      await fleet.add();
      t.equal(await fleet.remove(replica), 0, 'the replaced replica exited with 0');
      await fleet.renewed(1);
    }
  }
  await assertNoImpact(t, `${ROUNDS * 2} replacements of one of two replicas behind nginx`, fleet);
});

test('from one replica to four and back under load, and no request fails', { skip }, async (t) => {
  const fleet = await fleetOf(t, 1);
  await fleet.renewed(1);
  while (fleet.replicas.length < 4) await fleet.add();
  const urls = fleet.replicas.map(({ url }) => new URL(url).host);
  const before = fleet.nginx.passed().length;
  await fleet.renewed(2);
  for (const url of urls) {
    const share = fleet.nginx
      .passed()
      .slice(before)
      .filter(({ backend }) => backend === url).length;
    t.ok(share > 0, `${url} answered ${share} requests while there were four`);
  }
  while (fleet.replicas.length > 1) {
    const [oldest] = fleet.replicas;
    if (oldest) t.equal(await fleet.remove(oldest), 0, 'the removed replica exited with 0');
    await fleet.renewed(1);
  }
  await assertNoImpact(t, 'one replica, four, and one again behind nginx', fleet);
});
