// alone
import { test, type Test } from 'tap';
import type { OpenLoopResult } from '../support/generator/open-loop.ts';
import { withClient } from '../support/postgres.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually } from '../support/until.ts';
import { openSite, OPERATIONS, type Operation } from './harness/overload.ts';

/** Connections of an open loop: each may lose one request with a replica. */
const MAX_CONNECTIONS = 256;

test('no good token is refused above capacity', { skip: toolsMissing('redis-server') }, async (t) => {
  const site = await openSite(t);
  const { replicas, redis } = site;

  for (const operation of OPERATIONS) {
    await t.test(`${operation} at 150% of its capacity`, async (t) => {
      const result = await site.offer(operation);
      judge(t, operation, result);
      t.ok(result.waiting > 0, 'more came than it could answer');
      await site.renewAll();
    });
  }

  await t.test('all at once while Redis is full', async (t) => {
    await redis.ask('CONFIG', 'SET', 'maxmemory', (await redis.info('used_memory')) ?? '');
    const results = await site.offerAll();
    await redis.ask('CONFIG', 'SET', 'maxmemory', '0');
    judgeAll(t, results);
    t.ok(results.refresh.statuses['503'], 'refreshes could not be stored');
    await site.renewAll();
  });

  await t.test('all at once while the pool is used up', async (t) => {
    const results = await withClient(site.databaseUrl, async (holder) => {
      await holder.query('BEGIN');
      await holder.query('LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE');
      await site.evict();
      return site.offerAll();
    });
    judgeAll(t, results);
    for (const operation of OPERATIONS)
      t.ok(results[operation].statuses['503'], `${operation}: sessions could not be read`);
    await site.renewAll();
  });

  await t.test('all at once while a replica is killed', async (t) => {
    const commands = async () => Number(await redis.info('total_commands_processed'));
    const before = await commands();
    const offering = site.offerBoth();
    await eventually(30, async () => ((await commands()) > before + 2000 ? null : 'no load yet'));
    await replicas[0].stop('SIGKILL');
    const results = await offering;
    const lost = judgeAll(t, results, MAX_CONNECTIONS);
    t.ok(lost > 0, 'the replica died with requests in flight');
    await site.renewAll();
  });
});

/** Judges what was offered at once. @returns how many requests were lost. */
function judgeAll(t: Test, results: Record<Operation, OpenLoopResult>, mayLose = 0): number {
  for (const operation of OPERATIONS) judge(t, operation, results[operation], mayLose);
  const all = Object.values(results);
  t.ok(
    all.some(({ waiting }) => waiting > 0),
    'more came than could be answered',
  );
  return all.reduce((sum, { statuses }) => sum + (statuses.failed ?? 0), 0);
}

/** Every answer is a success, or tells the client when to try again. */
function judge(t: Test, operation: Operation, result: OpenLoopResult, mayLose = 0): void {
  const { statuses, refusals, waiting, failure = '' } = result;
  const { 200: good = 0, failed = 0 } = statuses;
  t.comment(`overload: ${operation}: ${JSON.stringify({ ...refusals, good, failed, waiting })}`);
  const wrong = Object.entries(refusals).filter(([refusal]) => !/^(429|503) \w+$/.test(refusal));
  t.strictSame(wrong, [], `${operation}: every answer is a success, or 429 or 503 with Retry-After`);
  t.ok(failed <= mayLose, `${operation}: ${failed} requests got no answer (${failure})`);
  t.ok(good > 0, `${operation}: some succeeded`);
}
