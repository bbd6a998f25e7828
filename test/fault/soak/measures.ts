import type { OwnPostgres } from '../../support/own-postgres.ts';
import type { RedisServer } from '../../support/redis-server.ts';
import type { World } from '../harness/world.ts';

/** Measures that must be flat at the end of a soak. */
export interface Measures {
  /** Resident MiB of the larger replica. */
  memory: number;
  /** Open files and sockets of the replica with more of them. */
  handles: number;
  redisConnections: number;
  redisKeys: number;
  postgresConnections: number;
  tokens: number;
  users: number;
  /** Bytes on disk per row of the token table, indexes included, after autovacuum. */
  bytesPerToken: number;
}

export async function measure(world: World, postgres: OwnPostgres, redis: RedisServer): Promise<Measures> {
  await postgres.ask('VACUUM (ANALYZE) tokens');
  const [row] = (await postgres.ask(`
    SELECT (SELECT count(*)::int FROM tokens) AS tokens, (SELECT count(*)::int FROM users) AS users,
      pg_total_relation_size('tokens')::int AS bytes,
      (SELECT count(*)::int FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()) AS connections`)) as [
    { tokens: number; users: number; bytes: number; connections: number },
  ];
  const { replicas } = world;
  return {
    memory: Math.max(...replicas.map((replica) => replica.memory())),
    handles: Math.max(...replicas.map((replica) => replica.handles())),
    redisConnections: Number(await redis.info('connected_clients')),
    redisKeys: Number(await redis.ask('DBSIZE')),
    postgresConnections: row.connections,
    tokens: row.tokens,
    users: row.users,
    bytesPerToken: row.bytes / row.tokens,
  };
}

/**
 * @param openings tries to create a row: the number of records depends on logins, not on refreshes.
 * @returns the measures that are not flat.
 */
export function growthOf(before: Measures, after: Measures, openings: number): string[] {
  const limits: [what: string, value: number, limit: number][] = [
    ['MiB of a replica', after.memory, before.memory * 1.5 + 50],
    ['handles of a replica', after.handles, before.handles + 20],
    ['connections to Redis', after.redisConnections, before.redisConnections + 2],
    ['connections to PostgreSQL', after.postgresConnections, 20],
    ['rows of tokens', after.tokens, openings],
    ['keys in Redis', after.redisKeys, after.tokens + after.users + 10],
    ['bytes a token', after.bytesPerToken, before.bytesPerToken * 1.5],
  ];
  return limits
    .filter(([, value, limit]) => !(value <= limit))
    .map(([what, value, limit]) => `${what}: ${Math.round(value)}, limit ${Math.round(limit)}`);
}
