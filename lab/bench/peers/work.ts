import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { sql } from '../../../test/support/sql.ts';
import { loadOf } from './rounds.ts';
import type { Entrant } from './servers.ts';

/** What a request costs the stores, on average. */
export interface Work {
  /** Commands by name, as the server sends them: a script counts once. */
  commands: Record<string, number>;
  /** PostgreSQL transactions: a statement outside a transaction is one. */
  transactions: number;
}

/** A line of Redis's MONITOR. */
export interface MonitorLine {
  /** The command's name and its arguments. */
  args: readonly string[];
  /** The connection, or `lua` for a command in a script. */
  source: string;
}

/** An idle connection reports its transactions within 10 s (PGSTAT_IDLE_INTERVAL of PostgreSQL 15). */
const SETTLE_MS = 10_500;
/** Less often than this a request, a command belongs to background work. */
const BACKGROUND = 0.02;

/** Counts while each entrant runs alone under load for this time, with Redis's MONITOR. Takes 20 s more. */
export async function countWork(
  entrants: readonly Entrant[],
  { redisUrl, seconds }: { redisUrl: string; seconds: number },
): Promise<Work[]> {
  const urls = entrants.map(({ server }) => server.databaseUrl);
  await sleep(SETTLE_MS);
  const before = await transactionsOf(urls);
  const loads = [];
  for (const entrant of entrants) loads.push(await monitored(entrant, redisUrl, seconds));
  await sleep(SETTLE_MS);
  const after = await transactionsOf(urls);
  return loads.map(({ requests, lines, prefix }, i) => ({
    commands: prefix === null ? {} : commandsPerRequest(lines, prefix, requests),
    transactions: ((after[i] ?? 0) - (before[i] ?? 0)) / requests,
  }));
}

async function monitored(entrant: Entrant, redisUrl: string, seconds: number) {
  const lines: MonitorLine[] = [];
  const redis = new Redis(redisUrl);
  const monitor = await redis.monitor();
  monitor.on('monitor', (_time: string, args: string[], source: string) => {
    lines.push({ args, source });
  });
  const { requests } = await loadOf(entrant, seconds);
  // The last lines are on their way.
  await sleep(200);
  monitor.disconnect();
  redis.disconnect();
  return { requests, lines, prefix: entrant.server.redisPrefix };
}

/**
 * Commands of the connections that name a key with this prefix at least once. So commands without a key count too, and
 * other users of the same Redis do not.
 */
export function commandsPerRequest(
  lines: readonly MonitorLine[],
  prefix: string,
  requests: number,
): Record<string, number> {
  const own = lines.filter(({ source }) => source !== 'lua');
  const sources = new Set(
    own.filter(({ args }) => args.some((arg) => arg.includes(prefix))).map(({ source }) => source),
  );
  const counts: Record<string, number> = {};
  for (const { args, source } of own) {
    const name = (args[0] ?? '').toUpperCase();
    if (sources.has(source)) counts[name] = (counts[name] ?? 0) + 1;
  }
  return Object.fromEntries(
    Object.entries(counts)
      .map(([name, count]) => [name, count / requests] as const)
      .filter(([, each]) => each >= BACKGROUND)
      .sort(([nameA, a], [nameB, b]) => b - a || nameA.localeCompare(nameB)),
  );
}

async function transactionsOf(urls: readonly (string | null)[]): Promise<number[]> {
  const counts = [];
  for (const url of urls) counts.push(url === null ? 0 : await transactionsIn(url));
  return counts;
}

async function transactionsIn(url: string): Promise<number> {
  const [row] = await sql<{ count: string }>(
    url,
    'SELECT xact_commit + xact_rollback AS count FROM pg_stat_database WHERE datname = current_database()',
  );
  return Number(row?.count ?? 0);
}

/** `1 GET, 2 HSET`: whole numbers where the average is nearly one. */
export function commandText(commands: Record<string, number>): string {
  const parts = Object.entries(commands).map(([name, count]) => `${countText(count)} ${name}`);
  return parts.length === 0 ? '–' : parts.join(', ');
}

/** Requests may share a command. Background work of a service rounds to 0. */
export function countText(count: number): string {
  if (count >= 0.01 && count < 0.1) return count.toFixed(2);
  const whole = Math.round(count);
  return Math.abs(count - whole) < 0.1 ? String(whole) : count.toFixed(1);
}
