import type { Config } from '../config/config.ts';
import { causeOf } from '../infra/redis/connection/errors.ts';
import { makeConnections } from '../infra/redis/connection/connections.ts';
import { inspectRedis, memoryShareOf, type RedisFacts } from '../infra/redis/inspect.ts';
import { onNodeError, openRedis } from '../infra/redis/connection/open-redis.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { judgeCertificate } from './certificate.ts';
import { compareClocks, judgeClock } from './clock.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

type Mode = Config['REDIS_MODE'];

/** Milliseconds to wait for an answer: ioredis asks Sentinels and clusters again and again. */
const ANSWER_TIMEOUT = 5000;

/** Share of maxmemory above which the alert LatchkeyRedisNearlyFull fires. */
const FULL = 0.8;
/** Seconds after which a master without replicas must refuse writes (docs/operating.md, "Redis"). */
const MAX_LAG = 2;

/** The documented ACL does not permit CONFIG, which would show Redis's own password. */
const UNREAD = 'not checked, because our user may not read it';

/** Why Redis should persist nothing (docs/adr/0002-redis-may-forget-everything.md). */
const OLD_STATES = 'a Redis that returns with old data accepts superseded tokens again';
const NO_PERSISTENCE =
  "CONFIG SET save '', CONFIG SET appendonly no, and the same in its configuration: states are rebuilt from the database";

/** Connects, writes the key that the service writes each second, and checks every master. */
export async function checkRedis(config: Config): Promise<Finding[]> {
  const { REDIS_URL: url, REDIS_PREFIX: prefix, REDIS_MODE: mode } = config;
  if (url === undefined) {
    const found = 'none: session states are in memory; after a restart, each is rebuilt from the database';
    return [warn('redis', found, 'set REDIS_URL to run more than one replica')];
  }
  const redis = openRedis({ ...config, REDIS_URL: url });
  const failures: unknown[] = [];
  redis.on('error', (error: unknown) => failures.push(error));
  onNodeError(redis, (error) => failures.push(error));
  try {
    await withTimeout(redis.connect(), ANSWER_TIMEOUT);
    const connections = makeConnections(redis, prefix);
    const writable = connections.checkMasters().then(() => connections.checkMemory());
    const refused = await withTimeout(writable, ANSWER_TIMEOUT).then(
      () => null,
      (error: unknown) => reasonOf(error),
    );
    if (refused !== null) {
      const todo = 'see its error; until it accepts writes, refresh and logout return 503';
      return [fail('redis', `refuses writes: ${refused}`, todo)];
    }
    const masters = await withTimeout(inspectRedis(redis), ANSWER_TIMEOUT);
    const findings = await Promise.all(
      masters.map(async (facts) => [
        ...judgeRedis(facts, mode),
        ...judgeCertificate(facts.address, facts.certificateEnd, Date.now()),
        judgeClock(facts.address, await compareClocks(() => facts.now())),
      ]),
    );
    const whoAnswers =
      mode === 'cluster' ? `${masters.length} masters answer and take` : 'the master answers and takes';
    return [ok('redis', `${whoAnswers} writes (${mode})`), ...findings.flat()];
  } catch (error) {
    // The errors of the attempts to connect say more than our timeout.
    const cause = failures.at(-1) ?? error;
    return [fail('redis', `not reachable: ${reasonOf(cause)}`, causeOf(cause).todo)];
  } finally {
    redis.disconnect();
  }
}

/** The reason from Redis or the network, without the command that was sent. */
function reasonOf(error: unknown): string {
  const { cause, lastNodeError, message, code } = error as Failure;
  if (cause !== undefined) return reasonOf(cause);
  if (lastNodeError !== undefined) return reasonOf(lastNodeError);
  return message.replace(/\.$/, '') || (code ?? 'no answer');
}

type Failure = NodeJS.ErrnoException & { /** Of a cluster that does not answer. */ lastNodeError?: unknown };

/** Checks a master's settings for possible data loss. */
export function judgeRedis(facts: RedisFacts, mode: Mode): Finding[] {
  return [
    ...judgeScripts(facts),
    judgeEviction(facts),
    judgePersistence(facts),
    judgeReplication(facts, mode),
    ...(mode === 'cluster' ? [judgeCoverage(facts)] : []),
  ];
}

