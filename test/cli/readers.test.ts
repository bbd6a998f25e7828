import { test, type Test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { bearer, call, claimsOf, headerOf, signUp } from '../support/client.ts';
import { NO_DATA_DIR } from '../support/environment.ts';
import { aFeedClient } from '../support/feed-reader.ts';
import { withKeys } from '../support/keys.ts';
import { latchkey } from '../support/latchkey.ts';
import { redisMissing, testRedis } from '../support/redis.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const skip = { skip: redisMissing };
const READER = 'orders-reader-0001';

/** A Latchkey with one reader of the service `orders`, and the commands beside it. */
async function aReadLatchkey(t: Test) {
  const { url: REDIS_URL, prefix } = testRedis(t);
  const { target, env } = await withKeys(t, 'ES256', 0, { REDIS_URL, REDIS_PREFIX: prefix });
  await target.app.listen({ host: '127.0.0.1', port: 0 });
  const orders = await aRegisteredService(target.databaseUrl, 'orders', ['revocations']);
  const kid = String(headerOf((await signUp(target)).access_token).kid);
  let confirms = true;
  let last: string | undefined;
  let refused: number | null = null;
  const facts = { instance: 'orders-7d9f4c', software: 'a-reader', version: '1.0.9' };
  const confirm = async (position: string) => {
    const { statusCode } = await call(target, `PUT /api/auth/revocations/readers/${READER}`, {
      headers: basic(orders),
      payload: { position, ...facts, max_staleness: 3600, when_stale: 'refuse', keys: ['a-key', kid] },
    });
    if (statusCode !== 200) refused = statusCode;
  };
  aFeedClient(t, {
    url: () => target.app.listeningOrigin,
    authorization: basic(orders).authorization,
    reader: READER,
    onEvent({ event, id }) {
      if (event !== 'heartbeat' || id === undefined || !confirms || id === last) return;
      last = id;
      void confirm(id);
    },
  });
  const rows = () => sql(target.databaseUrl, 'SELECT 1 FROM feed_readers WHERE reader = $1', [READER]);
  await until(async () => (await rows()).length === 1);
  t.equal(refused, null);
  const own = { ...env, DATABASE_URL: target.databaseUrl, DATA_DIR: NO_DATA_DIR };
  const all: Environment = { ...own, REDIS_PREFIX: `${prefix}${new URL(target.databaseUrl).pathname}:` };
  return {
    target,
    kid,
    env: all,
    prefix,
    run: (words: string[], more: Environment = {}, input = '') =>
      latchkey(words, { ...all, ...more }, undefined, input),
    pause: () => {
      confirms = false;
    },
    resume: () => {
      confirms = true;
    },
  };
}

const jsonOf = ({ stdout }: { stdout: string }) => JSON.parse(stdout) as Record<string, unknown>;

test('readers list shows who follows the feed, and who could', skip, async (t) => {
  const { target, run, kid } = await aReadLatchkey(t);
  await aRegisteredService(target.databaseUrl, 'billing', ['revocations', 'introspect']);
  await aRegisteredService(target.databaseUrl, 'shop', ['introspect']);
  const { readers, without_reader } = jsonOf(await run(['readers', 'list', '--json'])) as {
    readers: object[];
    without_reader: object[];
  };
  t.match(readers, [
    {
      name: 'orders',
      reader: READER,
      instance: 'orders-7d9f4c',
      version: '1.0.9',
      max_staleness: 3600,
      when_stale: 'refuse',
      keys: ['a-key', kid],
      behind: Number,
    },
  ]);
  t.match(without_reader, [{ name: 'billing', client_id: /^lkc_/ }]);
  const { stdout } = await run(['readers', 'list']);
  t.match(stdout, /^orders\torders-7d9f4c\t\d+\t\S+Z\ta-reader 1\.0\.9\trefuse after 3600 s\ta-key,/m);
  t.match(stdout, /^billing may read the feed, and no reader of it is known$/m);
  for (const [options, isShown] of [
    [['--service', 'orders'], true],
    [['--service', 'billing'], false],
    [['--key', 'a-key'], true],
    [['--key', 'another'], false],
    [['--below', '1.0.10'], true],
    [['--below', '1.1.0'], true],
    [['--below', '1.0.9'], false],
  ] as const)
    t.equal(
      (await run(['readers', 'list', ...options])).stdout.includes('orders-7d9f4c'),
      isShown,
      options.join(' '),
    );
  t.match(await run(['readers', 'list', '--below', 'new']), { code: 2 });
});

test('readers enforced ends with code 0 once every reader refuses what has ended', skip, async (t) => {
  const { target, run, pause, resume } = await aReadLatchkey(t);
  const { access_token: token, user } = await signUp(target);
  const id = String(claimsOf(token).sid);
  t.match(await run(['readers', 'enforced', '--token', id, '--wait', '0']), {
    code: 1,
    stdout: /^not done: nothing of it has ended/,
  });
  pause();
  t.equal((await call(target, 'DELETE /api/user/tokens', { headers: bearer(token) })).statusCode, 200);
  const early = await run(['readers', 'enforced', '--id', String(user.id), '--wait', '3', '--json']);
  t.equal(early.code, 1);
  t.match(jsonOf(early), {
    ended_at: /Z$/,
    done: false,
    counts: { enforced: 0, pending: Number },
    waiting: [{ name: 'orders', instance: 'orders-7d9f4c', state: 'pending', until: /Z$/ }],
  });
  t.match(await run(['readers', 'enforced', '--id', String(user.id), '--wait', '0']), {
    stdout:
      /^not done: 1 of 1 reader may still accept it\n.*\n {2}orders {2}orders-7d9f4c {2}pending until \S+Z$/m,
  });
  resume();
  for (const words of [['--id', String(user.id)], ['--token', id], ['--all']]) {
    const late = await run(['readers', 'enforced', ...words, '--wait', '30', '--json']);
    t.equal(late.code, 0, `${words.join(' ')}: ${late.stdout}${late.stderr}`);
    t.match(jsonOf(late), { done: true, counts: { enforced: 1, pending: 0, unknown: 0 }, waiting: [] });
  }
  for (const words of [[], ['--all', '--id', '7'], ['--id', 'ada'], ['--all', '--wait', '31']])
    t.match(await run(['readers', 'enforced', ...words]), { code: 2 }, words.join(' '));
});

test('explain says who refuses an ended token, and keys list who holds a key', skip, async (t) => {
  const { target, run, kid } = await aReadLatchkey(t);
  const { access_token: token } = await signUp(target);
  const good = await run(['explain', '--json'], {}, token);
  t.equal(jsonOf(good).readers, null, 'nothing has ended');
  await call(target, 'DELETE /api/auth', { token });
  const ended = await run(['explain', '--json'], {}, token);
  t.match(jsonOf(ended), { reason: 'revoked', readers: { ended_at: /Z$/, counts: { enforced: 1 } } });
  t.match((await run(['explain'], {}, token)).stdout, /^Its end, at services:\n(not )?done/m);
  t.match(jsonOf(await run(['keys', 'list', '--json'])), { keys: [{ kid, readers: 1 }] });
  t.match((await run(['keys', 'list'])).stdout, /, held by 1 reader of the feed$/m);
});

test('readers forget removes an instance, or all readers of a service', skip, async (t) => {
  const { target, run, pause } = await aReadLatchkey(t);
  pause();
  t.match(await run(['readers', 'forget', 'nobody']), { code: 1, stderr: /no client has this name/ });
  t.match(await run(['readers', 'forget', 'orders', 'other']), {
    code: 1,
    stderr: /no reader of this client/,
  });
  const forgot = await run(['readers', 'forget', 'orders', 'orders-7d9f4c']);
  t.match(forgot, {
    code: 0,
    stdout: /^1 forgotten/,
    audit: [
      {
        event: 'readers.forget',
        subject: { client_name: 'orders' },
        details: { instance: 'orders-7d9f4c', forgotten: 1 },
      },
    ],
  });
  t.match(await run(['readers', 'forget', 'orders']), { code: 0 });
  t.strictSame(
    await sql(target.databaseUrl, 'SELECT reader FROM feed_readers WHERE reader = $1', [READER]),
    [],
  );
  t.match(await run(['readers', 'forget']), { code: 2 });
});

test(
  'without the service’s Redis nobody is called enforced, and nothing is written there',
  skip,
  async (t) => {
    const { run, prefix } = await aReadLatchkey(t);
    const none = { REDIS_URL: undefined };
    t.match(await run(['readers', 'enforced', '--all'], none), {
      code: 1,
      stderr: /GET \/api\/auth\/revocations/,
    });
    t.match((await run(['readers', 'list'], none)).stdout, /^orders\torders-7d9f4c\tunknown\t/m);
    const other = { REDIS_PREFIX: `${prefix}other:` };
    t.match(await run(['readers', 'enforced', '--all'], other), {
      code: 1,
      stderr: /^Redis holds no mark of this database: /,
    });
    t.match(await run(['readers', 'enforced', '--all'], { REDIS_URL: 'redis://127.0.0.1:1' }), {
      code: 1,
      stderr: /cannot be reached/,
    });
  },
);
