import { test } from 'tap';
import { POLL } from '../../../src/composition/revocation-feed.ts';
import type { Costs } from '../../../src/domain/sizing/costs.ts';
import {
  coresOf,
  demandOf,
  FEED_READS,
  firstVerifiesOf,
  type Usage,
} from '../../../src/domain/sizing/demand.ts';
import { makePlan, type Settings } from '../../../src/domain/sizing/plan.ts';

const MIB = 1024 ** 2;
/** A million users of whom a tenth come on a day: each for four visits of 15 minutes, with two refreshes each. */
const USAGE: Usage = {
  users: 1_000_000,
  activeShare: 0.1,
  visitsPerDay: 4,
  visitSeconds: 900,
  refreshEvery: 600,
  verifiesPerMinute: 6,
  loginsPerDay: 0.1,
  peak: 4,
  sessionsPerUser: 1.5,
  growth: 0,
  feedReaders: 0,
  known: {},
};
const SETTINGS: Settings = {
  processMemory: 320 * MIB,
  hashMemory: 128 * MIB,
  hashConcurrency: 2,
  databasePool: 10,
  sessionCacheTtl: 3600,
  refreshTokenTtl: 30 * 86_400,
  rememberedTokens: () => 10_000,
  readersMax: 1000,
};
const COSTS: Costs = {
  replica: { verifyKnown: 100, verifyNew: 300, refresh: 500, coldRefresh: 800, login: 500_000 },
  idle: { replica: 0.1, redis: 0.01, postgres: 0.02 },
  redis: { verify: 20, refresh: 40, coldRefresh: 90, login: 1000 },
  postgres: { refresh: 50, coldRefresh: 450, login: 5000 },
  changes: {
    revocation: {
      replica: { once: 200, eachReplica: 10 },
      redis: { once: 40, eachReplica: 30 },
      postgres: { once: 300, eachReplica: 20 },
    },
    user: {
      replica: { once: 400, eachReplica: 0 },
      redis: { once: 60, eachReplica: 0 },
      postgres: { once: 500, eachReplica: 0 },
    },
  },
  reader: { quiet: 10, busy: 60 },
  bytes: { redisSession: 250, redisUser: 250, redisRevoked: 200, token: 200, user: 400, knownDevice: 100 },
};
const { sessionCacheTtl: TTL } = SETTINGS;

test('rates follow from what users do', (t) => {
  const { mean, peak, inUse } = demandOf(USAGE, TTL);
  const day = 86_400;
  t.match(mean, { logins: 10_000 / day, refreshes: 800_000 / day, verifies: (400_000 * 15 * 6) / day });
  t.strictSame(peak, {
    logins: 4 * mean.logins,
    refreshes: 4 * mean.refreshes,
    coldRefreshes: 4 * mean.coldRefreshes,
    verifies: 4 * mean.verifies,
    revocations: 4 * mean.logins,
    changes: 0,
  });
  t.equal(Math.round(inUse), Math.round((400_000 * 900 * 4) / day));
  t.end();
});

test('what is known of the busiest second replaces what habits lead to', (t) => {
  const known = { sessionsInUse: 300_000, verifies: 3000, refreshes: 500, logins: 12 };
  const { mean, peak, inUse } = demandOf({ ...USAGE, known }, TTL);
  t.match(peak, { logins: 12, refreshes: 500, verifies: 3000 });
  t.match(mean, { logins: 3, refreshes: 125, verifies: 750 });
  t.equal(inUse, 300_000, 'also more than a tenth of the users');
  const habits = demandOf({ ...USAGE, known: { sessionsInUse: 300_000 } }, TTL).peak;
  t.equal(habits.verifies, (300_000 * 6) / 60, 'other rates follow from the sessions in use');
  t.equal(habits.refreshes, (300_000 / 900) * 2);
  t.equal(
    peak.coldRefreshes,
    (habits.coldRefreshes * 500) / habits.refreshes,
    'the share of cold ones stays',
  );
  const { redis } = makePlan({ ...USAGE, known }, SETTINGS, COSTS);
  t.equal(
    Math.round(redis.sessions),
    Math.min(USAGE.users * USAGE.sessionsPerUser, (300_000 / 900) * (900 + SETTINGS.sessionCacheTtl)),
    'Redis also holds those of the last hours',
  );
  t.end();
});

