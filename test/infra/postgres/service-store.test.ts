import { test } from 'tap';
import { makeServiceStore } from '../../../src/infra/postgres/service-store.ts';
import { clientStoreContract } from '../../contract/service-store.ts';
import { makeMemoryServiceStore } from '../../support/memory-service-store.ts';
import { openPostgres } from '../../support/open-postgres.ts';
import { testDatabase } from '../../support/postgres.ts';
import { sql } from '../../support/sql.ts';

clientStoreContract('in memory', () => Promise.resolve(makeMemoryServiceStore()));

clientStoreContract('PostgreSQL', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url, pool: 4 });
  return makeServiceStore(postgres.prisma);
});

test('an unreachable database is an outage', async (t) => {
  const postgres = openPostgres(t, { url: 'postgres://unknown@127.0.0.1:1/none', timeout: 1000 });
  const store = makeServiceStore(postgres.prisma);
  const secretHash = new Uint8Array(32);
  const client = {
    serviceId: 'a',
    name: 'a',
    secretHash,
    createdAt: 1,
    rights: [],
    audience: null,
    roles: [],
  };
  const calls: Promise<unknown>[] = [
    store.list(),
    store.add(client),
    store.rotate('a', client.secretHash, { at: 1, again: false }),
    store.finishRotation('a'),
    store.allow('a', []),
    store.setRoles('a', []),
    store.endTokens('a'),
    store.disable('a', 1),
    store.enable('a'),
    store.trust('a', { issuer: 'i', subject: 's' }, null),
    store.untrust('a', { issuer: 'i', subject: 's' }),
    store.issuers(),
    store.remove('a'),
  ];
  await Promise.all(calls.map((answer) => t.rejects(answer, { code: 'unavailable' })));
});

test('a client of a later release has the rights that this one knows', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url });
  await sql(
    url,
    `INSERT INTO service_clients (client_id, name, secret_hash, created_at, rights)
     VALUES ('b', 'b', '', now(), '{of.a.later.release,revoke}')`,
  );
  const rights = (await makeServiceStore(postgres.prisma).list()).map((client) => client.rights);
  t.strictSame(rights, [['revoke']]);
});
