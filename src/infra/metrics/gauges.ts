import { readFileSync } from 'node:fs';
import type { KeySet } from '../../domain/access-tokens/ports.ts';
import { addFeedGauges, type FeedSource } from './feed-metrics.ts';
import type { Registry, Sample } from './registry.ts';

/** What is looked at when somebody scrapes, and costs nothing in between. */
export interface Sources {
  /** As `/health/ready` shows it. */
  readiness: () => Promise<{ ready: boolean; checks: Record<string, string> }>;
  hashing: { running: () => number; waiting: () => number; concurrency: number; queue: number };
  pool: { totalCount: number; idleCount: number; waitingCount: number; options: { max?: number } };
  /** `lag` in milliseconds. */
  writeBehind: { size: () => number; lag: () => number };
  pendingRevocations: () => number;
  reuseQueue: () => number;
  feed: FeedSource;
  keys: () => KeySet;
  /** How late the event loop is, in milliseconds. */
  lag: () => number;
}

export function addGauges(registry: Registry, sources: Sources): void {
  addHashing(registry, sources.hashing);
  addStores(registry, sources);
  addFeedGauges(registry, sources.feed);
  addKeys(registry, sources.keys);
  registry.read('gauge', 'latchkey_event_loop_lag_seconds', 'How late the event loop is, as a rule', () =>
    inSeconds(sources.lag()),
  );
}

function addHashing(registry: Registry, { running, waiting, concurrency, queue }: Sources['hashing']): void {
  registry.read('gauge', 'latchkey_hash_running', 'Hashes being computed', running);
  registry.read('gauge', 'latchkey_hash_concurrency', 'How many hashes may be computed', () => concurrency);
  registry.read('gauge', 'latchkey_hash_queue_depth', 'Hashes that wait', waiting);
  registry.read('gauge', 'latchkey_hash_queue_limit', 'How many hashes may wait', () => queue);
}

function addStores(registry: Registry, sources: Sources): void {
  const { readiness, pool, writeBehind } = sources;
  const gauge = (name: string, help: string, read: () => number) => {
    registry.read('gauge', name, help, read);
  };
  // Both metrics of one scrape come from one look.
  let look: ReturnType<Sources['readiness']> | null = null;
  const looked = () =>
    (look ??= readiness().finally(() => {
      look = null;
    }));
  registry.read('gauge', 'latchkey_dependency_up', 'Whether a store answers', async () =>
    Object.entries((await looked()).checks).map(([dependency, check]) => ({
      labels: { dependency },
      value: check === 'ok' ? 1 : 0,
    })),
  );
  registry.read('gauge', 'latchkey_ready', 'Whether traffic should come here', async () =>
    (await looked()).ready ? 1 : 0,
  );

  registry.read('gauge', 'latchkey_postgres_pool_connections', 'Connections to PostgreSQL', () => [
    { labels: { state: 'active' }, value: pool.totalCount - pool.idleCount },
    { labels: { state: 'idle' }, value: pool.idleCount },
  ]);
  gauge('latchkey_postgres_pool_size', 'Connections there may be', () => pool.options.max ?? 0);
  gauge('latchkey_postgres_pool_waiting', 'Work that waits for a connection', () => pool.waitingCount);
  gauge('latchkey_write_behind_records', 'Rotations and uses that are not on record yet', writeBehind.size);
  gauge('latchkey_write_behind_lag_seconds', 'How old the oldest of them is', () =>
    inSeconds(writeBehind.lag()),
  );
  gauge(
    'latchkey_revocations_pending',
    'Revocations whose tombstone is not known to stand',
    sources.pendingRevocations,
  );
  gauge('latchkey_reuse_queue', 'Stolen sessions whose end is not on record yet', sources.reuseQueue);
}

function addKeys(registry: Registry, keys: Sources['keys']): void {
  // A secret says nothing of its age: this is when we first saw it.
  const seen = new Map<string, number>();
  registry.read('gauge', 'latchkey_key_created_timestamp_seconds', 'When the keys in use were made', () => {
    const { signing, refresh } = keys();
    for (const { kid } of refresh) if (!seen.has(kid)) seen.set(kid, Date.now());
    return [
      ...signing.map(({ kid, createdAt }, i) => keySample('signing', kid, i, createdAt)),
      ...refresh.map(({ kid }, i) => keySample('refresh', kid, i, seen.get(kid) ?? 0)),
    ];
  });
}

/** The first of each kind signs. @param createdAt milliseconds since 1970. */
function keySample(use: string, kid: string, index: number, createdAt: number): Sample {
  return { labels: { use, kid, active: String(index === 0) }, value: inSeconds(createdAt) };
}

/** What runs, and what it takes. */
export function addProcess(registry: Registry): void {
  const { version } = JSON.parse(
    readFileSync(new URL('../../../../package.json', import.meta.url), 'utf8'),
  ) as { version: string };
  const started = Date.now() - process.uptime() * 1000;
  registry.read('gauge', 'latchkey_build_info', 'What runs', () => [
    { labels: { version, node: process.versions.node }, value: 1 },
  ]);
  registry.read('gauge', 'process_start_time_seconds', 'When the process was started', () =>
    inSeconds(started),
  );
  registry.read('counter', 'process_cpu_seconds_total', 'Processor time used, user and system', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  registry.read('gauge', 'process_resident_memory_bytes', 'Memory that the process holds', () =>
    process.memoryUsage.rss(),
  );
  registry.read(
    'gauge',
    'nodejs_heap_size_used_bytes',
    'The part of it that JavaScript uses',
    () => process.memoryUsage().heapUsed,
  );
}

function inSeconds(milliseconds: number): number {
  return milliseconds / 1000;
}
