import type { KeySet } from '../../domain/access-tokens/ports.ts';
import type { Build } from '../../telemetry/build.ts';
import { type Registry, type Sample, seriesOf } from './registry.ts';
import type { Observe } from '../../telemetry/observe.ts';
import type { MailKind } from '../../domain/mail-kinds.ts';
import type { ReaderTally } from '../../domain/enforcement/ports.ts';
import { FEED_ENDS, FEED_SNAPSHOT_REASONS } from '../../domain/metrics/outcomes.ts';

/** Read at each scrape; costs nothing in between. */
export interface Sources {
  /** The settings that replicas share and that change by rollout. */
  lifetimes: () => readonly { setting: string; differs: boolean }[];
  /** The answer of `/health/ready`. */
  readiness: () => Promise<{ ready: boolean; checks: Record<string, string> }>;
  hashing: { running: () => number; waiting: () => number; concurrency: number; queue: number };
  pool: { totalCount: number; idleCount: number; waitingCount: number; options: { max?: number } };
  /** `lag` in milliseconds. */
  writeBehind: { size: () => number; lag: () => number };
  pendingRevocations: () => number;
  reuseQueue: () => number;
  /** How long the oldest mail of each kind has been wanted, in milliseconds. */
  oldestMail: () => Record<MailKind, number>;
  /** What the database says of the installation's upkeep; null until it was read. */
  upkeep: () => Upkeep | null;
  feed: FeedSource;
  /** Of all replicas' readers, by what they have confirmed; null until it is known. */
  feedReaders: () => ReaderTally | null;
  keys: () => KeySet;
  /** Event-loop lag in milliseconds. */
  lag: () => number;
  /** Of the log. */
  droppedLines: () => number;
  /** Of the container, in bytes; 0 for none. */
  memoryLimit: () => number;
  /** Share of Redis's `maxmemory` in use; 0 for no limit. */
  redisMemory: () => number;
  /** When the certificate of each store expires, in ms since 1970; null without TLS. */
  certificateEnds: () => Record<'postgres' | 'redis', number | null>;
  /** By how many seconds our clock is ahead of each store's. */
  clockSkews: () => { store: 'PostgreSQL' | 'Redis'; seconds: number }[];
}

export interface Upkeep {
  /** When a purge last succeeded, in ms since 1970; before the first one, since when purges are recorded. */
  lastPurge: number;
  /** TOTP secrets whose key is not loaded. */
  withoutKey: number;
}

/** A full Redis answers, and LatchkeyRedisNearlyFull tells of it. */
const ANSWERS = ['ok', 'full'];

export function addGauges(registry: Registry, sources: Sources): void {
  addHashing(registry, sources.hashing);
  addStores(registry, sources);
  addFeedGauges(registry, sources);
  addKeys(registry, sources.keys);
  addUpkeep(registry, sources.upkeep);
  registry.read('gauge', 'latchkey_event_loop_lag_seconds', 'Event-loop lag (median of five samples)', () =>
    inSeconds(sources.lag()),
  );
  registry.read(
    'counter',
    'latchkey_log_lines_dropped_total',
    'Log lines dropped because the log could not be written',
    sources.droppedLines,
  );
  registry.read('gauge', 'latchkey_memory_limit_bytes', 'Memory limit of the container', sources.memoryLimit);
}

function addHashing(registry: Registry, { running, waiting, concurrency, queue }: Sources['hashing']): void {
  registry.read('gauge', 'latchkey_hash_running', 'Hashes being computed', running);
  registry.read(
    'gauge',
    'latchkey_hash_concurrency',
    'The most hashes to compute at once',
    () => concurrency,
  );
  registry.read('gauge', 'latchkey_hash_queue_depth', 'Hashes in the queue', waiting);
  registry.read('gauge', 'latchkey_hash_queue_limit', 'The most hashes in the queue', () => queue);
}

