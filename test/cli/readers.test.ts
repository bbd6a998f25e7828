import { test } from 'tap';
import { bearer, call, claimsOf, signUp } from '../support/client.ts';
import { aDrillRange } from '../support/drill-range.ts';
import { latchkey } from '../support/latchkey.ts';
import { aReadLatchkey, READER } from './read-latchkey.ts';
import { redisMissing } from '../support/redis.ts';
import { aRegisteredService } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';

const skip = { skip: redisMissing };
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

test('the lifetime on record counts where the command has a shorter one', skip, async (t) => {
  const { target, run, pause, resume } = await aReadLatchkey(t, { ACCESS_TOKEN_TTL: '3600' });
  // As a replica does that has a DATABASE_URL.
  await sql(target.databaseUrl, `INSERT INTO installation VALUES ('ACCESS_TOKEN_TTL', '3600', now())`);
  const shell = { ACCESS_TOKEN_TTL: undefined };
  const { access_token: token } = await signUp(target);
  pause();
  t.equal((await call(target, 'DELETE /api/auth', { token })).statusCode, 200);
  const ask = ['readers', 'enforced', '--token', String(claimsOf(token).sid), '--json'];
  t.match(jsonOf(await run([...ask, '--wait=5'], shell)), { published: /Z$/, done: false });
  await sql(
    target.databaseUrl,
    `UPDATE tokens SET revoked_at = revoked_at - interval '1000 s', settled_at = settled_at - interval '1000 s'`,
  );
  t.match(jsonOf(await run([...ask, '--wait=0'], shell)), {
    done: false,
    counts: { bounded: 0, pending: 1 },
  });
  resume();
  t.match(jsonOf(await run([...ask, '--wait=30'], shell)), { done: true, counts: { enforced: 1 } });
});

test('an answer that speaks for no reader is no success', skip, async (t) => {
  const { env } = await aDrillRange(t);
  const ran = await latchkey(['readers', 'enforced', '--all'], env);
  t.match(ran, { code: 1, stdout: /^done, but no reader is known/ });
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
