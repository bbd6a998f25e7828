import type { UserStatus } from '../../domain/feed/ports.ts';
import type { ChangedUser, ChangedUsers } from '../../domain/tokens/ports.ts';
import type { User } from '../../domain/user.ts';
import { Prisma } from '../../generated/prisma/client.ts';
import type { Postgres } from './client.ts';
import { IS_STANDBY, mapDatabaseErrors, refuseStandby } from './errors.ts';
import { prepare } from './prepared.ts';
import { statusSince } from './rows.ts';
import { readTimePage, timePage } from './time-page.ts';

/** The users whose change the fast store and the feed may lack. Each query has its own index. */
export function makeChangedUsers({ prisma, run }: Pick<Postgres, 'prisma' | 'run'>): ChangedUsers {
  return {
    changedSince: (ago, limit, after) =>
      mapDatabaseErrors(async () => {
        const { items, last } = await readTimePage(run, CHANGED_SINCE, after ?? { ago }, limit, ago);
        const changes = (items as Listed[]).map(toChange);
        const end = changes[limit - 1];
        return { changes, next: end ? { at: last, id: end.user.id } : null };
      }),

    pendingChanges: (limit, after = 0) =>
      mapDatabaseErrors(async () => {
        const rows = await run<{ isStandby: boolean; items: string | null }>(PENDING_CHANGES, [after, limit]);
        const [{ items }] = refuseStandby(rows);
        return (JSON.parse(items ?? '[]') as Listed[]).map(toChange);
      }),

    settleChanges: (users) =>
      mapDatabaseErrors(async () => {
        if (users.length === 0) return;
        const [ids, versions] = [users.map(({ id }) => BigInt(id)), users.map(({ version = 0 }) => version)];
        await prisma.$executeRaw`
          WITH locked AS MATERIALIZED (
            SELECT users.id FROM users JOIN unnest(${ids}::bigint[], ${versions}::int[]) AS set (id, version)
              USING (id, version)
            WHERE pending FOR NO KEY UPDATE OF users SKIP LOCKED
          )
          UPDATE users SET pending = false FROM locked WHERE users.id = locked.id`;
      }),
  };
}

/** A user and what has changed, as a list: the names of its members would cost PostgreSQL a third more. */
type Listed = [
  id: number,
  username: string,
  name: string,
  createdAt: number,
  disabled: boolean,
  emailVerified: boolean,
  roles: string[],
  version: number,
  pending: boolean,
  status: UserStatus | null,
];
const COLUMNS = `username, name, created_at, disabled_at, enabled_at, deleted_at, email_verified_at, roles, version, pending`;
const item = (since: string) => `json_build_array(id, username, name,
    (extract(epoch FROM created_at) * 1000)::bigint, disabled_at IS NOT NULL, email_verified_at IS NOT NULL, roles,
    version, pending,
    ${statusSince(Prisma.raw(since)).text})`;

function toChange([
  id,
  username,
  name,
  createdAt,
  disabled,
  emailVerified,
  roles,
  version,
  pending,
  status,
]: Listed): ChangedUser {
  const user: Required<User> = { id, username, name, createdAt, disabled, emailVerified, roles, version };
  return { user, status, isPending: pending };
}

export const CHANGED_SINCE = timePage(
  'users',
  'changed_at',
  COLUMNS,
  item(`statement_timestamp() - $3::float8 * interval '1 millisecond'`),
);

/**
 * A pending change may be of any age, and an earlier one of the same user may not have been told: an hour is more
 * than an outage lasts in which nobody finishes a change. Before that, the status was told.
 */
export const PENDING_CHANGES = prepare(`
  SELECT ${IS_STANDBY.text}, json_agg(${item(`changed_at - interval '1 hour'`)} ORDER BY id)::text AS items
  FROM (SELECT id, changed_at, ${COLUMNS} FROM users WHERE pending AND id > $1 ORDER BY id LIMIT $2) AS page`);
