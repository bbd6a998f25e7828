import type { Pool } from 'pg';
import { skeletonOf } from '../../domain/users/confusables.ts';
import { Prisma, type PrismaClient } from '../../generated/prisma/client.ts';
import { isDuplicate, mapDatabaseErrors } from './errors.ts';

/** Accounts per transaction, which delays their logins for some milliseconds. */
const PAGE = 500;
/** An arbitrary id that no other advisory lock uses. */
const LOCK = 4_117_200_924;
/** Attempts per page: if a signup takes a skeleton between read and update, the page starts again. */
const MAX_TRIES = 10;

interface Filled {
  /** Accounts that got their skeleton. */
  filled: number;
  /** Ids of accounts that get none, because an older account has the same. */
  colliding: number[];
}

type Row = { id: bigint; username: string };

/**
 * Gives each account without a skeleton its own, the oldest first, one commit per page. An interrupted run may be
 * repeated. If accounts look alike, the oldest gets the skeleton, even if a newer one had it before.
 * @throws AuthError `unavailable`
 */
export async function fillSkeletons(prisma: PrismaClient): Promise<Filled> {
  const colliding = new Set<number>();
  let filled = 0;
  for (let after = 0n; ;) {
    const page = await fillPage(prisma, after);
    filled += page.filled;
    for (const id of page.colliding) colliding.add(Number(id));
    if (page.last === null) return { filled, colliding: [...colliding].sort((a, b) => a - b) };
    after = page.last;
  }
}

async function fillPage(prisma: PrismaClient, after: bigint) {
  for (let tries = 1; ; tries++) {
    try {
      return await mapDatabaseErrors(() => prisma.$transaction((tx) => fillOnce(tx, after)));
    } catch (error) {
      if (tries === MAX_TRIES || !isDuplicate(error)) throw error;
    }
  }
}

async function fillOnce(tx: Prisma.TransactionClient, after: bigint) {
  // Two commands at once take turns; otherwise they would wait for each other's rows.
  await tx.$executeRaw`SELECT pg_advisory_xact_lock(${LOCK})`;
  const rows = await tx.$queryRaw<Row[]>`
    SELECT id, username FROM users WHERE username_skeleton IS NULL AND id > ${after} ORDER BY id LIMIT ${PAGE}`;
  const oldest = new Map<string, bigint>();
  for (const { id, username } of rows) {
    const skeleton = skeletonOf(username);
    if (!oldest.has(skeleton)) oldest.set(skeleton, id);
  }
  const wanted = Prisma.sql`unnest(${[...oldest.values()]}::bigint[], ${[...oldest.keys()]}::text[])
    AS wanted(id, skeleton)`;
  const displaced = await tx.$queryRaw<{ id: bigint }[]>`
    UPDATE users SET username_skeleton = NULL FROM ${wanted}
    WHERE users.username_skeleton = wanted.skeleton AND users.id > wanted.id RETURNING users.id`;
  const given = await tx.$queryRaw<{ id: bigint }[]>`
    UPDATE users SET username_skeleton = wanted.skeleton FROM ${wanted}
    WHERE users.id = wanted.id
      AND NOT EXISTS (SELECT 1 FROM users AS holder WHERE holder.username_skeleton = wanted.skeleton)
    RETURNING users.id`;
  const filled = new Set(given.map(({ id }) => id));
  return {
    filled: filled.size,
    colliding: [...rows, ...displaced].map(({ id }) => id).filter((id) => !filled.has(id)),
    last: rows.at(-1)?.id ?? null,
  };
}

/** For `doctor`: accounts without a skeleton. */
export interface SkeletonFacts {
  /** Accounts without a skeleton. */
  missing: number;
  /** Of the first thousand: ids of accounts whose skeleton an older account has. */
  colliding: number[];
}

/** The most accounts to compare one by one. */
const MAX_COMPARED = 1000;

/** Rejects with the driver's own errors. */
export async function inspectSkeletons(pool: Pool): Promise<SkeletonFacts> {
  const { rows: counts } = await pool.query<{ missing: number }>(
    'SELECT count(*)::int AS missing FROM users WHERE username_skeleton IS NULL',
  );
  const { rows } = await pool.query<{ id: string; username: string }>(
    'SELECT id, username FROM users WHERE username_skeleton IS NULL ORDER BY id LIMIT $1',
    [MAX_COMPARED],
  );
  const lacking = rows.map(({ id, username }) => ({ id: Number(id), skeleton: skeletonOf(username) }));
  const { rows: holders } = await pool.query<{ username_skeleton: string }>(
    'SELECT username_skeleton FROM users WHERE username_skeleton = ANY($1)',
    [lacking.map(({ skeleton }) => skeleton)],
  );
  const held = new Set(holders.map((holder) => holder.username_skeleton));
  const colliding = lacking.filter(({ skeleton }) => held.has(skeleton)).map(({ id }) => id);
  return { missing: counts[0]?.missing ?? 0, colliding };
}
