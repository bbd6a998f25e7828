import { test } from 'tap';
import { makePostgres } from '../../../src/infra/postgres/client.ts';
import { makeClientStore } from '../../../src/infra/postgres/client-store.ts';
import { clientStoreContract } from '../../contract/client-store.ts';
import { makeMemoryClientStore } from '../../support/memory-client-store.ts';
import { testDatabase } from '../../support/postgres.ts';

clientStoreContract('in memory', () => Promise.resolve(makeMemoryClientStore()));

clientStoreContract('PostgreSQL', async (t) => {
  const { url } = await testDatabase(t);
  const postgres = makePostgres({ url, pool: 4, timeout: 5000 });
  t.teardown(() => postgres.close());
  return makeClientStore(postgres.prisma);
});

test('an unreachable database is an outage', async (t) => {
  const postgres = makePostgres({ url: 'postgres://unknown@127.0.0.1:1/none', pool: 1, timeout: 1000 });
  t.teardown(() => postgres.close());
  const store = makeClientStore(postgres.prisma);
  const client = { clientId: 'a', name: 'a', secretHash: new Uint8Array(32), createdAt: 1 };
  const calls: Promise<unknown>[] = [
    store.list(),
    store.add(client),
    store.rotate('a', client.secretHash, { at: 1, again: false }),
    store.finishRotation('a'),
    store.remove('a'),
  ];
  for (const answer of calls) await t.rejects(answer, { code: 'unavailable' });
});
