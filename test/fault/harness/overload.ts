import os from 'node:os';
import type { Test } from 'tap';
import { generate } from '../../support/generator/generator.ts';
import { runLoad } from '../../support/generator/load.ts';
import type { OpenLoopResult } from '../../support/generator/open-loop.ts';
import { nextRefresh, requestText, verifyRequest } from '../../support/generator/requests.ts';
import { anAccount, claimsOf, type Pair } from '../../support/client.ts';
import { testFolder } from '../../support/folder.ts';
import { testDatabase } from '../../support/postgres.ts';
import { startRedis, type RedisServer } from '../../support/redis-server.ts';
import { aRegisteredService, basic, type TestService } from '../../support/registered-service.ts';
import { makeBalancer } from './balancer.ts';
import { isReady, startReplica, type Replica } from './replica.ts';
import { makeTally } from './tally.ts';
import { inParallel, insist } from './verified-sessions.ts';

export const OPERATIONS = ['verify', 'refresh', 'introspection'] as const;
export type Operation = (typeof OPERATIONS)[number];

/** Two replicas, of which the first gets more than it can answer. Every token that is presented is good. */
export interface OverloadedSite {
  replicas: readonly [Replica, Replica];
  redis: RedisServer;
  databaseUrl: string;
  /** Measures an operation in a closed loop, then offers 150% of that rate in an open loop. */
  offer(operation: Operation): Promise<OpenLoopResult>;
  /** Offers all operations at once, 150% in sum. */
  offerAll(): Promise<Record<Operation, OpenLoopResult>>;
  /** The same to both replicas: twice as much. */
  offerBoth(): Promise<Record<Operation, OpenLoopResult>>;
  /** Deletes every tenth session from Redis: their next use needs a connection to PostgreSQL. */
  evict(): Promise<void>;
  /** Refreshes every session once, with retries. @throws Error if one is refused. */
  renewAll(): Promise<void>;
}

/** Sessions that refresh, one request at a time: more than an open loop has connections. */
const REFRESHED = 300;
/** Sessions whose access tokens are checked. No refresh supersedes these tokens meanwhile. */
const READ = 100;
const CLOSED_CONNECTIONS = 64;
const CLOSED_SECONDS = 1;
const OPEN_SECONDS = 3;
const FACTOR = 1.5;
/** Other work on the machine may have slowed the closed loop, so the rate is doubled until it is too much. */
const MAX_TRIES = 6;
/** As in requestText: all requests of a session come from one client. */
const USER_AGENT = 'bench';

/**
 * Production's log, and a small pool that is soon used up. A replica that other work on the machine delays must not take
 * that for an outage of Redis.
 */
const ENVIRONMENT = {
  LOG_REQUESTS: 'failures',
  REDIS_TIMEOUT: '2000',
  DATABASE_POOL: '2',
  DATABASE_TIMEOUT: '1000',
};

