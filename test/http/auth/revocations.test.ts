// suite: e2e
import type { AddressInfo } from 'node:net';
import { isDeepStrictEqual, promisify } from 'node:util';
import { test, type Test } from 'tap';
import { buildOpsApp } from '../../../src/app.ts';
import { POLL } from '../../../src/composition/revocation-feed.ts';
import { makeServiceRegistry, type Credentials } from '../../../src/domain/services/registry.ts';
import { makeServiceStore } from '../../../src/infra/postgres/service-store.ts';
import { randomBytes } from 'node:crypto';
import type { Environment } from '../../../src/config/config.ts';
import { aManager, disableAccount } from '../../support/accounts.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { anAccount, call, createLongLived, logIn, refresh, signUp, claimsOf } from '../../support/client.ts';
import { aMovedClock } from '../../support/clock.ts';
import { valueOf } from '../../support/exposition.ts';
import { aFeedClient, type FeedClient, type ServerSentEvent } from '../../support/feed-reader.ts';
import { latchkey } from '../../support/latchkey.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { withClient } from '../../support/postgres.ts';
import { recordRoles } from '../../support/roles.ts';
import { serviceToken } from '../../support/service-tokens.ts';
import { sql } from '../../support/sql.ts';
import { onAStore } from '../../support/stores.ts';
import { until } from '../../support/until.ts';
import { parsePosition, positionText } from '../../../src/http/auth/revocations.ts';

/** The app on a socket, a registered service, and its feed readers. */
async function aWorld(t: Test, env: Environment) {
  const target = await buildTestApp(t, { env });
  const url = await listening(target);
  const postgres = openPostgres(t, { url: target.databaseUrl });
  const store = makeServiceStore(postgres.prisma);
  const registry = makeServiceRegistry({ store, randomBytes, clock: { now: () => Date.now() } });
  const created = await registry.create('shop');
  if (!created) throw new Error('no client');
  const authorization = basic(created);
  const read = (options: { lastEventId?: string; comesBack?: boolean; authorization?: string } = {}) =>
    aFeedClient(t, { url: () => url, authorization, ...options });
  return { target, url, prisma: postgres.prisma, registry, authorization, read };
}

async function listening({ composition, app }: TestApp): Promise<string> {
  composition.start();
  await app.listen({ host: '127.0.0.1', port: 0 });
  return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
}

function basic(credentials: Credentials | null): string {
  const { serviceId = '', secret = '' } = credentials ?? {};
  return `Basic ${Buffer.from(`${serviceId}:${secret}`).toString('base64')}`;
}

const idOf = (token: string) => Number(claimsOf(token).sid);
const names = ({ events }: FeedClient) => events.map(({ event }) => event);
const isTold = (reader: FeedClient) => until(() => reader.events.at(-1)?.event === 'heartbeat');

