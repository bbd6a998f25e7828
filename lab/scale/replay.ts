import { makeMemoryRenewalLeases } from '../../src/infra/memory/renewal-leases.ts';
import { makeRenewChanges } from '../../src/domain/tokens/renew-changes.ts';
import { makeRevocations } from '../../src/domain/tokens/revocations.ts';
import { makeChangedUsers } from '../../src/infra/postgres/changed-users.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { makeRevocationStore } from '../../src/infra/postgres/revocation-store.ts';
import { makeRedisClient } from '../../src/infra/redis/connection/open-redis.ts';
import { makeRedisTokenStates } from '../../src/infra/redis/token-states.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { openGate, redisServer } from '../../test/support/redis.ts';
import { sql } from '../../test/support/sql.ts';
import { UNOBSERVED } from '../../test/support/unobserved.ts';
import { populate } from '../bench/population.ts';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { World } from '../bench/world.ts';

/** How long a replica needs to tell Redis again what it may have lost. */
export interface ReplayFigure {
  what: 'ends' | 'changed users';
  count: number;
  seconds: Sample;
}

interface SetUp {
  /** Of the last hours: what a replica repeats after a failover, before it serves. */
  ends: number;
  /** Of the last minute: what every renewal repeats. */
  users: number;
  rounds: number;
}

const TIMEOUT = 30_000;
/** Milliseconds: longer than a run takes. */
const ALL = 12 * 3_600_000;

/** By the service's own code in this process, alone with both stores. */
export async function measureReplay(world: World, setUp: SetUp): Promise<ReplayFigure[]> {
  const [url, prefix] = [world.env.DATABASE_URL ?? '', world.env.REDIS_PREFIX ?? ''];
  await populate(world, setUp.users, { users: setUp.users, cold: setUp.ends });
  await sql(
    url,
    `UPDATE tokens SET revoked_at = now(), end_reason = 'logout', settled_at = now() - random() * interval '2 hours'
     WHERE id IN (SELECT id FROM tokens ORDER BY id DESC LIMIT $1)`,
    [setUp.ends],
  );
  await sql(
    url,
    `UPDATE users SET version = 1, changed_at = now() - random() * interval '1 minute'
     WHERE id IN (SELECT id FROM users ORDER BY id LIMIT $1)`,
    [setUp.users],
  );
  await sql(url, 'VACUUM ANALYZE');
  const postgres = makePostgres({ url, pool: 4, timeout: TIMEOUT, observe: null });
  const redis = makeRedisClient({ server: redisServer(world.env.REDIS_URL ?? ''), timeout: TIMEOUT });
  await redis.connect();
  try {
    const tokenStates = makeRedisTokenStates(redis, {
      prefix,
      cacheTtl: ALL / 1000,
      gate: openGate,
      observe: UNOBSERVED,
    });
    const none = () => Promise.resolve();
    const revocations = makeRevocations({
      revocations: makeRevocationStore(postgres),
      tokenStates,
      feed: { publish: none, publishUser: none },
    });
    const changes = makeRenewChanges({
      users: makeChangedUsers(postgres),
      tokenStates,
      feed: { publishChanges: none },
      leases: makeMemoryRenewalLeases(),
      clock: systemClock,
    });
    return [
      { what: 'ends', count: setUp.ends, seconds: await times(setUp, () => revocations.renew(ALL)) },
      { what: 'changed users', count: setUp.users, seconds: await times(setUp, () => changes.renew(ALL)) },
    ];
  } finally {
    redis.disconnect();
    await postgres.close();
  }
}

async function times({ rounds }: SetUp, work: () => Promise<void>): Promise<Sample> {
  const seconds: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const since = performance.now();
    await work();
    seconds.push((performance.now() - since) / 1000);
  }
  return sampleOf(seconds);
}