function addStores(registry: Registry, sources: Sources): void {
  const { readiness, pool, writeBehind } = sources;
  const gauge = (name: string, help: string, read: () => number) => {
    registry.read('gauge', name, help, read);
  };
  // The metrics of one scrape share one readiness check.
  let check: ReturnType<Sources['readiness']> | null = null;
  const checkOnce = () =>
    (check ??= readiness().finally(() => {
      check = null;
    }));
  registry.read('gauge', 'latchkey_dependency_up', 'Whether a store answers', async () =>
    Object.entries((await checkOnce()).checks).map(([dependency, outcome]) => ({
      labels: { dependency },
      value: ANSWERS.includes(outcome) ? 1 : 0,
    })),
  );
  registry.read(
    'gauge',
    'latchkey_setting_differs',
    "Whether a setting of this replica differs from the installation's",
    () =>
      sources.lifetimes().map(({ setting, differs }) => ({ labels: { setting }, value: Number(differs) })),
  );
  registry.read('gauge', 'latchkey_ready', 'Whether the replica accepts traffic', async () =>
    (await checkOnce()).ready ? 1 : 0,
  );

  registry.read('gauge', 'latchkey_postgres_pool_connections', 'Connections to PostgreSQL', () => [
    { labels: { state: 'active' }, value: pool.totalCount - pool.idleCount },
    { labels: { state: 'idle' }, value: pool.idleCount },
  ]);
  gauge(
    'latchkey_redis_memory_ratio',
    'Used share of maxmemory on the fullest master; 0 without a limit',
    sources.redisMemory,
  );
  registry.read(
    'gauge',
    'latchkey_store_certificate_expiry_timestamp_seconds',
    "When a store's certificate expires; 0 without TLS",
    () =>
      Object.entries(sources.certificateEnds()).map(([store, end]) => ({
        labels: { store },
        value: inSeconds(end ?? 0),
      })),
  );
  registry.read(
    'gauge',
    'latchkey_clock_skew_seconds',
    "How far the replica's clock is ahead of the store's",
    async () => {
      // The check compares the clocks.
      await checkOnce();
      return sources.clockSkews().map(({ store, seconds }) => ({
        labels: { store: store === 'Redis' ? 'redis' : 'postgres' },
        value: seconds,
      }));
    },
  );
  gauge('latchkey_postgres_pool_size', 'The most connections of the pool', () => pool.options.max ?? 0);
  gauge('latchkey_postgres_pool_waiting', 'Callers that wait for a connection', () => pool.waitingCount);
  gauge(
    'latchkey_write_behind_records',
    'Rotations and uses not yet written to PostgreSQL',
    writeBehind.size,
  );
  gauge('latchkey_write_behind_lag_seconds', 'Age of the oldest of them', () => inSeconds(writeBehind.lag()));
  gauge(
    'latchkey_revocations_pending',
    'Revocations whose tombstone is not confirmed',
    sources.pendingRevocations,
  );
  gauge(
    'latchkey_reuse_queue',
    'Stolen sessions whose end is not yet written to PostgreSQL',
    sources.reuseQueue,
  );
  registry.read(
    'gauge',
    'latchkey_wanted_mail_age_seconds',
    'For how long the oldest mail of a kind has been wanted',
    () =>
      Object.entries(sources.oldestMail()).map(([kind, age]) => ({
        labels: { kind },
        value: inSeconds(age),
      })),
  );
}

/** Without a sample until the first read: a 0 would be a purge long ago, or a key that is there. */
function addUpkeep(registry: Registry, upkeep: Sources['upkeep']): void {
  const gauge = (name: string, help: string, read: (known: Upkeep) => number) => {
    registry.read('gauge', name, help, () => {
      const known = upkeep();
      return known === null ? [] : read(known);
    });
  };
  gauge(
    'latchkey_purge_last_success_timestamp_seconds',
    'When a purge last succeeded, or since when purges are recorded',
    ({ lastPurge }) => inSeconds(lastPurge),
  );
  gauge(
    'latchkey_factor_secrets_without_key',
    'Secrets of second factors whose key this replica lacks',
    ({ withoutKey }) => withoutKey,
  );
}