onAStore('the feed tells services about every kind of revocation at once', async (t, env) => {
  const { target, read } = await aWorld(t, {
    ...env,
    MAX_SESSIONS_PER_USER: '2',
    REFRESH_RETRY_WINDOW: '0',
  });
  const account = anAccount();
  const first = await signUp(target, account);
  const reader = read();
  await isTold(reader);
  t.equal(reader.answer()?.status, 200);
  t.match(reader.answer()?.headers, {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store, no-transform',
    'x-accel-buffering': 'no',
    connection: 'close',
    'x-request-id': /./,
  });
  t.match(reader.events[0], {
    event: 'snapshot',
    data: { tokens: [], users: [], statuses: [], last: true, remember: 905 },
  });
  const user = first.user.id;
  const told = async (token: number, why: string) => {
    await until(() => reader.knows(token));
    const event = reader.events.find(({ data }) => data.token === token);
    t.match(event, { event: 'revoked', id: /./, data: { token, user } }, why);
  };

  const llt = await createLongLived(target, first.access_token);
  await call(target, `DELETE /api/auth/llt/${llt.id}`, { token: first.access_token });
  await told(llt.id, 'a long-lived token deleted');

  const second = await logIn(target, account.username);
  const third = await logIn(target, account.username);
  await told(idOf(first.access_token), 'a session that made room');

  await call(target, `DELETE /api/auth/${idOf(second.access_token)}`, { token: third.access_token });
  await told(idOf(second.access_token), 'another session ended');

  const planted = await createLongLived(target, third.access_token);
  await refresh(target, third.refresh_token);
  const next = (await refresh(target, third.refresh_token)).json<typeof third>();
  await refresh(target, next.refresh_token);
  t.equal((await refresh(target, third.refresh_token)).statusCode, 401);
  await told(idOf(third.access_token), 'theft');
  await told(planted.id, 'a long-lived token that the stolen session had created');

  const fourth = await logIn(target, account.username);
  await call(target, 'DELETE /api/auth', { token: fourth.access_token });
  await told(idOf(fourth.access_token), 'logout');

  const everywhere = [await logIn(target, account.username), await logIn(target, account.username)];
  const { id: kitchen } = await createLongLived(target, everywhere[0]?.access_token ?? '');
  await call(target, 'DELETE /api/user/tokens', { token: everywhere[1]?.access_token });
  await until(() => reader.knows(kitchen, user));
  t.match(
    reader.events.find(({ event }) => event === 'user_revoked'),
    { data: { user, before: kitchen }, id: /./ },
    'logout everywhere: one event for all',
  );

  const last = [await logIn(target, account.username), await logIn(target, account.username)];
  // Write-behind may reach the used tokens first. The unused ones alone are many enough.
  const kept = [];
  for (let i = 0; i < 4; i++) kept.push(await createLongLived(target, last[0]?.access_token ?? ''));
  const newest = kept.at(-1)?.id ?? 0;
  await disableAccount(target.databaseUrl, { username: account.username });
  await until(() => reader.knows(newest, user) && reader.knows(idOf(last[0]?.access_token ?? ''), user));
  t.match(
    reader.events.findLast(({ event }) => event === 'user_revoked'),
    { data: { user, before: newest }, id: /./ },
    'an account disabled: one event for all',
  );
  t.notOk(names(reader).slice(1).includes('snapshot'));
});

onAStore('the feed tells services that a user has changed', async (t, env) => {
  const { target, read } = await aWorld(t, env);
  const { access_token: token, user } = await signUp(target);
  const reader = read();
  await isTold(reader);
  const rename = (name: string) => call(target, 'PATCH /api/user', { token, payload: { name } });
  for (const name of ['Countess', 'Ada']) t.equal((await rename(name)).statusCode, 200);
  await recordRoles(target.databaseUrl, user.id, ['editor']);
  const changes = () => reader.events.filter(({ event }) => event === 'user_changed');
  await until(() => changes().some(({ data }) => data.version === 3));
  const manager = await aManager(target.databaseUrl, target, ['users.write']);
  t.equal((await manager(`PATCH /api/users/${user.id}`, { external_id: 'x-1' })).statusCode, 200);
  // As a replica of 1.0.0 does it, which raises no version for an address.
  await sql(target.databaseUrl, 'UPDATE users SET email_verified_at = now() WHERE id = $1', [user.id]);
  await until(() => changes().some(({ data }) => data.version === 5));
  t.strictSame(
    changes().map(({ data }) => data),
    [1, 2, 3, 4, 5].map((version) => ({ user: user.id, version })),
  );
  t.match(changes()[0], { id: /./ });
  t.notOk(names(reader).slice(1).includes('snapshot'));
});