test('signups count as logins', (t) => {
  const growing = demandOf({ ...USAGE, loginsPerDay: 0, growth: 0.3 }, TTL);
  t.equal(growing.mean.logins * 86_400, 10_000);
  t.end();
});

test('no more sessions are in use at once than users come', (t) => {
  t.equal(demandOf({ ...USAGE, peak: 100 }, TTL).inUse, 100_000);
  t.end();
});

test('a visit begins cold if Redis has forgotten its session', (t) => {
  const visits = 400_000 / 86_400;
  const coldOf = (changes: Partial<Usage>, ttl: number) =>
    demandOf({ ...USAGE, ...changes }, ttl).mean.coldRefreshes / visits;
  t.equal(coldOf({}, 0), 2, 'without a cache, every refresh is cold');
  t.equal(coldOf({ refreshEvery: 300 }, 599) < 1, true, 'later refreshes of a visit are not');
  const shares = [600, 3600, 86_400].map((ttl) => coldOf({}, ttl));
  t.ok(shares.every((share, i) => share > 0 && share < 1 && share < (shares[i - 1] ?? 1)));
  t.equal(shares[1]?.toFixed(3), '0.846', 'four visits a day, and one hour: e to the power of -4/24');
  t.equal(coldOf({ refreshEvery: 899 }, 600).toFixed(2), (1 + Math.exp((-4 * 600) / 86_400)).toFixed(2));
  t.end();
});

const NONE = { logins: 0, refreshes: 0, coldRefreshes: 0, verifies: 0, revocations: 0, changes: 0 };
const ONE = { replicas: 1, firstVerifies: 0, feedReaders: 0 };

test('a replica checks the signature of the first verify of each token', (t) => {
  const share = (replicas: number, verifies: number, rest = {}) =>
    firstVerifiesOf(
      { ...NONE, verifies, refreshes: 1 },
      { replicas, inUse: 1000, remembered: 10_000, ...rest },
    ).toFixed(2);
  t.equal(share(1, 60), '0.02', 'one of sixty');
  t.equal(share(7, 60), '0.12');
  t.equal(share(70, 60), '0.67');
  t.equal(share(7, 1), '1.00');
  t.equal(share(7, 0.1), '1.00', 'most tokens are never verified');
  t.equal(share(7, 60, { inUse: 10_000 }), '0.12');
  t.equal(share(7, 60, { inUse: 10_001 }), '1.00', 'a replica may have forgotten each of them');
  const longLived = firstVerifiesOf({ ...NONE, verifies: 60 }, { replicas: 7, inUse: 0, remembered: 1 });
  t.equal(longLived, 0, 'long-lived tokens are not replaced');
  t.end();
});

test('a first verify costs more', (t) => {
  const loop = (firstVerifies: number) =>
    coresOf({ ...NONE, verifies: 1000 }, { ...ONE, firstVerifies }, COSTS).loop;
  t.strictSame([0, 0.25, 1].map(loop), [0.1, 0.15, 0.3]);
  t.end();
});

test('hashes and event loops are counted apart, and stores by their own costs', (t) => {
  const rates = { ...NONE, logins: 10, refreshes: 1000 };
  t.strictSame(coresOf(rates, ONE, COSTS), { loop: 0.5, hash: 5, redis: 0.05, postgres: 0.1 });
  const cold = coresOf({ ...rates, coldRefreshes: 1000 }, ONE, COSTS);
  t.strictSame(cold, { loop: 0.8, hash: 5, redis: 0.1, postgres: 0.5 });
  t.end();
});

test('revocations cost once and for each replica, and so do changed users', (t) => {
  const of = (rates: object, replicas: number) => coresOf({ ...NONE, ...rates }, { ...ONE, replicas }, COSTS);
  t.match(of({ revocations: 100 }, 1), { loop: 0.021, redis: 0.007, postgres: 0.032 });
  t.match(of({ revocations: 100 }, 12), { loop: 0.032, redis: 0.04, postgres: 0.054 });
  t.match(of({ changes: 100 }, 12), { loop: 0.04, redis: 0.006, postgres: 0.05 });
  t.end();
});

