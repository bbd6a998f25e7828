import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { t as file, test, type Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { call, signUp, verify, type Pair } from '../../support/client.ts';
import { runDoctor } from '../../support/doctor.ts';
import { faultProxy } from '../../support/fault-proxy.ts';
import { testFolder } from '../../support/folder.ts';
import { aSecret, KEYS } from '../../support/keys.ts';
import { latchkey } from '../../support/latchkey.ts';
import { logLines } from '../../support/log-lines.ts';
import { testDatabase, withClient } from '../../support/postgres.ts';
import { startCluster } from '../../support/redis-cluster.ts';
import { startSentinels } from '../../support/redis-sentinel.ts';
import { existing, redisServersMissing, startRedis, type RedisServer } from '../../support/redis-server.ts';
import { sql } from '../../support/sql.ts';
import { eventually } from '../../support/until.ts';

const skip = redisServersMissing;

// They wait most of the time, each for stores of its own.
file.jobs = 4;

/** Of a Redis without another prefix. */
const KEY = 'latchkey:mark';

/** Seconds in which a busy machine does what takes one. */
const SOON = 20;

/** For how long a replica has to serve before it records marks, in milliseconds. */
const PROBATION = 20_000;

const MALLORY = { username: 'mallory', name: 'M', email: 'm@example.com', password: 'difference engine' };

interface Replica extends TestApp {
  /** Ends it as SIGTERM would. */
  stop(): Promise<void>;
  /** What speaks against serving, by its log; null if nothing does. */
  objection(): string | null;
}

/** An installation: replicas with the same keys on one database. */
async function anInstallation(t: Test, env: Environment) {
  const signing = testFolder(t);
  writeFileSync(join(signing, '0001.pem'), KEYS.ES256());
  const keys = { SIGNING_KEYS_DIR: signing, REFRESH_TOKEN_SECRET: aSecret(), KEY_PUBLISH_LEAD: '0' };
  const { url } = await testDatabase(t);

  async function start(own: Environment = {}, databaseUrl = url): Promise<Replica> {
    const closers: (() => unknown)[] = [];
    const scope = {
      name: t.name,
      teardown: (closer: () => unknown) => closers.push(closer),
    } as unknown as Test;
    const app = await buildTestApp(scope, {
      env: { ...keys, ...env, ...own },
      databaseUrl,
      storesAnswer: false,
    });
    app.composition.start();
    const stop = async () => {
      for (const closer of closers.splice(0)) await closer();
    };
    t.teardown(stop);
    return {
      ...app,
      stop,
      objection() {
        const told = logLines(app.log()).filter(({ msg }) => /may( not)? serve/.test(String(msg)));
        return (told.at(-1)?.problem as string | undefined) ?? null;
      },
    };
  }

  return {
    url,
    start,
    /** The id that PostgreSQL names. */
    id: async (databaseUrl = url) =>
      (await sql<{ value: string }>(databaseUrl, "SELECT value FROM installation WHERE name = 'redis_id'"))[0]
        ?.value,
    /** From the newest. */
    marks: async (databaseUrl = url) =>
      (await sql<{ mark: string }>(databaseUrl, 'SELECT mark FROM installation_marks ORDER BY at DESC')).map(
        ({ mark }) => mark,
      ),
    /** As if this many seconds had passed since the last sign of a serving replica. */
    age: (seconds: number, databaseUrl = url) =>
      sql(databaseUrl, `UPDATE installation SET at = at - ${seconds} * interval '1 second'`),
    doctor: async (own: Environment = {}, databaseUrl = url) => {
      const { findings } = await runDoctor({ DATABASE_URL: databaseUrl, ...env, ...own });
      return findings['redis mark'];
    },
    recover: () => latchkey(['recover', '--yes', '--json', '--keep-sessions'], { DATABASE_URL: url, ...env }),
  };
}

const isReady = async ({ composition }: TestApp) => (await composition.ops.readiness()).ready;

function becomesReady(replica: TestApp, seconds = SOON): Promise<void> {
  return eventually(seconds, async () => ((await isReady(replica)) ? null : 'not ready'));
}

async function serves(t: Test, replica: TestApp, { access_token: token }: Pair): Promise<void> {
  await eventually(SOON, async () => {
    const { statusCode } = await verify(replica, token);
    // An outage is 503; anything else signs somebody out.
    if (statusCode !== 503) t.equal(statusCode, 200);
    return statusCode === 200 ? null : 'verify answers 503';
  });
}

/** Resolves once the replica says so, and checks that it answers nothing else than 503. */
async function isRefused(t: Test, replica: Replica, problem: RegExp, token = 'x'): Promise<void> {
  await eventually(SOON, () => {
    const said = replica.objection() ?? 'nothing';
    return Promise.resolve(problem.test(said) ? null : `it says ${said}`);
  });
  const answers = [
    await call(replica, 'POST /api/auth/signup', { payload: MALLORY }),
    ...(token === 'x' ? [] : [await verify(replica, token)]),
  ];
  for (const { statusCode, headers } of answers) {
    t.equal(statusCode, 503);
    t.ok(headers['retry-after']);
  }
}

/** What is in a Redis, without what the write check of a replica that serves with it changes, and its lease. */
async function contents(redis: RedisServer): Promise<string[]> {
  const keys = (await redis.ask('KEYS', '*')) as string[];
  return keys.filter((key) => !/serving$|writable$|renewer$/.test(key)).sort();
}

test('a replica of another database is refused, and leaves no trace', { skip }, async (t) => {
  const redis = await startRedis(t);
  const ours = await anInstallation(t, { REDIS_URL: redis.url });
  const first = await ours.start();
  await becomesReady(first);
  const pair = await signUp(first);
  const before = [await contents(redis), await redis.ask('GET', KEY)];

  const { url: other } = await testDatabase(t);
  const slow = await faultProxy(t, other, 50);
  const odd = await ours.start({ RATE_LIMIT_SIGNUP: '1000/60' }, slow.url);
  await eventually(SOON, async () => {
    const { statusCode } = await call(odd, 'POST /api/auth/signup', { payload: MALLORY });
    t.equal(statusCode, 503, 'also before it knows');
    return odd.objection() === null ? 'it says nothing' : null;
  });
  await isRefused(t, odd, /does not know/, pair.access_token);
  await sleep(2000);
  t.strictSame([await contents(redis), await redis.ask('GET', KEY)], before, 'nothing was written to Redis');
  t.strictSame(await sql(other, 'SELECT FROM users'), [], 'nor to its database');
  t.notOk(await isReady(odd));
  t.match(await ours.doctor({}, other), [
    { state: 'fail', found: /does not know/, todo: /recover.+REDIS_PREFIX/ },
  ]);
  t.match(await ours.doctor(), [{ state: 'ok' }]);
  t.equal(first.objection(), null);
  await serves(t, first, pair);
});

test('a copy of the database, and the original restored from it', { skip }, async (t) => {
  const redis = await startRedis(t);
  const ours = await anInstallation(t, { REDIS_URL: redis.url });
  const name = new URL(ours.url).pathname.slice(1);
  const [copy, server] = [new URL(`/${name}_copy`, ours.url).href, new URL('/postgres', ours.url).href];
  const copyTo = (from: string, to: string) =>
    withClient(server, async (client) => {
      await client.query(`DROP DATABASE IF EXISTS ${to} WITH (FORCE)`);
      await client.query(`CREATE DATABASE ${to} TEMPLATE ${from}`);
    });
  t.teardown(() =>
    withClient(server, (client) => client.query(`DROP DATABASE IF EXISTS ${name}_copy WITH (FORCE)`)),
  );

  let first = await ours.start();
  await becomesReady(first);
  const pair = await signUp(first);
  await first.stop();
  await copyTo(name, `${name}_copy`);

  first = await ours.start();
  await becomesReady(first);
  await sleep(PROBATION);
  // At first, Redis's mark is the copy's too.
  const early = await ours.start({}, copy);
  await becomesReady(early);
  const known = await ours.marks(copy);
  await eventually(SOON, async () => {
    await ours.age(10);
    await ours.age(10, copy);
    await sleep(1000);
    return early.objection() === null ? 'the copy serves' : null;
  });
  t.strictSame(await ours.marks(copy), known, 'the copy recorded no mark');
  t.equal(first.objection(), null, 'the original serves on');
  await isRefused(t, early, /does not know/, pair.access_token);
  t.match(await ours.doctor({}, copy), [{ state: 'fail', todo: /latchkey recover/ }]);
  await serves(t, first, pair);
  await Promise.all([early.stop(), first.stop()]);

  await copyTo(`${name}_copy`, name);
  const restored = await ours.start();
  await isRefused(t, restored, /restored from a backup/, pair.access_token);
  // A replica that is refused does not count as one that serves.
  await eventually(SOON, async () => {
    const { code, stderr } = await ours.recover();
    return code === 0 ? null : stderr;
  });
  await becomesReady(restored);
  await serves(t, restored, pair);
  t.equal(restored.objection(), null);
  const stale = await ours.start({}, copy);
  await isRefused(t, stale, /does not know/);
  t.equal(restored.objection(), null, 'the mark of recover is not that of the backup');
});

test('Redis is emptied while replicas serve', { skip }, async (t) => {
  const redis = await startRedis(t);
  const ours = await anInstallation(t, { REDIS_URL: redis.url });
  const replicas = await Promise.all([ours.start(), ours.start()]);
  for (const each of replicas) await becomesReady(each);
  const first = await ours.id();
  t.equal((await ours.marks()).length > 0, true);
  t.match(await redis.ask('GET', KEY), new RegExp(`^${first ?? '?'} `), 'of two claims at once, one counts');
  const pair = await signUp(replicas[0]);

  for (let round = 1; round <= 3; round++) {
    const before = await ours.id();
    await redis.ask('FLUSHALL');
    const flushed = performance.now();
    for (const each of replicas) await serves(t, each, pair);
    await eventually(SOON, async () => ((await ours.id()) === before ? 'no new id' : null));
    t.comment(`a new id after ${Math.round(performance.now() - flushed)} ms`);
    for (const each of replicas) await serves(t, each, pair);
    t.match(await redis.ask('GET', KEY), new RegExp(`^${(await ours.id()) ?? '?'} `));
  }
  await sleep(2500);
  for (const each of replicas) {
    await serves(t, each, pair);
    t.equal(each.objection(), null);
  }
});

test('REDIS_URL or REDIS_PREFIX of one replica is wrong, and then that of all', { skip }, async (t) => {
  const [redis, other] = await Promise.all([startRedis(t), startRedis(t)]);
  const ours = await anInstallation(t, { REDIS_URL: redis.url });
  const database = await faultProxy(t, ours.url);
  const first = await ours.start({}, database.url);
  await becomesReady(first);
  const pair = await signUp(first);
  const before = await contents(redis);

  let elsewhere = await ours.start({ REDIS_URL: other.url });
  const misnamed =
    // The tests add the database's name.
    await ours.start({ REDIS_PREFIX: 'wrong:' }, database.url);
  for (const odd of [elsewhere, misnamed]) {
    await isRefused(t, odd, /names another Redis/, pair.access_token);
    t.notOk(await isReady(odd));
  }
  t.equal(await other.ask('DBSIZE'), 0, 'nothing was written there');
  t.strictSame(await contents(redis), before);
  t.match(await ours.doctor({ REDIS_URL: other.url }), [{ state: 'fail', todo: /Move Redis/ }]);
  t.equal(first.objection(), null);

  const without = await ours.start({ REDIS_URL: undefined, DATABASE_URL: ours.url });
  await isRefused(t, without, /not set here/, pair.access_token);
  await without.stop();

  // PostgreSQL is away for so long that nobody could show that it serves.
  await elsewhere.stop();
  const id = await ours.id();
  database.set('refuse');
  await sleep(1500);
  await ours.age(40);
  database.set('pass');
  await sleep(3000);
  await serves(t, first, pair);
  t.equal(first.objection(), null);
  t.equal(await ours.id(), id);
  t.notOk(await isReady(misnamed));
  await misnamed.stop();
  elsewhere = await ours.start({ REDIS_URL: other.url });

  // The first replica cannot reach PostgreSQL for half a minute, and the other one can.
  database.set('refuse');
  await ours.age(40);
  await becomesReady(elsewhere);
  t.not(await ours.id(), id);
  await serves(t, elsewhere, pair);
  database.set('pass');
  await isRefused(t, first, /have moved/, pair.access_token);
  t.match(await ours.doctor(), [{ state: 'fail' }]);

  // The one that moved alone ends.
  await elsewhere.stop();
  await ours.age(40);
  await becomesReady(first);
  await serves(t, first, pair);
  elsewhere = await ours.start({ REDIS_URL: other.url });
  await isRefused(t, elsewhere, /names another Redis/, pair.access_token);

  await first.stop();
  await ours.age(40);
  await becomesReady(elsewhere);
  await serves(t, elsewhere, pair);
});

test('an outage of a store hands no database to a replica with a wrong Redis', { skip }, async (t) => {
  const [redis, other] = await Promise.all([startRedis(t), startRedis(t)]);
  const ours = await anInstallation(t, { REDIS_URL: redis.url, REDIS_TIMEOUT: '500' });
  const database = await faultProxy(t, ours.url);
  const replicas = [await ours.start({}, database.url), await ours.start({}, database.url)];
  for (const each of replicas) await becomesReady(each);
  const pair = await signUp(existing(replicas[0]));
  const id = await ours.id();
  let odd = await ours.start({ REDIS_URL: other.url }, database.url);
  const isStillOurs = async (what: string) => {
    // For longer than the odd one waits when nobody serves.
    await sleep(13_000);
    for (const each of replicas) {
      await serves(t, each, pair);
      t.equal(each.objection(), null, what);
    }
    t.equal(await ours.id(), id, what);
    t.notOk(await isReady(odd));
    t.equal(await other.ask('DBSIZE'), 0);
  };
  await isRefused(t, odd, /names another Redis/);

  redis.hang();
  await ours.age(40);
  await sleep(13_000);
  t.notOk(await isReady(odd), 'replicas that wait for their Redis keep their place');
  redis.goOn();
  await isStillOurs('Redis hung');

  await odd.stop();
  database.set('refuse');
  odd = await ours.start({ REDIS_URL: other.url }, database.url);
  await sleep(1500);
  await ours.age(40);
  database.set('pass');
  await isStillOurs('PostgreSQL was away when it started');

  // A clock that was set.
  await ours.age(-3600);
  await isStillOurs('the time on record was ahead');
});

test('a full Redis shuts nobody out, and the first replica waits for one of 1.0.0', { skip }, async (t) => {
  const redis = await startRedis(t, { args: ['--maxmemory-policy', 'noeviction'] });
  const ours = await anInstallation(t, { REDIS_URL: redis.url, SHED_REDIS_MEMORY: '0' });
  // What 1.0.0 leaves: no id and no mark.
  await redis.ask('HSET', 'latchkey:{99}:t:99', 'revoked', '1');
  await redis.ask('CONFIG', 'SET', 'maxmemory', '1');
  const first = await ours.start();
  await sleep(2000);
  t.notOk(await isReady(first));
  t.equal(await redis.ask('GET', KEY), null);
  t.equal((await ours.marks()).length, 1, 'it tries with one mark');
  await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
  await becomesReady(first);
  const pair = await signUp(first);
  await verify(first, pair.access_token);

  // From then on it records marks.
  await sleep(PROBATION);
  const held = async () => String(await redis.ask('GET', KEY)).split(' ')[1];
  await eventually(SOON, async () => {
    await ours.age(10);
    await sleep(1100);
    const marks = await ours.marks();
    return marks.length > 2 && (await held()) === marks[1] ? null : `${marks.length} marks`;
  });

  await redis.ask('CONFIG', 'SET', 'maxmemory', '1');
  const before = (await ours.marks()).length;
  await redis.ask('EXPIRE', KEY, 30);
  for (let i = 0; i < 5; i++) {
    await ours.age(10);
    await sleep(1100);
  }
  t.ok(Number(await redis.ask('TTL', KEY)) > 3600, 'the mark stays');
  t.ok((await ours.marks()).length <= before + 1, 'the next mark waits until Redis took the last one');
  t.equal((await verify(first, pair.access_token)).statusCode, 200);
  const second = await ours.start({ REDIS_PREFIX: 'wrong:' });
  await isRefused(t, second, /names another Redis/);
  await second.stop();
  t.ok((await ours.marks()).includes((await held()) ?? ''));
  await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
  await eventually(SOON, async () => {
    await ours.age(10);
    await sleep(1100);
    return (await ours.marks()).length > before + 2 ? null : 'no new marks';
  });
  t.equal(first.objection(), null);
});

test('what a death or a failover of PostgreSQL leaves half done', { skip }, async (t) => {
  const redis = await startRedis(t);
  const ours = await anInstallation(t, { REDIS_URL: redis.url });
  const replicas = await Promise.all([ours.start(), ours.start()]);
  for (const each of replicas) await becomesReady(each);
  const pair = await signUp(replicas[0]);
  const allServe = async (what: string) => {
    await sleep(1500);
    for (const each of replicas) {
      await serves(t, each, pair);
      t.equal(each.objection(), null, what);
    }
    const [id, held] = [await ours.id(), String(await redis.ask('GET', KEY))];
    t.match(held, new RegExp(`^${id ?? '?'} `), what);
    t.ok((await ours.marks()).slice(0, 2).includes(held.split(' ')[1] ?? ''), what);
  };

  const add = (mark: string) =>
    sql(ours.url, 'INSERT INTO installation_marks VALUES ($1, clock_timestamp())', [mark]);
  for (const letter of ['a', 'b', 'c']) await add(letter.repeat(22));
  await allServe('a replica died between its mark and the one of Redis');
  t.match(await redis.ask('GET', KEY), /b{22}$/);

  await sql(ours.url, 'DELETE FROM installation_marks WHERE mark = $1', ['c'.repeat(22)]);
  await allServe('PostgreSQL lost the newest mark');

  await redis.ask('SET', KEY, `${'x'.repeat(22)} ${'b'.repeat(22)}`);
  await eventually(SOON, async () =>
    String(await redis.ask('GET', KEY)).startsWith('x') ? 'not claimed' : null,
  );
  await allServe('a claim died between Redis and PostgreSQL');

  const former = await ours.id();
  await redis.ask('FLUSHALL');
  await eventually(SOON, async () => ((await ours.id()) === former ? 'not claimed' : null));
  await allServe('emptied');
  await sql(ours.url, "UPDATE installation SET value = $1 WHERE name = 'redis_id'", [former]);
  await eventually(SOON, async () => ((await ours.id()) === former ? 'not claimed' : null));
  await allServe('PostgreSQL lost the claim');
});

test('a mark that is none of ours', { skip }, async (t) => {
  const redis = await startRedis(t);
  const ours = await anInstallation(t, { REDIS_URL: redis.url });
  const first = await ours.start();
  await becomesReady(first);
  const pair = await signUp(first);
  await redis.ask('SET', KEY, "garbage \u0000 '; DROP TABLE users");
  await isRefused(t, first, /does not know/, pair.access_token);
  await redis.ask('DEL', KEY);
  await serves(t, first, pair);
  t.equal(first.objection(), null);
});

test(
  'Sentinel: after a failover the new master is ours, also for a replica that starts',
  { skip },
  async (t) => {
    const redis = await startSentinels(t);
    const ours = await anInstallation(t, redis.env);
    const first = await ours.start();
    await becomesReady(first);
    const pair = await signUp(first);
    const id = await ours.id();
    await redis.failOver();
    await serves(t, first, pair);
    const second = await ours.start();
    await becomesReady(second);
    await serves(t, second, pair);
    t.equal(await ours.id(), id);
  },
);

test('Cluster: every master has the mark, also a new one and one that was emptied', { skip }, async (t) => {
  const redis = await startCluster(t);
  const ours = await anInstallation(t, redis.env);
  const first = await ours.start();
  await becomesReady(first);
  const pair = await signUp(first);
  const id = await ours.id();
  const held = async () => {
    const masters = new Set<RedisServer>();
    for (let i = 0; i < 20; i++) masters.add((await redis.ownerOf(`latchkey:mark:{${i}}`)).master);
    const keys = await Promise.all(
      [...masters].map(async (master) => (await master.ask('KEYS', `${KEY}:*`)) as string[]),
    );
    return keys.map(({ length }) => length);
  };
  t.strictSame(await held(), [1, 1, 1]);

  const { master } = await redis.ownerOf(`{${pair.user.id}}`);
  await master.ask('FLUSHALL');
  await eventually(SOON, async () => ((await held()).every((count) => count > 0) ? null : 'one has no mark'));
  await serves(t, first, pair);
  await redis.failOver(`{${pair.user.id}}`);
  await redis.moveSlot(`{${pair.user.id}}`);
  await serves(t, first, pair);
  const second = await ours.start();
  await becomesReady(second);
  await serves(t, second, pair);
  t.equal(await ours.id(), id, 'a part of a cluster is no other Redis');

  for (const node of new Set(
    await Promise.all(
      redis.nodes.map(async (node) => ((await node.info('role')) === 'master' ? node : null)),
    ),
  ))
    await node?.ask('FLUSHALL');
  await eventually(SOON, async () => ((await ours.id()) === id ? 'not claimed' : null));
  for (const each of [first, second]) await serves(t, each, pair);
});
