import type { Config } from '../config.ts';
import type { RedisFacts } from '../infra/redis/inspect.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

type Mode = Config['REDIS_MODE'];

/** Share of maxmemory from which on it is about to be full. */
const FULL = 0.9;
/** Seconds: a master without its replicas is not believed for longer (README, "Redis"). */
const MAX_LAG = 2;

/** Where CONFIG is not permitted. */
const ALLOW = 'let our user +config|get for this command, or look yourself';

/** What a master's settings would lose. */
export function judgeRedis(facts: RedisFacts, mode: Mode): Finding[] {
  return [
    judgeEviction(facts),
    judgePersistence(facts),
    judgeReplication(facts, mode),
    ...(mode === 'cluster' ? [judgeCoverage(facts)] : []),
  ];
}

function judgeEviction({ address, info }: RedisFacts): Finding {
  const check = `redis memory (${address})`;
  const policy = info('maxmemory_policy') ?? 'unknown';
  const set = 'CONFIG SET maxmemory-policy noeviction, and the same in its configuration';
  if (policy !== 'noeviction')
    return fail(check, `maxmemory-policy is ${policy}: states may be thrown away`, set);
  const max = Number(info('maxmemory') ?? 0);
  const share = max === 0 ? 0 : Number(info('used_memory') ?? 0) / max;
  const found =
    max === 0 ? 'noeviction, no maxmemory' : `noeviction, ${Math.round(100 * share)} % of maxmemory in use`;
  if (share < FULL) return ok(check, found);
  return warn(check, found, 'raise maxmemory: when it is full, refresh is answered 503');
}

function judgePersistence({ address, info, config }: RedisFacts): Finding {
  const check = `redis persistence (${address})`;
  const isAppending = info('aof_enabled') === '1';
  if (isAppending && info('aof_last_write_status') !== 'ok') {
    return fail(
      check,
      'its append-only file cannot be written, and writes are refused',
      'see its disk and log',
    );
  }
  if (info('rdb_last_bgsave_status') === 'err') {
    return fail(check, 'its last snapshot failed: it may refuse writes at any time', 'see its disk and log');
  }
  if (isAppending) return ok(check, 'append-only file');
  const save = config('save');
  if (save === null)
    return warn(check, 'no append-only file; whether it writes snapshots cannot be told', ALLOW);
  if (save !== '') return ok(check, `snapshots (save ${save}); what they lack is rebuilt from the database`);
  const found = 'none: after a restart each session is rebuilt from the database once';
  return warn(check, found, 'set appendonly yes, unless that load on the database is acceptable');
}

function judgeReplication({ address, info, config }: RedisFacts, mode: Mode): Finding {
  const check = `redis replication (${address})`;
  const replicas = Number(info('connected_slaves') ?? 0);
  if (replicas === 0) {
    if (mode === 'single') return ok(check, 'no replicas');
    return warn(check, 'no replica is connected: nothing can take over', 'start one, or see its log');
  }
  const todo = `set min-replicas-to-write 1 and min-replicas-max-lag ${MAX_LAG}`;
  // INFO has this field only where both settings are above 0.
  if (info('min_slaves_good_slaves') === undefined) {
    const found = `${replicas} connected, and writes do not wait for any: a master that was cut off may accept a revoked token`;
    return warn(check, found, todo);
  }
  const lag = config('min-replicas-max-lag');
  const found = `${replicas} connected, and writes need one`;
  if (lag === null) return warn(check, `${found}; min-replicas-max-lag cannot be told`, ALLOW);
  if (Number(lag) > MAX_LAG) return warn(check, `${found}; min-replicas-max-lag is ${lag}`, todo);
  return ok(check, `${found} that is at most ${lag} s behind`);
}

function judgeCoverage({ address, config }: RedisFacts): Finding {
  const check = `redis cluster (${address})`;
  const coverage = config('cluster-require-full-coverage');
  if (coverage === null) return warn(check, 'cluster-require-full-coverage cannot be told', ALLOW);
  if (coverage === 'yes') return ok(check, 'all of it is away while a part of it is');
  const found = `cluster-require-full-coverage is ${coverage}: some users are served while revocations of others wait`;
  return warn(check, found, 'set it to yes');
}
