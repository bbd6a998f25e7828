import type { Config } from '../config/config.ts';
import { judge, NEWCOMER, type Recorded, type RedisMark } from '../infra/installation/binding.ts';
import { makeMarks } from '../infra/installation/marks.ts';
import { makeRedisMarks } from '../infra/installation/redis-marks.ts';
import { makePostgres } from '../infra/postgres/client.ts';
import { openRedis } from '../infra/redis/connection/open-redis.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { fail, ok, warn, type Finding } from './finding.ts';

/** Milliseconds to wait for a connection: ioredis asks Sentinels and clusters again and again. */
const CONNECT_TIMEOUT = 5000;

/** Whether a replica that starts now would serve with this Redis. Nothing if Redis fails, which checkRedis reports. */
export async function checkRedisMark(config: Config): Promise<Finding[]> {
  const { REDIS_URL, DATABASE_URL: url, DATABASE_CA: ca, DATABASE_TIMEOUT: timeout } = config;
  if (REDIS_URL === undefined || url === undefined) return [];
  const postgres = makePostgres({ url, ca, pool: 1, timeout, observe: null });
  const redis = openRedis({ ...config, REDIS_URL });
  redis.on('error', () => undefined);
  try {
    await withTimeout(redis.connect(), CONNECT_TIMEOUT);
    const held = (await makeRedisMarks(redis, config.REDIS_PREFIX).read()).map((master) => master.held);
    const marks = held.flatMap((mark) => mark?.mark ?? []);
    return [judgeMark(held, await makeMarks(postgres.prisma).read(marks))];
  } catch {
    return [];
  } finally {
    redis.disconnect();
    await postgres.close();
  }
}

/** @param held what each master holds. */
export function judgeMark(held: readonly (RedisMark | null)[], recorded: Recorded): Finding {
  const check = 'redis mark';
  const verdict = judge(held, recorded, NEWCOMER);
  if (verdict.is === 'admit') return ok(check, 'Redis belongs to this database');
  if ('objection' in verdict) return fail(check, verdict.objection.problem, verdict.objection.action);
  if (recorded.id === null) return ok(check, 'none yet: the first replica that starts sets it');
  return warn(
    check,
    'the database names another Redis than this one, with which no replica serves: the next that starts takes this one',
    'check REDIS_URL, REDIS_NODES and REDIS_PREFIX, unless you have emptied or moved Redis',
  );
}