/** Verify, refresh and revocation are scripts. */
function judgeScripts({ address, scriptRefusal }: RedisFacts): Finding[] {
  if (scriptRefusal === null) return [];
  const todo =
    'allow EVAL and EVALSHA under these names (docs/operating.md, "Redis"): until then no token can be checked';
  return [fail(`redis scripts (${address})`, `refuses them: ${scriptRefusal}`, todo)];
}

function judgeEviction({ address, info }: RedisFacts): Finding {
  const check = `redis memory (${address})`;
  const policy = info.get('maxmemory_policy') ?? 'unknown';
  const set = 'CONFIG SET maxmemory-policy noeviction, and the same in its configuration';
  if (policy !== 'noeviction')
    return fail(check, `maxmemory-policy is ${policy}: Redis may evict states`, set);
  const share = memoryShareOf(info);
  const found =
    share === 0 ? 'noeviction, no maxmemory' : `noeviction, ${Math.round(100 * share)} % of maxmemory in use`;
  if (share < FULL) return ok(check, found);
  return warn(
    check,
    found,
    'raise maxmemory: logins are refused at SHED_REDIS_MEMORY, and refreshes if it is full',
  );
}

function judgePersistence({ address, info, config }: RedisFacts): Finding {
  const check = `redis persistence (${address})`;
  const isAppending = info.get('aof_enabled') === '1';
  if (isAppending && info.get('aof_last_write_status') !== 'ok') {
    return fail(
      check,
      'writing the append-only file failed, so Redis refuses writes',
      'check its disk and log',
    );
  }
  if (info.get('rdb_last_bgsave_status') === 'err') {
    return fail(
      check,
      'the last snapshot failed: Redis may refuse writes at any time',
      'check its disk and log',
    );
  }
  if (isAppending) return warn(check, `append-only file: ${OLD_STATES}`, NO_PERSISTENCE);
  const save = config('save');
  if (save === null) {
    const saves = Number(info.get('rdb_saves') ?? 0);
    if (saves > 0) return warn(check, `${saves} snapshots since its start: ${OLD_STATES}`, NO_PERSISTENCE);
    return ok(
      check,
      `no append-only file, and no snapshot since its start; its setting \`save\` is ${UNREAD}`,
    );
  }
  if (save !== '') return warn(check, `snapshots (save ${save}): ${OLD_STATES}`, NO_PERSISTENCE);
  return ok(check, 'none: after a restart, each session is rebuilt from the database once');
}

function judgeReplication({ address, info, config }: RedisFacts, mode: Mode): Finding {
  const check = `redis replication (${address})`;
  const replicas = Number(info.get('connected_slaves') ?? 0);
  if (replicas === 0) {
    if (mode === 'single') return ok(check, 'no replicas');
    return warn(check, 'no replica is connected: a failover is not possible', 'start one, or check its log');
  }
  const todo = `set min-replicas-to-write 1 and min-replicas-max-lag ${MAX_LAG}`;
  // INFO has this field only if both settings are above 0.
  if (info.get('min_slaves_good_slaves') === undefined) {
    const found = `${replicas} connected, but writes need none: an isolated master may accept a revoked token`;
    return warn(check, found, todo);
  }
  const lag = config('min-replicas-max-lag');
  const found = `${replicas} connected, and writes need one`;
  if (lag === null) return ok(check, `${found}; min-replicas-max-lag is ${UNREAD}`);
  if (Number(lag) > MAX_LAG) return warn(check, `${found}; min-replicas-max-lag is ${lag}`, todo);
  return ok(check, `${found} that is at most ${lag} s behind`);
}

function judgeCoverage({ address, config }: RedisFacts): Finding {
  const check = `redis cluster (${address})`;
  const coverage = config('cluster-require-full-coverage');
  if (coverage === null) return ok(check, `cluster-require-full-coverage is ${UNREAD}`);
  if (coverage === 'yes') return ok(check, 'if a part is down, the whole cluster refuses commands');
  const found = `cluster-require-full-coverage is ${coverage}: some users are served while revocations of others have to wait`;
  return warn(check, found, 'set it to yes');
}
