import { readFileSync } from 'node:fs';
import { Redis } from 'ioredis';
import pg from 'pg';
import type { World } from '../bench/world.ts';

/** What the stores of a world have used so far. */
export interface StoreUse {
  /** CPU seconds of the Redis server. */
  redis: number;
  /** CPU seconds of PostgreSQL's processes for this database, also of those that have ended; NaN if it runs on another machine. */
  postgres: number;
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

/** Milliseconds. */
const LOOK_INTERVAL = 500;

export async function openStoreMeter({ env }: World): Promise<StoreMeter> {
  const redis = new Redis(env.REDIS_URL ?? '');
  const database = new pg.Client(env.DATABASE_URL ?? '');
  await database.connect();
  const field = async (section: string, name: string) =>
    Number(new RegExp(`^${name}:(\\S+)`, 'm').exec(await redis.info(section))?.[1] ?? NaN);
  // A pool closes idle connections, and what their processes have used is lost with them. So they are looked at
  // more often than that.
  const used = new Map<number, number>();
  const look = async () => {
    const { rows } = await database.query<{ pid: number }>(
      'SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()',
    );
    for (const { pid } of rows) {
      const seconds = cpuSecondsOf(pid);
      if (seconds !== null) used.set(pid, seconds);
    }
  };
  const looking = setInterval(() => void look().catch(() => null), LOOK_INTERVAL);

  return {
    async read() {
      await look();
      const { rows: counts } = await database.query<{ rows: string; wal: string }>(
        `SELECT coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) AS rows,
           pg_current_wal_insert_lsn() - '0/0' AS wal FROM pg_stat_user_tables`,
      );
      return {
        redis: (await field('cpu', 'used_cpu_user')) + (await field('cpu', 'used_cpu_sys')),
        postgres: used.size === 0 ? NaN : [...used.values()].reduce((sum, each) => sum + each, 0),
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
      clearInterval(looking);
      redis.disconnect();
      await database.end();
    },
  };
}

/** @returns null if it has ended, or runs on another machine. */
function cpuSecondsOf(pid: number): number | null {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[0]) / 1e9;
  } catch {
    return null;
  }
}
