import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { World } from '../bench/world.ts';

/** What the stores of a world have used so far. */
export interface StoreUse {
  /** CPU seconds of the Redis server. */
  redis: number;
  /** CPU seconds of each process of PostgreSQL for this database, by its id, without background processes. */
  postgres: Map<number, number>;
  /** Rows that were inserted, updated or deleted. */
  rows: number;
  /** Bytes of PostgreSQL's write-ahead log, of all its databases. */
  walBytes: number;
}

export interface StoreMeter {
  read(): Promise<StoreUse>;
  /** Bytes of Redis (`used_memory`), and of tables with their indexes. */
  bytes(): Promise<{ redis: number; tokens: number; users: number; devices: number }>;
  close(): Promise<void>;
}

export async function openStoreMeter({ env }: World): Promise<StoreMeter> {
  const redis = new Redis(env.REDIS_URL ?? '');
  const database = new pg.Client(env.DATABASE_URL ?? '');
  await database.connect();
  const field = async (section: string, name: string) =>
    Number(new RegExp(`^${name}:(\\S+)`, 'm').exec(await redis.info(section))?.[1] ?? NaN);

  return {
    async read() {
      const { rows } = await database.query<{ pid: number }>(
        'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
      );
      const { rows: counts } = await database.query<{ rows: string; wal: string }>(
        `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS rows,
           pg_current_wal_insert_lsn() - '0/0' AS wal FROM pg_stat_user_tables`,
      );
      return {
        redis: (await field('cpu', 'used_cpu_user')) + (await field('cpu', 'used_cpu_sys')),
        postgres: new Map(rows.map(({ pid }) => [pid, cpuSecondsOf(pid)])),
        rows: Number(counts[0]?.rows),
        walBytes: Number(counts[0]?.wal),
      };
    },
    async bytes() {
      const { rows } = await database.query<{ tokens: string; users: string; devices: string }>(
        `SELECT pg_total_relation_size('tokens') AS tokens, pg_total_relation_size('users') AS users,
           pg_total_relation_size('known_devices') AS devices`,
      );
      return {
        redis: await field('memory', 'used_memory'),
        tokens: Number(rows[0]?.tokens),
        users: Number(rows[0]?.users),
        devices: Number(rows[0]?.devices),
      };
    },
    async close() {
      redis.disconnect();
      await database.end();
    },
  };
}

/** CPU seconds of the processes that have not ended meanwhile; NaN if PostgreSQL runs on another machine. */
export function postgresBetween(before: StoreUse, after: StoreUse): number {
  return [...after.postgres].reduce((sum, [pid, cpu]) => sum + cpu - (before.postgres.get(pid) ?? 0), 0);
}

function cpuSecondsOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1e9;
  } catch {
    return NaN;
  }
}
