import { test } from 'tap';
import { makeMemoryAttemptSlots } from '../../../src/infra/memory/attempt-slots.ts';
import { attemptSlotsContract } from '../../contract/attempt-slots.ts';

function open() {
  let now = 5;
  const slots = makeMemoryAttemptSlots(() => now);
  const pass = (ms: number) => {
    now += ms;
    return Promise.resolve();
  };
  return { slots, pass };
}

attemptSlotsContract('memory', () => Promise.resolve(open()));

test('a sweep removes expired attempts only', async (t) => {
  const { slots, pass } = open();
  const allowance = { count: 1, seconds: 60 };
  await slots.reserve('old', allowance);
  await pass(59_000);
  await slots.reserve('new', allowance);
  slots.sweep();
  t.match(await slots.reserve('old', allowance), { freeIn: 1000 });
  await pass(1000);
  slots.sweep();
  t.match(await slots.reserve('old', allowance), { slot: String });
  t.match(await slots.reserve('new', allowance), { freeIn: 59_000 });
});
