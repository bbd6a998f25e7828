import type { TokenKey } from '../../src/domain/principal.ts';
import type { Test } from 'tap';
import type { SessionState } from '../../src/domain/tokens/session-state.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { makeWriteBehind } from '../../src/domain/tokens/write-behind.ts';
import type { PrismaClient } from '../../src/generated/prisma/client.ts';
import { makePostgres } from '../../src/infra/postgres/client.ts';
import { makeStateWriter } from '../../src/infra/postgres/state-writer.ts';
import { sessionColumns } from '../../src/infra/postgres/token-store.ts';
import { someQueues } from '../../test/support/bounded-queues.ts';
import { startPostgres } from '../../test/support/own-postgres.ts';
import { aFingerprint, shuffled } from './realistic.ts';

/** Sessions of one INSERT, and refreshes between two flushes of write-behind. */
const CHUNK = 500;
const SESSIONS_PER_USER = 2;
/** Microseconds between two refreshes of a session. */
const REFRESH_INTERVAL = 600_000_000;

export interface PostgresBytes {
  sessions: number;
  refreshes: number;
  /** Bytes per token of the table `tokens` with its indexes: after the logins, and after the refreshes. */
  fresh: number;
  refreshed: number;
  /** The parts of `refreshed`. */
  parts: { name: string; bytes: number }[];
  /** The share of the updates that wrote no index entry. */
  hot: number;
  /** How often autovacuum has processed the table. */
  vacuums: number;
}

/**
 * The size of a session's record, on a PostgreSQL of its own. Refreshes arrive in random order, and write-behind writes
 * them. In every second round it writes all of them at once, as after an outage of PostgreSQL. Autovacuum looks at the
 * table each second instead of each minute, because a round takes seconds here and minutes in production.
 * @param t owns the server.
 */
export async function measurePostgresBytes(
  t: Pick<Test, 'teardown'>,
  { sessions, refreshes }: { sessions: number; refreshes: number },
): Promise<PostgresBytes> {
  const server = await startPostgres(t as Test);
  await server.ask("ALTER SYSTEM SET autovacuum_naptime = '1s'");
  await server.ask('SELECT pg_reload_conf()');
  // One connection, whose activity PostgreSQL counts.
  const postgres = makePostgres({
    url: server.url(),
    pool: 1,
    timeout: 60_000,
    lifetime: 3600,
    observe: null,
  });
  try {
    const { prisma } = postgres;
    const states = await logIn(prisma, sessions);
    const fresh = (await sizeOf(prisma)) / sessions;
    for (let round = 1; round <= refreshes; round++)
      await refreshAll(prisma, states, round % 2 === 0 ? sessions : CHUNK);
    return {
      sessions,
      refreshes,
      fresh,
      refreshed: (await sizeOf(prisma)) / sessions,
      parts: await partsOf(prisma, sessions),
      ...(await activityOf(prisma)),
    };
  } finally {
    await postgres.close();
  }
}

/** Adds users and their sessions, in the order in which unrelated users log in. */
async function logIn(prisma: PrismaClient, sessions: number): Promise<Map<TokenKey, SessionState>> {
  const users = Math.ceil(sessions / SESSIONS_PER_USER);
  await prisma.$executeRaw`
    INSERT INTO users (username, username_skeleton, email, name, password_hash)
    SELECT 'user-' || i, 'user-' || i, 'user-' || i || '@example.com', 'Ada Lovelace', '' FROM generate_series(1, ${users}) AS i`;
  const userIds = shuffled(Array.from({ length: sessions }, (_, i) => 1 + (i % users)));
  const now = Date.now();
  const states = new Map<TokenKey, SessionState>();
  for (let at = 0; at < sessions; at += CHUNK) {
    const chunk = userIds.slice(at, at + CHUNK).map((userId, i) => {
      const state = initialState(now * 1000 - REFRESH_INTERVAL * 100 + at + i, aFingerprint());
      states.set({ userId, tokenId: at + i + 1 }, state);
      return {
        userId: BigInt(userId),
        ...sessionColumns({ name: 'Firefox on Windows', createdAt: now, state }),
      };
    });
    await prisma.token.createMany({ data: chunk });
  }
  return states;
}

/** Every session is refreshed once, and its new pair is used. @param queued refreshes from one flush to the next. */
async function refreshAll(
  prisma: PrismaClient,
  states: Map<TokenKey, SessionState>,
  queued: number,
): Promise<void> {
  const writeBehind = makeWriteBehind({
    ...someQueues(),
    writer: makeStateWriter(prisma),
    tokenStates: { revokeAll: () => Promise.resolve() },
    revocations: { settle: () => Promise.resolve() },
    clock: { now: Date.now, monotonic: () => performance.now(), isTrusted: () => true },
  });
  const entries = shuffled([...states]);
  for (let at = 0; at < entries.length; at += queued) {
    for (const [key, { latest: parent, caller }] of entries.slice(at, at + queued)) {
      const latest = parent + REFRESH_INTERVAL;
      const state = { latest, parent, first: latest, confirmed: true, caller };
      states.set(key, state);
      writeBehind.note(key, state);
    }
    await writeBehind.flush();
  }
}

async function sizeOf(prisma: PrismaClient): Promise<number> {
  const [row] = await prisma.$queryRaw<{ size: bigint }[]>`SELECT pg_total_relation_size('tokens') AS size`;
  return Number(row?.size);
}

async function partsOf(prisma: PrismaClient, sessions: number): Promise<PostgresBytes['parts']> {
  const rows = await prisma.$queryRaw<{ name: string; size: bigint }[]>`
    SELECT 'table' AS name, pg_table_size('tokens') AS size
    UNION ALL
    SELECT indexrelid::regclass::text, pg_relation_size(indexrelid) FROM pg_index
    WHERE indrelid = 'tokens'::regclass`;
  return rows.map(({ name, size }) => ({ name, bytes: Number(size) / sessions }));
}

async function activityOf(prisma: PrismaClient): Promise<Pick<PostgresBytes, 'hot' | 'vacuums'>> {
  // A connection reports its activity at the end of a statement, at most once a second unless it is told to.
  await prisma.$queryRaw`SELECT 1 AS done FROM (SELECT pg_stat_force_next_flush()) AS told`;
  const [row] = await prisma.$queryRaw<{ updated: bigint; hot: bigint; vacuums: bigint }[]>`
    SELECT n_tup_upd AS updated, n_tup_hot_upd AS hot, autovacuum_count AS vacuums
    FROM pg_stat_user_tables WHERE relname = 'tokens'`;
  return { hot: Number(row?.hot) / Number(row?.updated), vacuums: Number(row?.vacuums) };
}