test('a reader of the feed costs the more, the more of its reads find an event', (t) => {
  const loop = (rates: object) => coresOf({ ...NONE, ...rates }, { ...ONE, feedReaders: 1000 }, FEED).loop;
  const FEED = { ...COSTS, changes: null };
  t.equal(loop({}), 0.01);
  t.equal(loop({ revocations: 2, changes: 0.5 }), 0.035);
  t.equal(loop({ revocations: 5 }), 0.06);
  t.equal(loop({ revocations: 500 }), 0.06, 'events between two reads share a write');
  t.equal(FEED_READS, 1000 / POLL);
  t.end();
});

test('a plan names the costs that were not measured, as far as they matter', (t) => {
  const unknown = (usage: Partial<Usage>, costs: Partial<Costs>) =>
    makePlan({ ...USAGE, ...usage }, SETTINGS, { ...COSTS, ...costs }).unknown;
  t.strictSame(unknown({ feedReaders: 1 }, {}), []);
  t.strictSame(unknown({ feedReaders: 1 }, { changes: null, reader: null }), ['revocations', 'feedReaders']);
  t.strictSame(unknown({ known: { revocations: 0, changes: 1 } }, { changes: null, reader: null }), [
    'changes',
  ]);
  t.end();
});

test('readers of the feed share the fewest replicas', (t) => {
  const { readersOfReplica, replicas } = makePlan({ ...USAGE, feedReaders: 1001 }, SETTINGS, COSTS);
  t.equal(readersOfReplica, Math.ceil(1001 / replicas.autoscaler.min));
  t.end();
});

test('tombstones take memory of Redis, and the record is written twice for each end and change', (t) => {
  const storesOf = (known: Usage['known']) => makePlan({ ...USAGE, known }, SETTINGS, COSTS);
  const [none, some] = [storesOf({ revocations: 0 }), storesOf({ revocations: 100, changes: 10 })];
  t.equal(some.redis.revokedBytes, 100 * 2 * TTL * 200);
  t.equal(Math.round(some.postgres.rowWrites - none.postgres.rowWrites), 220);
  t.end();
});

test('replicas use 60% of a core at the peak, with what an idle one uses', (t) => {
  const remembering = { ...SETTINGS, rememberedTokens: () => 1_000_000 };
  const { demand, cores, replicas } = makePlan({ ...USAGE, users: 10_000_000 }, remembering, COSTS);
  const KNOWN = { inUse: demand.inUse, remembered: replicas.rememberedTokens };
  const load = cores.loop + cores.hash;
  const { replica: idle } = COSTS.idle;
  t.ok(load / replicas.peak + idle < 0.6 + 1e-9, 'enough replicas');
  const fewer = replicas.peak - 1;
  const spread = {
    firstVerifies: firstVerifiesOf(demand.peak, { replicas: fewer, ...KNOWN }),
    feedReaders: 0,
  };
  const { loop, hash } = coresOf(demand.peak, { replicas: fewer, ...spread }, COSTS);
  t.ok((loop + hash) / fewer + idle > 0.6, 'not one too many');
  t.ok(replicas.autoscaler.min < replicas.peak && replicas.peak < replicas.autoscaler.max);
  t.end();
});

test('the stores work for idle replicas too', (t) => {
  const { cores, replicas } = makePlan(USAGE, SETTINGS, COSTS);
  const none = makePlan(USAGE, SETTINGS, { ...COSTS, idle: { ...COSTS.idle, redis: 0, postgres: 0 } }).cores;
  t.equal((cores.redis - none.redis).toFixed(9), (replicas.peak * 0.01).toFixed(9));
  t.equal((cores.postgres - none.postgres).toFixed(9), (replicas.peak * 0.02).toFixed(9));
  t.end();
});

test('a plan ends also where no number of replicas is enough', (t) => {
  const { revocation } = COSTS.changes ?? {};
  const heavy = { once: 0, eachReplica: 1e6 };
  const changes = { revocation: { ...revocation, replica: heavy }, user: revocation } as Costs['changes'];
  const { replicas } = makePlan({ ...USAGE, known: { revocations: 10 } }, SETTINGS, { ...COSTS, changes });
  t.equal(replicas.peak, 10_000);
  t.end();
});

