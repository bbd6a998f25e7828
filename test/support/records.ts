import { makePostgres, type Postgres } from '../../src/infra/postgres/client.ts';
import { makeRevocationStore } from '../../src/infra/postgres/revocation-store.ts';
import { makeStateWriter } from '../../src/infra/postgres/state-writer.ts';
import { makeTokenStore } from '../../src/infra/postgres/token-store.ts';
import { makeUserStore } from '../../src/infra/postgres/user-store.ts';
import { initialState, type SessionState } from '../../src/domain/sessions/rotation.ts';
import type { Test } from 'tap';
import { anAccount } from './client.ts';
import { testDatabase } from './postgres.ts';

/** Every store over a database of the test's own. */
export async function testRecords(t: Test) {
  const { url } = await testDatabase(t);
  const postgres: Postgres = makePostgres({ url, pool: 4, timeout: 5000 });
  t.teardown(() => postgres.close());
  const { prisma } = postgres;
  const users = makeUserStore(prisma);
  const tokens = makeTokenStore(prisma);

  return {
    url,
    postgres,
    users,
    tokens,
    revocations: makeRevocationStore(prisma),
    writer: makeStateWriter(prisma),

    /** A user with one session in this state. */
    aSession: (state: SessionState = initialState(1_000_000, 'client')) => {
      const { username, name, email } = anAccount();
      const session = { name: 'a device', createdAt: Date.now(), state };
      return users.addWithSession({ username, name, email, passwordHash: new Uint8Array(96) }, session);
    },

    stateOf: async (tokenId: number): Promise<SessionState | undefined> =>
      (await tokens.find(tokenId))?.record.state,
  };
}
