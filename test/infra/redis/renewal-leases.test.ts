import { Cluster, Command } from 'ioredis';
import { test } from 'tap';
import type { Lease } from '../../../src/domain/tokens/lease.ts';
import type { ScriptedCluster } from '../../../src/infra/redis/connection/scripts.ts';
import { makeRedisRenewalLeases } from '../../../src/infra/redis/renewal-leases.ts';
import { openGate, quietRedisClient, redisMissing, testRedis } from '../../support/redis.ts';
import { redisServersMissing, startRedis } from '../../support/redis-server.ts';

const first: Lease = { replica: 'a', moves: 1, server: '', full: 0 };
const second: Lease = { replica: 'a', moves: 2, server: 'one', full: 2 };
const taken: Lease = { ...second, replica: 'b', moves: 3 };

test('a lease is moved only from where it was seen', { skip: redisMissing }, async (t) => {
  const { url, prefix } = testRedis(t);
  const redis = quietRedisClient(t, { url, timeout: 5000 });
  await redis.connect();
  const leases = makeRedisRenewalLeases(redis, { prefix, gate: openGate });
  const [master = ''] = leases.masters();
  const stands = async () => (await leases.look(master, 'a')).lease;
  t.equal(await stands(), null);
  t.strictSame(await leases.move(master, null, first), first);
  t.strictSame(await leases.move(master, null, { ...first, replica: 'b' }), first, 'another one was first');
  t.strictSame(await leases.move(master, first, second), second);
  t.strictSame(await stands(), second);
  t.strictSame(await leases.move(master, { ...second, moves: 1 }, taken), second, 'it has moved since');
  t.strictSame(await leases.move(master, { ...second, replica: 'b' }, taken), second);
  t.strictSame(await leases.move(master, second, taken), taken);
  const free: Lease = { ...taken, replica: '', moves: 4 };
  t.strictSame(await leases.move(master, taken, free), free, 'its holder has stopped');
  t.strictSame(await stands(), free);
  t.strictSame(await leases.move(master, null, taken), free);
  t.strictSame(await leases.move(master, free, { ...taken, moves: 5 }), { ...taken, moves: 5 });
  const ttl = await redis.ttl(`${prefix}renewer`);
  t.ok(ttl > 3500 && ttl <= 3600);

  const info = await redis.info();
  const of = (field: string) => new RegExp(`^${field}:(\\w+)`, 'm').exec(info)?.[1] ?? '?';
  const id = `${of('run_id')}${of('master_replid')}`;
  t.strictSame(await leases.look(master, 'b'), { lease: { ...taken, moves: 5 }, server: id });
  t.equal((await leases.look(master, 'a')).server, '', 'only its holder needs it');
  t.ok(leases.isThere(master, 7));
  t.ok(leases.hasFeed(master));
});

test(
  'a replica that may not write there neither reads nor moves a lease',
  { skip: redisMissing },
  async (t) => {
    const { url, prefix } = testRedis(t);
    const redis = quietRedisClient(t, { url, timeout: 5000 });
    await redis.connect();
    const foreign = { isAdmitted: () => false };
    const leases = makeRedisRenewalLeases(redis, { prefix, gate: foreign });
    const [master = ''] = leases.masters();
    await t.rejects(leases.look(master, 'a'), { code: 'unavailable' });
    await t.rejects(leases.move(master, null, first), { code: 'unavailable' });
    t.strictSame(await redis.keys(`${prefix}*`), []);
  },
);

test('a full Redis takes a lease, and moves it', { skip: redisServersMissing }, async (t) => {
  const server = await startRedis(t, { args: ['--maxmemory-policy', 'noeviction'] });
  const redis = quietRedisClient(t, { url: server.url, timeout: 5000 });
  await redis.connect();
  await server.ask('CONFIG', 'SET', 'maxmemory', '1');
  await t.rejects(redis.set('another', 'key'), /OOM/);
  const leases = makeRedisRenewalLeases(redis, { prefix: '', gate: openGate });
  const [master = ''] = leases.masters();
  t.strictSame(await leases.move(master, null, first), first);
  t.strictSame(await leases.move(master, first, second), second);
  t.strictSame((await leases.look(master, 'a')).lease, second);
});

test('in a cluster, each master has a lease', (t) => {
  const cluster = new Cluster([], { lazyConnect: true });
  const half = 8192;
  cluster.slots = Array.from({ length: 2 * half }, (_, slot) => [slot < half ? 'm1' : 'm2']);
  const leases = makeRedisRenewalLeases(cluster as unknown as ScriptedCluster, {
    prefix: 'p:',
    gate: openGate,
  });
  const masters = leases.masters();
  t.equal(masters.length, 2);
  for (const userId of [1, 2, 3, 4, 5])
    t.equal(masters.filter((master) => leases.isThere(master, userId)).length, 1, `user ${userId}`);
  t.not(
    masters.findIndex((master) => leases.isThere(master, 1)),
    masters.findIndex((master) => leases.isThere(master, 3)),
    'users are spread',
  );
  t.equal(masters.filter((master) => leases.hasFeed(master)).length, 1);
  t.end();
});

test('a master with a single slot is searched for once', (t) => {
  const cluster = new Cluster([], { lazyConnect: true });
  const only = 12_345;
  const spread = () => Array.from({ length: 16_384 }, (_, slot) => [slot === only ? 'm2' : 'm1']);
  cluster.slots = spread();
  const options = { prefix: 'p:', gate: openGate };
  const leases = makeRedisRenewalLeases(cluster as unknown as ScriptedCluster, options);
  const masters = leases.masters();
  const slotOf = (key: string) => new Command('set', [key]).getSlot();
  t.equal(masters.length, 2);
  t.equal(masters.filter((master) => slotOf(master) === only).length, 1);
  const getSlot = Object.getOwnPropertyDescriptor(Command.prototype, 'getSlot') ?? {};
  t.teardown(() => {
    Object.defineProperty(Command.prototype, 'getSlot', getSlot);
  });
  Command.prototype.getSlot = () => {
    throw new Error('searched again');
  };
  t.strictSame(leases.masters(), masters);
  cluster.slots = spread();
  t.strictSame(leases.masters(), masters);
  cluster.slots[only] = ['m1'];
  t.equal(leases.masters().length, 1, 'its slot has moved');
  t.end();
});
