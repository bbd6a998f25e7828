import { setTimeout as sleep } from 'node:timers/promises';
import { parseUsername } from './domain/users/identifiers.ts';
import { makePostgres } from './infra/postgres/client.ts';
import { disableUser, enableUser, pendingOf } from './infra/postgres/user-status.ts';

/** Every replica sets the tombstones each second; with one running this is plenty. In milliseconds. */
const PATIENCE = 10_000;

export interface UserChange {
  userId: number;
  /** Sessions and long-lived tokens that were ended. */
  ended: number;
  /** Whether every one of them is known to be refused already. */
  done: boolean;
}

/**
 * `latchkey user disable|enable NAME`. The record says so at once; what tokens were ended is refused as soon as a
 * replica has set their tombstones, which is waited for.
 * @returns null when there is no such user.
 * @throws AuthError `unavailable`
 */
export async function changeUser(
  action: 'disable' | 'enable',
  name: string,
  database: { url: string; timeout: number },
): Promise<UserChange | null> {
  const username = parseUsername(name);
  if (!username.ok) return null;
  const postgres = makePostgres({ ...database, pool: 1 });
  const { prisma } = postgres;
  try {
    if (action === 'enable') {
      const enabled = await enableUser(prisma, username.value);
      return enabled && { ...enabled, done: true };
    }
    const disabled = await disableUser(prisma, username.value);
    if (!disabled) return null;
    const deadline = performance.now() + PATIENCE;
    let pending = await pendingOf(prisma, disabled.userId);
    while (pending > 0 && performance.now() < deadline) {
      await sleep(100);
      pending = await pendingOf(prisma, disabled.userId);
    }
    return { ...disabled, done: pending === 0 };
  } finally {
    await postgres.close();
  }
}
