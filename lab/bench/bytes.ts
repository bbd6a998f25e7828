import type { Table } from '../table.ts';
import type { Check } from './document.ts';
import { measurePostgresBytes, type PostgresBytes } from './postgres-bytes.ts';
import { measureRedisBytes, type RedisBytes } from './redis-bytes.ts';
import { limit } from './settings.ts';

export interface BytesReport {
  redis: RedisBytes;
  postgres: PostgresBytes;
}

/** What a session takes in Redis and in PostgreSQL, on servers that run only for this. */
export async function measureBytes(amounts: { sessions: number; refreshes: number }): Promise<BytesReport> {
  const closers: (() => unknown)[] = [];
  const scope = { teardown: (closer: () => unknown) => closers.unshift(closer) };
  try {
    return {
      redis: await measureRedisBytes(scope, amounts),
      postgres: await measurePostgresBytes(scope, amounts),
    };
  } finally {
    for (const closer of closers) await closer();
  }
}

export function byteChecks({ redis, postgres }: BytesReport): Check[] {
  const most = (
    setting: 'BENCH_MAX_REDIS_BYTES' | 'BENCH_MAX_POSTGRES_BYTES',
    what: string,
    value: number,
  ) => {
    const maximum = limit(setting);
    return { setting, what, value, limit: maximum, isMet: value <= maximum };
  };
  return [
    most('BENCH_MAX_REDIS_BYTES', 'bytes of a session in Redis', redis.session),
    most('BENCH_MAX_POSTGRES_BYTES', 'bytes of a token in PostgreSQL, refreshed', postgres.refreshed),
  ];
}

export function bytesTable({ redis, postgres }: BytesReport): Table {
  const refreshed = `refreshed ${postgres.refreshes} times`;
  const { hot, vacuums } = postgres;
  return {
    title: `Bytes of each of ${redis.sessions.toLocaleString('en-US')} sessions`,
    head: ['store', 'what', 'bytes', ''],
    rows: [
      ['Redis', 'key of a session', redis.session, `MEMORY USAGE; ${redis.encoding}`],
      ['Redis', 'growth of used_memory', redis.used, 'with the expiry and the tables of keys'],
      ['Redis', 'key of a user', redis.user, 'once for all sessions of the user'],
      ['PostgreSQL', 'token with indexes, new', postgres.fresh, ''],
      [
        'PostgreSQL',
        `token with indexes, ${refreshed}`,
        postgres.refreshed,
        `${(100 * hot).toFixed(1)}% of updates wrote no index entry; ${vacuums} autovacuums`,
      ],
      ...postgres.parts.map(({ name, bytes }) => ['PostgreSQL', `of these, ${name}`, bytes, '']),
    ],
  };
}
