import type { Costs } from './costs.ts';
import {
  coresOf,
  demandOf,
  firstVerifiesOf,
  type Cores,
  type Demand,
  type Rates,
  type Usage,
} from './demand.ts';
import { planStores, type StorePlan } from './stores.ts';

/** The service's own figures (src/config), with which a plan has to agree. */
export interface Settings {
  /** Bytes of a process without hashes, and of one hash. */
  processMemory: number;
  hashMemory: number;
  hashConcurrency: number;
  databasePool: number;
  /** SESSION_CACHE_TTL and REFRESH_TOKEN_TTL, in seconds. */
  sessionCacheTtl: number;
  refreshTokenTtl: number;
  /**
   * Verified tokens that a replica surely remembers.
   * @param limit its memory limit in bytes.
   * @param needed bytes of the process and its password hashes.
   */
  rememberedTokens: (limit: number, needed: number) => number;
  /** REVOCATION_READERS_MAX. */
  readersMax: number;
}

export interface Plan {
  demand: Demand;
  /** In the busiest second. Those of the stores include what the replicas use when idle. */
  cores: Cores;
  /** Share of the verifies that check a signature, at the peak: the first of a token on each replica. */
  firstVerifies: number;
  /** Readers of the feed on one replica, when the fewest replicas share them. */
  readersOfReplica: number;
  /** What `cores` lacks, because this version holds no measurement of it. */
  unknown: ('revocations' | 'changes' | 'feedReaders')[];
  replicas: ReplicaPlan;
  connections: ConnectionPlan;
  redis: StorePlan['redis'];
  postgres: StorePlan['postgres'];
}

interface ReplicaPlan {
  /** For the busiest second, and for the day's mean. */
  peak: number;
  mean: number;
  /** Requested cores and bytes of one replica; the memory is also the limit. */
  cpu: number;
  memory: number;
  /** Verified tokens that fit into it. */
  rememberedTokens: number;
  hashConcurrency: number;
  /** Logins a second of one replica with all hashes running, if it finds idle cores. */
  loginsAtMost: number;
  autoscaler: { min: number; max: number; targetCpu: number };
}

interface ConnectionPlan {
  /** DATABASE_POOL. */
  pool: number;
  /** At most, with maxSurge and an ending replica (k8s/README.md, "Connections"). */
  total: number;
  /** Whether they exceed PostgreSQL's default of 100, less the three of its superusers. */
  exceedsDefault: boolean;
}

/** As in k8s/base: one core for the event loop, and the autoscaler's target in percent. */
const CPU = 1;
const TARGET_CPU = 60;
const MIN_REPLICAS = 2;
/** More than any installation. The search for a number ends here. */
const MOST_REPLICAS = 10_000;
/** The autoscaler's room above the peak: the figures of a peak are a guess. */
const ROOM = 1.5;
/** The memory check warns above this share of the limit (src/doctor/configuration.ts). */
const FULL = 0.85;
const MIB = 1024 ** 2;
/** Limits are multiples of this. */
const MEMORY_STEP = 128 * MIB;
/** More memory than this makes no replica remember more tokens. */
const MOST_FOR_TOKENS = 512 * MIB;
/** PostgreSQL's default, without the three for its superusers. */
const DEFAULT_CONNECTIONS = 97;
/** Of a rollout: the new replica and the ending one. The migration has two connections, the purge one. */
const ROLLOUT_REPLICAS = 2;
const JOB_CONNECTIONS = 3;
const LEAST_POOL = 4;