test('a small installation has two replicas with the memory of k8s/base', (t) => {
  const { replicas, redis, connections, postgres } = makePlan({ ...USAGE, users: 1000 }, SETTINGS, COSTS);
  t.match(replicas, { peak: 2, memory: 768 * MIB, loginsAtMost: 4, autoscaler: { min: 2, max: 3 } });
  t.match(redis, { masters: 1, maxMemory: 192 * MIB });
  t.strictSame(connections, { pool: 10, total: 58, exceedsDefault: false });
  t.notOk(postgres.partition);
  t.end();
});

test('more hashes at once need more memory', (t) => {
  const { replicas } = makePlan(USAGE, { ...SETTINGS, hashConcurrency: 4 }, COSTS);
  t.equal(replicas.memory, 1024 * MIB);
  t.ok((320 + 4 * 128) * MIB <= 0.85 * replicas.memory, 'doctor does not warn');
  t.end();
});

test('a replica gets the memory with which it remembers all tokens in use, if that is possible', (t) => {
  const rememberedTokens = (limit: number, needed: number) => Math.min(400_000, (limit - needed) / 1024);
  const planOf = (sessionsInUse: number) =>
    makePlan({ ...USAGE, known: { sessionsInUse } }, { ...SETTINGS, rememberedTokens }, COSTS);
  t.match(planOf(100_000), { replicas: { memory: 768 * MIB, rememberedTokens: 192 * 1024 } });
  const larger = planOf(300_000);
  t.match(larger, { replicas: { memory: 896 * MIB, rememberedTokens: 320 * 1024 } });
  t.ok(larger.firstVerifies < 0.5, 'most verifies check no signature');
  t.match(planOf(500_000), { replicas: { memory: 768 * MIB }, firstVerifies: 1 }, 'not for nothing');
  t.end();
});

test('the pool shrinks while the connections fit into 100, and then stays', (t) => {
  const poolsOf = (users: number) => makePlan({ ...USAGE, users }, SETTINGS, COSTS).connections;
  const sizes = [1000, 1_000_000, 2_000_000, 4_000_000, 100_000_000].map(poolsOf);
  for (const { pool, total, exceedsDefault } of sizes) {
    t.equal(exceedsDefault, total > 97);
    t.ok(pool >= 4 && pool <= 10);
  }
  t.ok(
    sizes.some(({ pool, exceedsDefault }) => pool < 10 && !exceedsDefault),
    'a smaller pool makes it fit',
  );
  t.match(sizes.at(-1), { pool: 10, exceedsDefault: true });
  t.end();
});

test('Redis is a cluster of three or more once one master is not enough', (t) => {
  const masters = (users: number) => makePlan({ ...USAGE, users }, SETTINGS, COSTS).redis.masters;
  t.equal(masters(1_000_000), 1);
  t.equal(masters(20_000_000), 3);
  t.ok(masters(1_000_000_000) > 3);
  t.end();
});

test('Redis has room for a flood of logins on every replica', (t) => {
  const { redis, replicas } = makePlan({ ...USAGE, users: 5_000_000 }, SETTINGS, COSTS);
  const flood = replicas.autoscaler.max * replicas.loginsAtMost * TTL * (250 + 2 * 200);
  t.equal(redis.maxMemory, Math.ceil((redis.bytes + redis.revokedBytes) * 1.5 + flood));
  t.end();
});

test('records are the live sessions and the ended ones that purge keeps', (t) => {
  const { postgres } = makePlan(USAGE, SETTINGS, COSTS);
  t.equal(Math.round(postgres.tokens), 1_500_000 + 10_000 * 60);
  t.equal(Math.round(postgres.knownDevices), 10_000 * 90);
  t.equal(Math.round(postgres.bytes), 1_000_000 * 400 + 2_100_000 * 200 + 900_000 * 100);
  t.equal(postgres.monthlyBytes, 0, 'without new users, purge keeps the size');
  t.equal(Math.round(postgres.firstMonthlyBytes), 10_000 * 30 * (200 + 100));
  const many = makePlan({ ...USAGE, loginsPerDay: 100 }, SETTINGS, COSTS).postgres;
  t.equal(many.knownDevices, 20 * 1_000_000, 'twenty a user are kept');
  t.end();
});
