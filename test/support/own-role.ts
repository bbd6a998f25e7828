import { randomBytes } from 'node:crypto';
import type { Test } from 'tap';
import { testDatabase, withClient } from './postgres.ts';

/** A database that belongs to a role of its own. Both are dropped at the test's teardown. */
export interface OwnRole {
  /** The database, as this role. */
  url: string;
  role: string;
  /** Statements as the superuser, in the database. */
  administer(...statements: string[]): Promise<void>;
}

/** Creates the role, and an empty database. */
export async function makeOwnRole(t: Test): Promise<OwnRole> {
  const role = `lk_role_${randomBytes(8).toString('hex')}`;
  let server = '';
  // Registered first, so that it runs after the database is dropped.
  t.teardown(() => withClient(server, (client) => client.query(`DROP ROLE ${role}`)));
  const { url } = await testDatabase(t, { migrated: false });
  const administer = (...statements: string[]) =>
    withClient(url, async (client) => {
      for (const statement of statements) await client.query(statement);
    });
  server = new URL('/postgres', url).href;
  await administer(
    `CREATE ROLE ${role} LOGIN PASSWORD '${role}'`,
    `ALTER DATABASE ${new URL(url).pathname.slice(1)} OWNER TO ${role}`,
  );
  const own = new URL(url);
  own.username = own.password = role;
  return { url: own.href, role, administer };
}