/** Sizes an installation. */
export function makePlan(usage: Usage, settings: Settings, costs: Costs): Plan {
  const demand = demandOf(usage, settings.sessionCacheTtl);
  const memory = memoryFor(demand.inUse, settings);
  const carriers = { inUse: demand.inUse, remembered: memory.rememberedTokens };
  const peak = loadOf(demand.peak, carriers, usage, costs);
  const mean = loadOf(demand.mean, carriers, usage, costs);
  const replicas = planReplicas(peak.replicas, mean.replicas, memory, settings, costs);
  const { cores: requests, firstVerifies } = peak;
  const cores = {
    ...requests,
    redis: requests.redis + replicas.peak * costs.idle.redis,
    postgres: requests.postgres + replicas.peak * costs.idle.postgres,
  };
  return {
    demand,
    cores,
    firstVerifies,
    readersOfReplica: Math.ceil(usage.feedReaders / replicas.autoscaler.min),
    unknown: [
      ...(costs.changes || demand.peak.revocations === 0 ? [] : (['revocations'] as const)),
      ...(costs.changes || demand.peak.changes === 0 ? [] : (['changes'] as const)),
      ...(costs.reader || usage.feedReaders === 0 ? [] : (['feedReaders'] as const)),
    ],
    replicas,
    connections: planConnections(replicas.autoscaler.max, settings),
    ...planStores(
      usage,
      demand,
      cores,
      {
        ...settings,
        loginsAtMost: replicas.autoscaler.max * replicas.loginsAtMost,
      },
      costs,
    ),
  };
}

interface Load {
  cores: Cores;
  firstVerifies: number;
  replicas: number;
}

/**
 * The fewest replicas that carry these rates. Each replica more checks signatures that another one has checked, and
 * renews tombstones again, so the load depends on their number.
 */
function loadOf(
  rates: Rates,
  tokens: { inUse: number; remembered: number },
  { feedReaders }: Usage,
  costs: Costs,
): Load {
  const perReplica = (CPU * TARGET_CPU) / 100 - costs.idle.replica;
  for (let replicas = MIN_REPLICAS; ;) {
    const firstVerifies = firstVerifiesOf(rates, { replicas, ...tokens });
    const cores = coresOf(rates, { replicas, firstVerifies, feedReaders }, costs);
    const needed = Math.ceil(rounded((cores.loop + cores.hash) / perReplica));
    if (needed <= replicas || replicas === MOST_REPLICAS) return { cores, firstVerifies, replicas };
    replicas = Math.min(needed, MOST_REPLICAS);
  }
}

/** As much as the process and its hashes need, and more if that lets a replica remember all tokens in use. */
function memoryFor(
  inUse: number,
  { processMemory, hashMemory, hashConcurrency, rememberedTokens }: Settings,
): Pick<ReplicaPlan, 'memory' | 'rememberedTokens'> {
  const needed = processMemory + hashConcurrency * hashMemory;
  const least = Math.ceil(needed / FULL / MEMORY_STEP) * MEMORY_STEP;
  for (let memory = least; memory <= least + MOST_FOR_TOKENS; memory += MEMORY_STEP) {
    const remembered = rememberedTokens(memory, needed);
    if (remembered >= inUse) return { memory, rememberedTokens: remembered };
  }
  return { memory: least, rememberedTokens: rememberedTokens(least, needed) };
}

function planReplicas(
  peak: number,
  mean: number,
  memory: Pick<ReplicaPlan, 'memory' | 'rememberedTokens'>,
  { hashConcurrency }: Settings,
  costs: Costs,
): ReplicaPlan {
  return {
    peak,
    mean,
    cpu: CPU,
    hashConcurrency,
    ...memory,
    loginsAtMost: (hashConcurrency * 1e6) / costs.replica.login,
    autoscaler: { min: mean, max: Math.ceil(rounded(peak * ROOM)), targetCpu: TARGET_CPU },
  };
}

/** Lowers the pool if that makes the connections fit into PostgreSQL's default. */
function planConnections(replicas: number, { databasePool }: Settings): ConnectionPlan {
  const most = replicas + ROLLOUT_REPLICAS;
  const fitting = Math.floor((DEFAULT_CONNECTIONS - JOB_CONNECTIONS) / most) - 1;
  const pool = fitting >= LEAST_POOL ? Math.min(databasePool, fitting) : databasePool;
  const total = most * (pool + 1) + JOB_CONNECTIONS;
  return { pool, total, exceedsDefault: total > DEFAULT_CONNECTIONS };
}

/** Without the error of floating point, which would add a replica to an exact figure. */
function rounded(value: number): number {
  return Number(value.toPrecision(12));
}