onAStore('the feed tells services what becomes of accounts', async (t, env) => {
  const { target, read } = await aWorld(t, env);
  const { databaseUrl } = target;
  const ask = await aManager(databaseUrl, target);
  const reader = read();
  await isTold(reader);
  const told: ServerSentEvent[] = [];
  const next = async (...expected: [event: string, user: number, version: number][]) => {
    const fresh = () =>
      reader.events.filter((each) => /^user_(?!revoked)/.test(each.event) && !told.includes(each));
    await until(() => fresh().length >= expected.length);
    const events = fresh();
    told.push(...events);
    t.strictSame(
      events.map(({ event, data }) => [event, data]),
      expected.map(([event, user, version]) => [event, { user, version }]),
    );
  };

  const { user } = await signUp(target);
  await next(['user_created', user.id, 0]);
  const other = (await ask('POST /api/users', anAccount())).json<{ id: number }>();
  await next(['user_created', other.id, 0]);
  const third = anAccount();
  const command = ['user', 'create', third.username, '--display-name', third.name, '--email', third.email];
  t.match(await latchkey([...command, '--json'], { DATABASE_URL: databaseUrl }), { code: 0 });
  await next(['user_created', other.id + 1, 0]);

  await ask(`PATCH /api/users/${user.id}`, { disabled: true });
  await next(['user_changed', user.id, 1], ['user_disabled', user.id, 1]);
  await ask(`PATCH /api/users/${user.id}`, { disabled: false, name: 'Countess' });
  await next(['user_changed', user.id, 2], ['user_enabled', user.id, 2]);
  await ask(`DELETE /api/users/${other.id}`);
  await next(['user_changed', other.id, 1], ['user_deleted', other.id, 1]);
  // In the record only, as by a command.
  await disableAccount(databaseUrl, { id: user.id });
  await next(['user_changed', user.id, 3], ['user_disabled', user.id, 3]);

  const late = read();
  await isTold(late);
  const statuses = [
    { user: user.id, status: 'disabled', version: 3 },
    { user: other.id, status: 'deleted', version: 1 },
  ];
  t.match(late.events[0], { event: 'snapshot', data: { statuses } });
});

onAStore('a reader resumes where it stopped, or gets a snapshot', async (t, env) => {
  const { target, read, authorization } = await aWorld(t, env);
  const pairs = [await signUp(target), await signUp(target), await signUp(target)];
  const [one, two, three] = pairs.map(({ access_token }) => idOf(access_token)) as [number, number, number];
  const end = (i: number) => call(target, 'DELETE /api/auth', { token: pairs[i]?.access_token });
  await end(0);
  const reader = read();
  await isTold(reader);
  t.match(reader.events[0], { event: 'snapshot', data: { tokens: [one] } });
  reader.stop();

  await end(1);
  await end(2);
  const again = read({ lastEventId: reader.lastId() ?? '' });
  await isTold(again);
  t.strictSame(
    again.events.filter(({ event }) => event === 'revoked').map(({ data }) => data.token),
    [two, three],
  );
  const { databaseUrl } = target;
  const changed = await buildTestApp(t, { databaseUrl, env: { ...env, ACCESS_TOKEN_TTL: '3600' } });
  const url = await listening(changed);
  const longer = aFeedClient(t, { url: () => url, authorization, lastEventId: again.lastId() ?? '' });
  await isTold(longer);
  t.match(longer.events[0], { event: 'snapshot', data: { tokens: [one, two, three], remember: 3605 } });

  for (const lastEventId of ['', 'x', 'another-epoch.1', `${reader.lastId()}0000`]) {
    const lost = read({ lastEventId });
    await isTold(lost);
    t.match(lost.events[0], { event: 'snapshot', data: { tokens: [one, two, three] } }, lastEventId);
  }
});

test('a reader knows the versions of the services that are not disabled', async (t) => {
  const { registry, read } = await aWorld(t, {});
  await registry.create('till');
  const [shop = '', till = ''] = (await registry.list()).map(({ serviceId }) => serviceId);
  const lists = ({ events }: FeedClient) => events.filter(({ event }) => event === 'clients');
  const reader = read();
  const isListed = (versions: object) =>
    until(() => isDeepStrictEqual(lists(reader).at(-1)?.data, { versions }));
  await isListed({ [shop]: 1, [till]: 1 });
  await registry.disable('till');
  await isListed({ [shop]: 1 });
  await registry.endTokens('shop');
  await isListed({ [shop]: 2 });
  const late = read();
  await isTold(late);
  t.strictSame(lists(late), [{ event: 'clients', data: { versions: { [shop]: 2 } } }], 'when it connects');
});

