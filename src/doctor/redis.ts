import type { Config } from '../config/config.ts';
import { causeOf } from '../infra/redis/connection/errors.ts';
import { makeConnections } from '../infra/redis/connection/connections.ts';
import { inspectRedis } from '../infra/redis/inspect.ts';
import { openRedis } from '../infra/redis/connection/open-redis.ts';
import { withTimeout } from '../runtime/with-timeout.ts';
import { judgeCertificate } from './certificate.ts';
import { compareClocks, judgeClock } from './clock.ts';
import { fail, ok, warn, type Finding } from './finding.ts';
import { judgeRedis } from './redis-settings.ts';

/** Milliseconds to wait for an answer: ioredis asks Sentinels and clusters again and again. */
const ANSWER_TIMEOUT = 5000;

/** Connects, writes the key that the service writes each second, and checks every master. */
export async function checkRedis(config: Config): Promise<Finding[]> {
  const { REDIS_URL: url, REDIS_PREFIX: prefix, REDIS_MODE: mode } = config;
  if (url === undefined) {
    const found = 'none: session states are in the memory of the service, and end with it';
    return [warn('redis', found, 'set REDIS_URL to run more than one replica')];
  }
  const redis = openRedis({ ...config, REDIS_URL: url });
  const failures: unknown[] = [];
  redis.on('error', (error: unknown) => failures.push(error));
  try {
    await withTimeout(redis.connect(), ANSWER_TIMEOUT);
    const writable = makeConnections(redis, prefix).check();
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
