import { randomBytes } from 'node:crypto';
import { t as file } from 'tap';
import { makePostgres } from '../../../src/infra/postgres/client.ts';
import { toUser } from '../../../src/infra/postgres/rows.ts';
import { makeTokenStore } from '../../../src/infra/postgres/token-store.ts';
import { tokenStoreContract } from '../../contract/token-store.ts';
import { testDatabase } from '../../support/postgres.ts';

const { url } = await testDatabase(file);
const postgres = makePostgres({ url, pool: 5, timeout: 10_000 });
const { prisma } = postgres;
file.teardown(() => postgres.close());

/** Accounts that no other test knows. */
async function addUser() {
  const username = `user-${randomBytes(5).toString('hex')}`;
  const passwordHash = new Uint8Array(96);
  const data = { username, email: `${username}@example.com`, name: 'Ada', passwordHash };
  return toUser(await prisma.user.create({ data }));
}

tokenStoreContract('postgres', async () => ({
  tokens: makeTokenStore(prisma),
  ada: await addUser(),
  bob: await addUser(),
  disable: async ({ id }) => {
    await prisma.user.update({ where: { id: BigInt(id) }, data: { disabledAt: new Date() } });
  },
}));
