import type { Config } from '../config.ts';
import { makeSessionRedis } from '../compose-states.ts';
import { makeConnections } from '../infra/redis/connections.ts';
import { inspectRedis } from '../infra/redis/inspect.ts';
import { compareClocks, judgeClock } from './clock.ts';
import { fail, ok, warn, type Finding } from './finding.ts';
import { judgeRedis } from './redis-settings.ts';

/** Milliseconds after which nobody will answer any more: Sentinels and clusters are asked again and again. */
const PATIENCE = 5000;

/** Connects, writes what the service writes each second, and looks at every master. */
export async function checkRedis(config: Config): Promise<Finding[]> {
  const { REDIS_URL: url, REDIS_PREFIX: prefix, REDIS_MODE: mode } = config;
  if (url === undefined) {
    const found = 'none: the store of sessions lives in the service’s own process, and ends with it';
    return [warn('redis', found, 'set REDIS_URL where more than one process is to serve')];
  }
  const redis = makeSessionRedis(config, url);
  let reason = '';
  redis.on('error', (error: Error) => (reason = reasonOf(error)));
  try {
    await within(redis.connect());
    const writable = makeConnections(redis, prefix).check();
    const refused = await within(writable).then(
      () => null,
      (error: unknown) => reasonOf(error),
    );
    if (refused !== null) {
      const todo = 'until it takes writes, refresh and logout are answered 503: see what it says';
      return [fail('redis', `refuses writes: ${refused}`, todo)];
    }
    const masters = await within(inspectRedis(redis));
    const findings = await Promise.all(
      masters.map(async (facts) => [
        ...judgeRedis(facts, mode),
        judgeClock(facts.address, await compareClocks(() => facts.now())),
      ]),
    );
    const whoAnswers =
      mode === 'cluster' ? `${masters.length} masters answer and take` : 'the master answers and takes';
    return [ok('redis', `${whoAnswers} writes (${mode})`), ...findings.flat()];
  } catch (error) {
    const todo = 'see the REDIS_ variables, the network between, and whether it runs';
    return [fail('redis', `cannot be asked: ${reason || reasonOf(error)}`, todo)];
  } finally {
    redis.disconnect();
  }
}

/** What Redis or the network said; what was sent is no part of it. */
function reasonOf(error: unknown): string {
  const { cause, lastNodeError, message, code } = error as Failure;
  if (cause !== undefined) return reasonOf(cause);
  if (lastNodeError !== undefined) return reasonOf(lastNodeError);
  return message.replace(/\.$/, '') || (code ?? 'no answer');
}

type Failure = NodeJS.ErrnoException & { /** Of a cluster that does not answer. */ lastNodeError?: unknown };

async function within<Value>(work: Promise<Value>): Promise<Value> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      reject(new Error('no answer'));
    }, PATIENCE);
  });
  return Promise.race([work, late]).finally(() => {
    clearTimeout(timer);
  });
}
