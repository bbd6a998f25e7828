import type { Test } from 'tap';
import type { Environment } from '../../../src/config/config.ts';
import { RIGHTS } from '../../../src/domain/rights.ts';
import { buildTestApp } from '../../support/app.ts';
import { call, claimsOf, signUp } from '../../support/client.ts';
import { valueOf } from '../../support/exposition.ts';
import { aFeedClient } from '../../support/feed-reader.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, basic, withRegistry } from '../../support/registered-service.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';

const READER = 'a-process-of-shop';
const PATH = '/api/auth/revocations/readers';

interface Answer {
  ended_at: string | null;
  published: string | null;
  done: boolean;
  counts: Record<string, number>;
  waiting: Record<string, unknown>[];
}

/** A running replica, a service that reads the feed, and one that asks. */
async function aWorld(t: Test, env: Environment) {
  const target = await buildTestApp(t, { env });
  target.composition.start();
  const url = await target.app.listen({ port: 0 });
  const shop = await aRegisteredService(target.databaseUrl, 'shop', ['revocations']);
  const asker = await aRegisteredService(target.databaseUrl, 'desk', ['readers']);
  const confirm = (body: object, reader = READER, service = shop) =>
    call(target, `PUT ${PATH}/${reader}`, { headers: basic(service), payload: body });
  const ask = async (query: string) =>
    (
      await call(target, `GET /api/auth/revocations/enforcement?${query}`, { headers: basic(asker) })
    ).json<Answer>();
  const list = async (query = '') =>
    (await call(target, `GET ${PATH}${query}`, { headers: basic(asker) })).json<{
      readers: Record<string, unknown>[];
      next: string | null;
      without_reader: { name: string }[];
    }>();
  const connect = (reader?: string) =>
    aFeedClient(t, {
      url: () => url,
      authorization: basic(shop).authorization,
      ...(reader !== undefined && { reader }),
    });
  return { target, databaseUrl: target.databaseUrl, shop, asker, confirm, ask, list, connect };
}

onAStore('a reader that confirms has enforced what ended before', async (t, env) => {
  const { target, shop, confirm, ask, list, connect } = await aWorld(t, env);
  t.strictSame((await list()).without_reader, [{ client_id: shop.serviceId, name: 'shop' }]);
  const client = connect(READER);
  await until(() => client.events.at(-1)?.event === 'heartbeat');
  const first = await confirm({ position: client.lastId(), instance: 'shop-1' });
  t.strictSame(first.json(), { msg: 'confirmed', after: 1 });
  const { access_token: token, user } = await signUp(target);
  const id = Number(claimsOf(token).sid);
  t.match(await ask(`token=${id}`), { ended_at: null, published: null, done: false }, 'a live token');
  await call(target, 'DELETE /api/auth', { token });

  const early = await ask(`token=${id}&wait=0`);
  t.match(early, { done: false, counts: { enforced: 0, pending: 1 } });
  t.match(early.waiting, [
    { client_id: shop.serviceId, name: 'shop', reader: READER, instance: 'shop-1', state: 'pending' },
  ]);
  await until(() => client.knows(id));
  const asked = ask(`token=${id}&wait=30`);
  await confirm({ position: client.lastId(), instance: 'shop-1', keys: ['k1'] });
  const answer = await asked;
  t.match(answer, { done: true, counts: { enforced: 1, bounded: 0, pending: 0, unknown: 0 }, waiting: [] });
  t.ok(Date.parse(answer.published ?? '') >= Date.parse(answer.ended_at ?? ''));
  for (const query of [`user=${user.id}`, 'all=true'])
    t.match(await ask(`${query}&wait=30`), { done: true, counts: { enforced: 1 } }, query);
  t.match(await ask('token=999999'), { ended_at: null, done: false }, 'an unknown token');

  const { readers, without_reader: without } = await list();
  t.strictSame(without, []);
  t.match(readers, [
    { client_id: shop.serviceId, name: 'shop', reader: READER, instance: 'shop-1', keys: ['k1'], behind: 0 },
  ]);
  t.equal((await confirm({ position: 'elsewhere.7' })).statusCode, 200);
  t.match((await list()).readers, [{ position: 'elsewhere.7', behind: null, instance: null, keys: [] }]);
  const last = client.lastId() ?? '';
  for (const position of [last.replace(/\.\d+$/, '.0'), `${last}000`]) {
    await confirm({ position });
    t.match(await ask('all=true&wait=3'), { done: false, counts: { enforced: 0 } }, position);
  }
});

onAStore('a goodbye removes a process, and a policy bounds one that is silent', async (t, env) => {
  const { target, databaseUrl, shop, confirm, ask, list } = await aWorld(t, env);
  const leave = (reader: string) => call(target, `DELETE ${PATH}/${reader}`, { headers: basic(shop) });
  await confirm({ position: 'e.1', max_staleness: 60, when_stale: 'refuse' });
  const { access_token: token } = await signUp(target);
  await call(target, 'DELETE /api/auth', { token });
  const query = `token=${String(claimsOf(token).sid)}&wait=3`;
  const { published, waiting } = await ask(query);
  t.match(waiting, [{ by: 'policy', until: new Date(Date.parse(published ?? '') + 90_000).toISOString() }]);
  await sql(
    databaseUrl,
    "UPDATE tokens SET revoked_at = now() - interval '91 s', settled_at = now() - interval '91 s'",
  );
  t.match(await ask(query), { done: true, counts: { bounded: 1 } });
  t.strictSame((await leave(READER)).json(), { msg: 'forgotten' });
  t.strictSame((await leave(READER)).json(), { msg: 'forgotten' });
  t.strictSame((await list()).readers, []);
});