test('a feed that a service token has opened ends with its exp', async (t) => {
  const pass = aMovedClock(t);
  const ISSUER = 'http://localhost:3000';
  const { target, registry, read } = await aWorld(t, { SERVICE_TOKEN_TTL: '60' });
  const client = await registry.create('till');
  const token = await serviceToken(target, { serviceId: '', secret: '', ...client }, ISSUER);
  const { iat, exp } = claimsOf(token) as { iat: number; exp: number };
  t.equal(exp - iat, 60, 'SERVICE_TOKEN_TTL');
  const [reader, bySecret] = [read({ authorization: `Bearer ${token}` }), read()];
  const passUntil = (seconds: number) => {
    pass(seconds * 1000 - Date.now());
  };
  for (const each of [reader, bySecret]) await isTold(each);
  passUntil(exp + 1);
  const heard = reader.events.length;
  await until(() => reader.events.length > heard);
  t.equal(reader.isConnected(), true, 'clocks may differ by 5 s');
  passUntil(exp + 5);
  await until(() => !reader.isConnected());
  t.equal(bySecret.isConnected(), true);
});

onAStore('only registered services read the feed, and only while registered', async (t, env) => {
  const { target, registry, read, authorization } = await aWorld(t, env);
  const { access_token: token } = await signUp(target);
  for (const [headers, code] of [
    [{}, 'invalid_client'],
    [{ authorization: `Bearer ${token}` }, 'invalid_token'],
    [{ authorization: authorization.slice(0, -4) }, 'invalid_client'],
  ] as const) {
    const response = await call(target, 'GET /api/auth/revocations', { headers });
    t.equal(response.statusCode, 401);
    t.match(response.json(), { code });
  }
  const reader = read();
  await isTold(reader);
  const newer = await registry.rotate('shop');
  const renewed = read({ authorization: basic(newer) });
  await isTold(renewed);
  await registry.finishRotation('shop');
  await until(() => !reader.isConnected());
  t.equal(renewed.isConnected(), true, 'the remaining secret is valid');
  await registry.remove('shop');
  await until(() => !renewed.isConnected());
});

onAStore('one client may not hold all readers', async (t, env) => {
  // By default a quarter of all readers, at least 1.
  for (const [limit, allowed] of [
    ['', 1],
    ['2', 2],
  ] as const) {
    const { registry, read } = await aWorld(t, {
      ...env,
      REVOCATION_READERS_MAX: '7',
      REVOCATION_READERS_PER_CLIENT: limit,
    });
    const till = basic(await registry.create('till'));
    const mine = Array.from({ length: allowed }, () => read());
    for (const reader of mine) await isTold(reader);
    const refusedOne = read();
    await until(() => refusedOne.answer()?.body !== undefined && refusedOne.answer()?.body !== '');
    t.equal(refusedOne.answer()?.status, 503);
    t.ok(refusedOne.answer()?.headers['retry-after']);
    await isTold(read({ authorization: till }));
    t.ok(mine.every((reader) => reader.isConnected()));
  }
});

onAStore('a drain disconnects the readers at once and refuses new ones', async (t, env) => {
  const { target, read } = await aWorld(t, env);
  const reader = read();
  await isTold(reader);
  target.composition.drain();
  await until(() => !reader.isConnected());
  const late = read();
  await until(() => late.answer() !== null);
  t.equal(late.answer()?.status, 503);
});

onAStore('closing the app does not wait for readers', async (t, env) => {
  const { target, read } = await aWorld(t, env);
  const reader = read();
  await isTold(reader);
  await target.app.close();
  await until(() => !reader.isConnected());
});