function addKeys(registry: Registry, keys: Sources['keys']): void {
  // A secret has no date, so this is when we first saw it.
  const seen = new Map<string, number>();
  registry.read(
    'gauge',
    'latchkey_key_created_timestamp_seconds',
    'When the keys in use were created',
    () => {
      const { signing, refresh } = keys();
      for (const { kid } of refresh) if (!seen.has(kid)) seen.set(kid, Date.now());
      return [
        ...signing.map(({ kid, createdAt }, i) => keySample('signing', kid, i, createdAt)),
        ...refresh.map(({ kid }, i) => keySample('refresh', kid, i, seen.get(kid) ?? 0)),
      ];
    },
  );
}

/** The first key of each kind signs. @param createdAt milliseconds since 1970. */
function keySample(use: string, kid: string, index: number, createdAt: number): Sample {
  return { labels: { use, kid, active: String(index === 0) }, value: inSeconds(createdAt) };
}

/** Build, processor time and memory of the process. */
export function addProcess(registry: Registry, { version, revision }: Build): void {
  const started = Date.now() - process.uptime() * 1000;
  registry.read('gauge', 'latchkey_build_info', 'What runs', () => [
    { labels: { version, revision, node: process.versions.node }, value: 1 },
  ]);
  registry.read('gauge', 'process_start_time_seconds', 'When the process was started', () =>
    inSeconds(started),
  );
  registry.read('counter', 'process_cpu_seconds_total', 'Processor time used, user and system', () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  registry.read('gauge', 'process_resident_memory_bytes', 'Memory of the process', () =>
    process.memoryUsage.rss(),
  );
  registry.read(
    'gauge',
    'nodejs_heap_size_used_bytes',
    'Memory that JavaScript objects use',
    () => process.memoryUsage().heapUsed,
  );
}

function inSeconds(milliseconds: number): number {
  return milliseconds / 1000;
}

/** Seconds. A reader hears at once, and confirms within about two. */
const ENFORCED_BUCKETS = [0.5, 1, 1.5, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600];

/** Metrics of the revocation feed. */
export function makeFeedMetrics(registry: Registry) {
  const published = registry
    .counters('latchkey_feed_published_total', 'Events that this replica added to the revocation feed')
    .with({});
  const snapshots = seriesOf(
    registry.counters('latchkey_feed_snapshots_total', 'Snapshots sent to readers of the feed'),
    'reason',
    FEED_SNAPSHOT_REASONS,
  );
  const ends = seriesOf(
    registry.counters('latchkey_feed_ends_total', 'Ended connections of readers of the feed'),
    'reason',
    FEED_ENDS,
  );

  const enforced = registry
    .histograms(
      'latchkey_revocation_enforced_seconds',
      'From when this replica read something in the feed until all readers had confirmed it',
      ENFORCED_BUCKETS,
    )
    .with({});

  return {
    revocationEnforced: (seconds) => {
      enforced.observe(seconds);
    },
    feedPublished: (count) => {
      published.inc(count);
    },
    feedSnapshot: (reason) => {
      snapshots[reason].inc();
    },
    feedEnded: (reason) => {
      ends[reason].inc();
    },
  } satisfies Partial<Observe>;
}

/** Read at each scrape. `lag` in milliseconds. */
interface FeedSource {
  readers: () => number;
  lag: () => number;
}

function addFeedGauges(
  registry: Registry,
  { feed: { readers, lag }, feedReaders }: Pick<Sources, 'feed' | 'feedReaders'>,
): void {
  registry.read('gauge', 'latchkey_feed_readers', 'Connected readers of the revocation feed', readers);
  registry.read(
    'gauge',
    'latchkey_feed_lag_seconds',
    'How far readers of the feed may be behind',
    () => lag() / 1000,
  );
  registry.read(
    'gauge',
    'latchkey_readers',
    'Readers of the revocation feed on all replicas, by what they have confirmed',
    () => Object.entries(feedReaders() ?? {}).map(([state, value]) => ({ labels: { state }, value })),
  );
}