export async function openSite(t: Test): Promise<OverloadedSite> {
  const { url: databaseUrl } = await testDatabase(t);
  const redis = await startRedis(t, { args: ['--maxmemory-policy', 'noeviction'] });
  const stores = { DATABASE_URL: databaseUrl, REDIS_URL: redis.url };
  const env = { ...ENVIRONMENT, ...stores, DATA_DIR: testFolder(t) };
  const replicas = [await startReplica(t, env), await startReplica(t, env)] as const;
  await Promise.all(replicas.map((replica) => isReady(replica)));
  const balancer = makeBalancer(replicas, makeTally());
  t.teardown(() => balancer.close());

  const client = await aRegisteredService(databaseUrl);
  let pairs = await inParallel(Array.from({ length: REFRESHED + READ }), async () => {
    const call = { method: 'POST', path: '/api/auth/signup', userAgent: USER_AGENT } as const;
    return (await insist(balancer, { ...call, body: anAccount() })).body as Pair;
  });
  const requests = { verify: [], refresh: [], introspection: [] } as Record<Operation, string[]>;
  const prepare = () => {
    const read = pairs.slice(REFRESHED).map(({ access_token: token }) => token);
    requests.verify = read.map(verifyRequest);
    requests.introspection = read.map((token) => introspection(client, token));
    requests.refresh = pairs.slice(0, REFRESHED).map(refreshRequest);
  };
  prepare();
  // From here on, they and this process use all the processor time that they get, and other tests run beside them.
  for (const { service } of replicas) os.setPriority(service?.process.pid ?? 0, 5);
  os.setPriority(5);

  /** Answers a second. @throws Error at a refusal */
  async function capacityOf(operation: Operation): Promise<number> {
    const all = requests[operation];
    const callers = Array.from({ length: CLOSED_CONNECTIONS }, (_, i) => ({
      next: () => all[i] ?? '',
      answered: (body: string) => {
        if (operation === 'refresh') all[i] = nextRefresh(all[i] ?? '', body);
      },
    }));
    const { requests: answered, seconds } = await runLoad(replicas[0].url, callers, CLOSED_SECONDS);
    return answered / seconds;
  }

  /** A refused refresh is retried when its session's turn comes, which is earlier than Retry-After asks. */
  async function load(operation: Operation, perSecond: number, other?: string): Promise<OpenLoopResult> {
    const result = await generate({
      origin: replicas[0].url,
      perSecond: Math.ceil(perSecond),
      seconds: OPEN_SECONDS,
      requests: requests[operation],
      chained: operation === 'refresh',
      ...(other !== undefined && { other }),
      keepsPriority: true,
    });
    requests[operation] = result.requests ?? requests[operation];
    return result;
  }

  const capacity = {} as Record<Operation, number>;
  /** @param share of 150% of each operation's capacity. */
  async function exceed(
    operations: readonly Operation[],
    share: number,
    other?: string,
  ): Promise<Record<Operation, OpenLoopResult>> {
    for (let tries = 1; ; tries++) {
      const loads = operations.map(async (each) => {
        return [each, await load(each, share * FACTOR * capacity[each], other)] as const;
      });
      const results = await Promise.all(loads);
      if (results.some(([, { waiting }]) => waiting > 0) || tries === MAX_TRIES)
        return Object.fromEntries(results) as Record<Operation, OpenLoopResult>;
      for (const each of operations) capacity[each] *= 2;
    }
  }

  return {
    replicas,
    redis,
    databaseUrl,
    async offer(operation) {
      capacity[operation] = await capacityOf(operation);
      return (await exceed([operation], 1))[operation];
    },
    offerAll: () => exceed(OPERATIONS, 1 / OPERATIONS.length),
    offerBoth: () => exceed(OPERATIONS, 2 / OPERATIONS.length, replicas[1].url),
    async evict() {
      const keys = pairs.map(({ access_token: token }) => claimsOf(token));
      const evicted = keys.filter((_, i) => i % 10 === 0);
      await redis.ask('DEL', ...evicted.map(({ sub, sid }) => `latchkey:{${String(sub)}}:t:${String(sid)}`));
    },
    async renewAll() {
      const newest = requests.refresh.map((request) => /(?<=Bearer )\S+/.exec(request)?.[0] ?? '');
      const tokens = [...newest, ...pairs.slice(REFRESHED).map(({ refresh_token: token }) => token)];
      pairs = await inParallel(tokens, async (token) => {
        const call = { method: 'GET', path: '/api/auth/refresh', token, userAgent: USER_AGENT } as const;
        return (await insist(balancer, call)).body as Pair;
      });
      prepare();
    },
  };
}

function refreshRequest({ refresh_token: token }: Pair): string {
  return requestText('GET /api/auth/refresh', { token });
}

function introspection(client: TestService, token: string): string {
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded', ...basic(client) };
  return requestText('POST /api/auth/introspect', { headers, body: `token=${token}` });
}
