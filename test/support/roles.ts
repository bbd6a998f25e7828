import type { Test } from 'tap';
import type { Manager } from './accounts.ts';
import type { TestApp } from './app.ts';
import { verify } from './client.ts';
import { sql } from './sql.ts';

/** Changes a user's roles on record only. The renewal of each second tells the fast store and the feed. */
export async function recordRoles(databaseUrl: string, userId: number, roles: string[]): Promise<void> {
  await sql(
    databaseUrl,
    'UPDATE users SET roles = $2, version = version + 1, changed_at = clock_timestamp() WHERE id = $1',
    [userId, roles],
  );
}

/** @throws Error unless it is answered 200. */
export async function changeRoles(manager: Manager, userId: number, roles: string[]): Promise<void> {
  const { statusCode, body } = await manager(`PATCH /api/users/${userId}`, { roles });
  if (statusCode !== 200) throw new Error(`no change of roles: ${statusCode} ${body}`);
}

/** Asserts what verify says of the user's roles. */
export async function assertRoles(t: Test, target: TestApp, token: string, roles: string): Promise<void> {
  const { statusCode, headers } = await verify(target, token);
  t.equal(statusCode, 200);
  t.equal(headers['x-auth-roles'], roles);
}
