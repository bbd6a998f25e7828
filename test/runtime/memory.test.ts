import { totalmem } from 'node:os';
import { test } from 'tap';
import { availableMemory, containerMemory } from '../../src/runtime/memory.ts';

test('the memory of the machine counts where the container has no limit', (t) => {
  let limit = 768 * 1024 ** 2;
  t.intercept(process, 'constrainedMemory', { value: () => limit });
  t.strictSame([containerMemory(), availableMemory()], [limit, limit]);
  // Unknown, none in either version of cgroups, and more than the machine has.
  for (limit of [0, 2 ** 63 - 4096, 2 ** 64, totalmem() + 1]) {
    t.strictSame([containerMemory(), availableMemory()], [0, totalmem()], String(limit));
  }
  t.end();
});