onAStore('a stream does not count as a slow request', async (t, env) => {
  const { target, read } = await aWorld(t, env);
  const ops = await buildOpsApp(target.composition.ops);
  t.teardown(() => ops.close());
  const metrics = async () => (await ops.inject('/metrics')).body;
  const lines = () =>
    target
      .log()
      .split('\n')
      .filter((line) => line.includes('/api/auth/revocations'));
  const reader = read();
  await isTold(reader);
  t.equal(lines().length, 1, 'the log line is written at its start');
  t.match(JSON.parse(lines()[0] ?? ''), { status: 200, route: '/api/auth/revocations', msg: 'request' });
  const scraped = await metrics();
  const route = { method: 'GET', route: '/api/auth/revocations', status: '200' };
  t.equal(valueOf(scraped, 'http_request_duration_seconds', route), 1);
  t.equal(valueOf(scraped, 'http_requests_in_flight'), 0);
  t.equal(valueOf(scraped, 'latchkey_feed_readers'), 1);
  t.ok(valueOf(scraped, 'latchkey_feed_lag_seconds') < 60);
  t.equal(valueOf(scraped, 'latchkey_feed_snapshots_total', { reason: 'new' }), 1);
  await until(() => reader.events.length > 3);
  reader.stop();
  await until(async () => valueOf(await metrics(), 'latchkey_feed_readers') === 0);
  const after = await metrics();
  t.equal(valueOf(after, 'http_requests_in_flight'), 0);
  t.equal(valueOf(after, 'http_request_duration_seconds', route), 1);
  t.equal(valueOf(after, 'latchkey_feed_ends_total', { reason: 'left' }), 1);
  t.equal(lines().length, 1);
});

onAStore('a reader that disconnects during its first read is dropped', async (t, env) => {
  const { target, read } = await aWorld(t, env);
  const ops = await buildOpsApp(target.composition.ops);
  t.teardown(() => ops.close());
  const metric = async (name: string, labels?: Record<string, string>) =>
    valueOf((await ops.inject('/metrics')).body, name, labels);
  await isTold(read());
  await withClient(target.databaseUrl, async (client) => {
    await client.query('BEGIN; LOCK TABLE tokens IN ACCESS EXCLUSIVE MODE');
    const reader = read();
    await until(async () => {
      const query = `SELECT 1 FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%json_agg%'`;
      return (await client.query(query)).rowCount !== 0;
    });
    reader.stop();
    const open = promisify(target.app.server.getConnections.bind(target.app.server));
    await until(async () => (await open()) === 1);
    await client.query('ROLLBACK');
  });
  await until(async () => (await metric('latchkey_feed_ends_total', { reason: 'left' })) === 1);
  t.equal(await metric('latchkey_feed_readers'), 1, 'the other one');
  t.equal(await metric('latchkey_feed_ends_total', { reason: 'slow' }), 0);
});

test('the feed is polled several times within the second that services are promised', (t) => {
  t.equal(Math.max(POLL, 250), 250);
  t.end();
});

test('a position survives formatting and parsing', (t) => {
  const position = { epoch: '0b9e2c1e-8f6c-4a5e-9c7d-1f2e3d4c5b6a', seq: Number.MAX_SAFE_INTEGER };
  t.strictSame(parsePosition(positionText(position)), position);
  t.strictSame(parsePosition('a.0'), { epoch: 'a', seq: 0 });
  t.end();
});

test('any other text is not a position', (t) => {
  const texts = [
    '',
    'a',
    'a.',
    '.1',
    'a.-1',
    'a.1e3',
    'a.01',
    'a.1.2',
    'a b.1',
    'a.9007199254740992',
    'a.1\n',
  ];
  for (const text of [...texts, `${'a'.repeat(65)}.1`])
    t.equal(parsePosition(text), null, JSON.stringify(text));
  t.end();
});
