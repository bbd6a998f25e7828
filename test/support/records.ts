import type { TokenKey } from '../../src/domain/principal.ts';
import { makeChangedUsers } from '../../src/infra/postgres/changed-users.ts';
import { makeRevocationStore } from '../../src/infra/postgres/revocation-store.ts';
import { makeStateWriter } from '../../src/infra/postgres/state-writer.ts';
import { makeTokenStore } from '../../src/infra/postgres/token-store.ts';
import { makeUserStore } from '../../src/infra/postgres/user-store.ts';
import type { RevocationStore, StateWriter, TokenStore } from '../../src/domain/tokens/ports.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { SessionState } from '../../src/domain/tokens/session-state.ts';
import { test, type Test } from 'tap';
import { anAccount } from './client.ts';
import { makeMemoryTokenStore } from './memory-token-store.ts';
import { openPostgres } from './open-postgres.ts';
import { aUser, LIFETIMES, ROOM } from './token.ts';
import { testDatabase } from './postgres.ts';

/** Every store over a new database. */
export async function testRecords(t: Test) {
  const { url } = await testDatabase(t);
  const postgres = openPostgres(t, { url, pool: 4 });
  const { prisma } = postgres;
  const users = makeUserStore(postgres);
  const tokens = makeTokenStore(postgres, LIFETIMES);

  return {
    url,
    postgres,
    users,
    tokens,
    revocations: makeRevocationStore(postgres),
    changes: makeChangedUsers(postgres),
    writer: makeStateWriter(prisma),

    /** A user with one session in this state. */
    aSession: (state: SessionState = initialState(1_000_000, 'client')) => {
      const { username, name, email } = anAccount();
      const session = { name: 'a device', createdAt: Date.now(), state };
      return users.addWithSession(
        { username, name, email, passwordHash: new Uint8Array(96), locale: null },
        session,
      );
    },

    stateOf: async (tokenId: number): Promise<SessionState | undefined> =>
      (await tokens.find(tokenId))?.record.state,
  };
}

interface Records {
  tokens: TokenStore;
  revocations: RevocationStore;
  writer: StateWriter;
  /** A user with one session in this state. */
  aSession: (state?: SessionState) => Promise<TokenKey>;
  stateOf: (tokenId: number) => Promise<SessionState | undefined>;
}

/** The same stores over maps, for tests of the domain. */
export function memoryRecords(): Records {
  const people = Array.from({ length: 50 }, (_, i) => aUser({ id: i + 1 }));
  const tokens = makeMemoryTokenStore(people);
  let userId = 0;
  return {
    tokens,
    revocations: tokens,
    writer: tokens,
    aSession: async (state = initialState(1_000_000, 'client')) => {
      const owner = ++userId;
      const session = { name: 'a device', createdAt: Date.now(), state };
      const added = await tokens.addSession(owner, session, ROOM);
      return { userId: owner, tokenId: added?.id ?? 0 };
    },
    stateOf: async (tokenId) => (await tokens.find(tokenId))?.record.state,
  };
}

/** Runs a contract with the records in PostgreSQL and with those in memory. */
export function onEveryRecords(sentence: string, run: (t: Test, records: Records) => Promise<void>): void {
  test(`PostgreSQL: ${sentence}`, async (t) => {
    await run(t, await testRecords(t));
  });
  test(`in memory: ${sentence}`, (t) => run(t, memoryRecords()));
}
