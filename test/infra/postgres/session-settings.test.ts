import { t as file, test } from 'tap';
import { makeServiceStore } from '../../../src/infra/postgres/service-store.ts';
import { makePostgres } from '../../../src/infra/postgres/client.ts';
import { postgresNow } from '../../../src/infra/postgres/inspect.ts';
import { migrate } from '../../../src/infra/postgres/migrate.ts';
import { databaseTime, surveyTokens } from '../../../src/infra/postgres/recover.ts';
import { makeRevocationStore } from '../../../src/infra/postgres/revocation-store.ts';
import { toUser } from '../../../src/infra/postgres/rows.ts';
import { makeTokenStore } from '../../../src/infra/postgres/token-store.ts';
import { clientStoreContract } from '../../contract/service-store.ts';
import { longLivedTokensContract } from '../../contract/long-lived-tokens.ts';
import { tokenStoreContract } from '../../contract/token-store.ts';
import { anAccount } from '../../support/client.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { CHANGED, HARMLESS, IMPOSSIBLE, makeOwnRole } from '../../support/own-role.ts';
import { startPgBouncer } from '../../support/pgbouncer.ts';
import { testDatabase } from '../../support/postgres.ts';
import { LIFETIMES } from '../../support/token.ts';
import { toolsMissing } from '../../support/tools.ts';

/** The stores pass their contracts over this connection. */
function contractsHold(kind: string, url: string): void {
  const postgres = openPostgres(file, { url, pool: 5, timeout: 10_000 });
  const { prisma } = postgres;
  const addUser = async (more: object = {}) => {
    const { username, name, email } = anAccount();
    const names = { username, skeleton: username, name, email };
    const data = Object.assign(names, { passwordHash: new Uint8Array(96) }, more);
    return prisma.user.create({ data });
  };
  const stores = async () => ({
    tokens: makeTokenStore(postgres, LIFETIMES),
    revocations: makeRevocationStore(postgres),
    ada: toUser(await addUser()),
    bob: toUser(await addUser()),
    disable: async ({ id }: { id: number }) => {
      await prisma.user.update({ where: { id: BigInt(id) }, data: { disabledAt: new Date() } });
    },
  });
  tokenStoreContract(kind, stores);
  longLivedTokensContract(kind, stores);
  clientStoreContract(kind, async () => {
    await prisma.registeredService.deleteMany();
    return makeServiceStore(prisma);
  });
  void test(`${kind}: values come back as they were sent`, async (t) => {
    const sent = {
      name: `微信 \\' "NULL"`,
      passwordHash: Uint8Array.from({ length: 256 }, (_, byte) => byte),
      createdAt: new Date('2026-07-01T12:00:00.123Z'),
      roles: ['NULL', '{}'],
    };
    const { id } = await addUser(sent);
    t.match(await prisma.user.findUnique({ where: { id } }), sent);
    const { rows } = await postgres.pool.query<{ ms: string }>(
      'SELECT extract(epoch FROM created_at) * 1000 AS ms FROM users WHERE id = $1',
      [id],
    );
    t.equal(Number(rows[0]?.ms), sent.createdAt.getTime(), 'the server means the same time');
    t.ok(Math.abs((await postgresNow(postgres.pool)) - Date.now()) < 60_000);
    t.ok(Math.abs((await databaseTime(prisma)) - Date.now()) < 60_000);
  });
  void test(`${kind}: recover counts every token`, async (t) => {
    const before = await surveyTokens(prisma, Date.now(), LIFETIMES);
    const { id } = await addUser();
    const session = { userId: id, type: 'session' as const, name: '', createdAt: new Date() };
    const latest = BigInt(Date.now()) * 1000n;
    await prisma.token.createMany({ data: Array.from({ length: 12 }, () => ({ ...session, latest })) });
    const after = await surveyTokens(prisma, Date.now(), LIFETIMES);
    t.equal(after.sessions, before.sessions + 12);
    t.ok(Math.abs(after.newest - Date.now()) < 60_000);
  });
}

// Whatever waits comes before the first test: once all tests so far have ended, the file counts as ended.
const direct = await makeOwnRole(file);
await direct.set({ ...HARMLESS, ...CHANGED });
await migrate(direct.url);
const skip = toolsMissing('bash', 'pgbouncer');
const pooled = skip ? null : await behindPgBouncer();

contractsHold('PostgreSQL with the settings of its role', direct.url);
if (pooled) contractsHold('PgBouncer with the settings of its role', pooled);

async function behindPgBouncer(): Promise<string> {
  const { url: database, set } = await makeOwnRole(file);
  await set(HARMLESS);
  const { url } = await startPgBouncer(file, database, 5);
  await migrate(url);
  return url;
}

test('what only an administrator can change is named, and a connection is refused', async (t) => {
  const { url, set } = await makeOwnRole(t);
  for (const [name, value] of Object.entries(IMPOSSIBLE)) {
    await set({ [name]: value });
    const postgres = makePostgres({ url, pool: 1, timeout: 5000, observe: null });
    const refusal = {
      name: 'SettingsError',
      message: new RegExp(`\\b${name} .*ALTER ROLE .* SET ${name} = '`),
    };
    await t.rejects(postgres.pool.query('SELECT 1'), refusal, name);
    await t.rejects(postgres.probe.query('SELECT 1'), refusal);
    await t.rejects(migrate(url), { name: 'MigrationError', message: refusal.message });
    t.match(postgres.refusal(), refusal);
    await set({});
    await postgres.pool.query('SELECT 1');
    t.equal(postgres.refusal(), null, 'it works again by itself');
    await postgres.close();
  }
});

test('the statement that an error names mends it, wherever the setting comes from', async (t) => {
  const { url, administer } = await makeOwnRole(t);
  await administer(
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET default_transaction_read_only = on`,
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET lock_timeout = 5`,
  );
  const postgres = openPostgres(t, { url });
  await t.rejects(postgres.pool.query('SELECT 1'), { name: 'SettingsError' });
  const statements =
    postgres
      .refusal()
      ?.todo.split(';')
      .filter((text) => text.trim() !== '') ?? [];
  t.equal(statements.length, 2);
  await administer('SET default_transaction_read_only = off', ...statements);
  await postgres.pool.query('CREATE TABLE works ()');
});

test('a database that cannot hold every name is refused', async (t) => {
  const { url } = await testDatabase(t, { migrated: false, encoding: 'LATIN1' });
  const postgres = openPostgres(t, { url });
  await t.rejects(postgres.pool.query('SELECT 1'), { message: /server_encoding = LATIN1.* ENCODING 'UTF8'/ });
});

test('behind a pooler, a connection refuses what it could only set for others', { skip }, async (t) => {
  const { url, set } = await makeOwnRole(t);
  for (const [name, value] of Object.entries(CHANGED)) {
    await set({ [name]: value });
    const bouncer = await startPgBouncer(t, url, 1);
    const postgres = makePostgres({ url: bouncer.url, pool: 1, timeout: 5000, observe: null });
    await t.rejects(postgres.pool.query('SELECT 1'), { message: new RegExp(`${name} = .*pooler`) }, name);
    await postgres.close();
    await bouncer.kill();
  }
});

test('a default that changes on a connection leaves transactions as they are', async (t) => {
  const { url } = await makeOwnRole(t);
  const postgres = openPostgres(t, { url });
  await postgres.pool.query("SET default_transaction_isolation = 'serializable'");
  const [row] = await postgres.prisma.$transaction(
    (tx) => tx.$queryRaw<{ level: string }[]>`SELECT current_setting('transaction_isolation') AS level`,
  );
  t.equal(row?.level, 'read committed');
});
