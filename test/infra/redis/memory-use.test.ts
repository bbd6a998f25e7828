import type { Redis } from 'ioredis';
import { test } from 'tap';
import { makeMemoryUse } from '../../../src/infra/redis/memory-use.ts';

/** A Redis that reports what the test sets. */
function reporting(limit: number) {
  const memory = { used: 0, max: 1000, policy: 'noeviction' };
  const text = () =>
    `# Memory\r\nused_memory:${memory.used}\r\nmaxmemory:${memory.max}\r\nmaxmemory_policy:${memory.policy}\r\n`;
  const changes: [boolean, number][] = [];
  const use = makeMemoryUse({ info: () => Promise.resolve(text()) } as unknown as Redis, {
    limit,
    onChange: (isNearlyFull, share) => changes.push([isNearlyFull, share]),
  });
  const at = async (used: number) => {
    memory.used = used;
    await use.measure();
    return use.isNearlyFull();
  };
  return { memory, changes, use, at };
}

test('Redis is nearly full from the limit on, until it is clearly below', async (t) => {
  const { changes, use, at } = reporting(0.85);
  t.notOk(use.isNearlyFull());
  t.notOk(await at(849));
  t.ok(await at(850));
  t.ok(await at(801));
  t.notOk(await at(799));
  t.notOk(await at(849));
  t.strictSame(changes, [
    [true, 0.85],
    [false, 0.799],
  ]);
  t.equal(use.share(), 0.849);
});

test('a Redis without a limit, one that evicts, and the setting 0 are never nearly full', async (t) => {
  const { memory, use, at } = reporting(0.85);
  t.ok(await at(999));
  memory.policy = 'allkeys-lru';
  t.notOk(await at(999));
  memory.policy = 'noeviction';
  memory.max = 0;
  t.notOk(await at(999));
  t.equal(use.share(), 0);
  t.notOk(await reporting(0).at(1000));
});