onAStore('the list has pages, over all services', async (t, env) => {
  const { databaseUrl, shop, confirm, list } = await aWorld(t, env);
  const other = await aRegisteredService(databaseUrl, 'mart', ['revocations']);
  const names = ['a', 'b', 'c'].map((letter) => letter.repeat(16));
  for (const name of names) await confirm({ position: 'e.1' }, name);
  await confirm({ position: 'e.1' }, names[0], other);
  const found: unknown[] = [];
  let after: string | null = '';
  do {
    const page = await list(`?limit=2${after && `&after=${after}`}`);
    t.ok(page.readers.length <= 2);
    found.push(...page.readers.map((each) => `${String(each.name)} ${String(each.reader)}`));
    after = page.next;
  } while (after !== null);
  t.strictSame(found.sort(), [...names.map((name) => `shop ${name}`), `mart ${names[0] ?? ''}`].sort());
  await withRegistry(databaseUrl, (registry) => registry.remove('shop'));
  t.equal((await list()).readers.length, 1, 'a deleted service has no readers');
  t.equal(shop.serviceId.includes(':'), false, 'the id of a page is unambiguous');
});

onAStore('who is connected is noted, also without an id, and counts in the metrics', async (t, env) => {
  const { target, list, connect } = await aWorld(t, env);
  connect(READER);
  connect();
  connect('too short');
  await until(async () => (await list()).readers.length === 2);
  t.match((await list()).readers, [
    { reader: null, position: null, behind: null, confirmed_at: null },
    { reader: READER, position: null, confirmed_at: null },
  ]);
  const scraped = await target.composition.ops.metrics();
  t.notMatch(scraped, READER);
  t.equal(valueOf(scraped, 'latchkey_revocation_enforced_seconds'), 0);
});

onAStore('what is wrong with a request is 400, and changes nothing', async (t, env) => {
  const { target, asker, shop, confirm, list } = await aWorld(t, env);
  const position = 'epoch.1';
  for (const reader of ['a'.repeat(15), 'a'.repeat(65), 'a'.repeat(15) + '%20', 'a'.repeat(15) + '%0a'])
    for (const method of ['PUT', 'DELETE'])
      refused(
        t,
        await call(target, `${method} ${PATH}/${reader}`, {
          headers: basic(shop),
          ...(method === 'PUT' && { payload: { position } }),
        }),
        400,
        'validation_failed',
      );
  for (const wrong of [
    {},
    { position: 'epoch' },
    { position: 'epoch.01' },
    { position: 'epoch.-1' },
    { position: 'epoch.9007199254740993' },
    { position: `${'e'.repeat(65)}.1` },
    { position, max_staleness: 60 },
    { position, when_stale: 'refuse' },
    { position, max_staleness: -1, when_stale: 'refuse' },
    { position, max_staleness: 1e9, when_stale: 'refuse' },
    { position, max_staleness: 1.5, when_stale: 'refuse' },
    { position, max_staleness: 60, when_stale: 'ignore' },
    { position, keys: Array.from({ length: 17 }, (_, i) => `k${i}`) },
    { position, keys: ['a key'] },
    { position, instance: 'shop 1' },
    { position, instance: 'shop\n1' },
    { position, instance: 'ada@example.com' },
    { position, instance: '' },
    { position, instance: 'a'.repeat(129) },
    { position, version: '' },
    { position, more: 1 },
  ])
    refused(t, await confirm(wrong), 400, 'validation_failed');
  for (const query of [
    '',
    'token=1&user=1',
    'all=false',
    'all=true&wait=31',
    'all=true&wait=-1',
    'all=true&wait=1.5',
    'token=0',
    'token=9007199254740993',
    'user=x',
    'token=1&token=2',
  ])
    refused(
      t,
      await call(target, `GET /api/auth/revocations/enforcement?${query}`, { headers: basic(asker) }),
      400,
      'validation_failed',
    );
  for (const query of ['limit=0', 'limit=1001', 'after=x', 'after=a:b:c'])
    refused(
      t,
      await call(target, `GET ${PATH}?${query}`, { headers: basic(asker) }),
      400,
      'validation_failed',
    );
  t.strictSame((await list()).readers, []);
});

onAStore('each route needs its right, and no service speaks for another', async (t, env) => {
  const { target, databaseUrl, shop, confirm, list } = await aWorld(t, env);
  await confirm({ position: 'e.5' });
  const without = async (right: (typeof RIGHTS)[number]) =>
    basic(
      await aRegisteredService(
        databaseUrl,
        `no ${right}`,
        RIGHTS.filter((each) => each !== right),
      ),
    );
  const [noFeed, noReaders] = [await without('revocations'), await without('readers')];
  const lines = [
    [`PUT ${PATH}/${READER}`, noFeed],
    [`DELETE ${PATH}/${READER}`, noFeed],
    [`GET ${PATH}`, noReaders],
    ['GET /api/auth/revocations/enforcement?all=true', noReaders],
  ] as const;
  for (const [line, headers] of lines)
    refused(
      t,
      await call(target, line, { headers, ...(line.startsWith('PUT') && { payload: { position: 'e.9' } }) }),
      403,
      'right_missing',
    );
  const other = await aRegisteredService(databaseUrl, 'other', ['revocations']);
  await confirm({ position: 'e.9' }, READER, other);
  await call(target, `DELETE ${PATH}/${READER}`, { headers: basic(other) });
  t.match((await list()).readers, [{ client_id: shop.serviceId, position: 'e.5' }]);
});
