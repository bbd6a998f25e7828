import type { Environment } from '../../src/config/config.ts';
import { systemClock } from '../../src/runtime/system-clock.ts';
import { disableAccount } from './accounts.ts';
import type { TestApp } from './app.ts';
import {
  anAccount,
  call,
  claimsOf,
  createLongLived,
  logIn,
  refresh,
  signUp,
  verify,
  type Pair,
} from './client.ts';
import { sql } from './sql.ts';

/** The session limit in these tests. A victim has exactly this many. */
const SESSIONS = 3;

/** Settings for the endings: a theft is found at once, and one more login ends the oldest session. */
export const ENDINGS_ENVIRONMENT: Environment = {
  REFRESH_RETRY_WINDOW: '0',
  MAX_SESSIONS_PER_USER: String(SESSIONS),
};

/** A user with a session that is about to end, and other tokens that an attacker may want to end or extend. */
export interface Victim {
  userId: number;
  username: string;
  /** The newest pair of the calling session. `superseded` is the refresh token before it. */
  caller: Pair;
  superseded: string;
  callerId: number;
  otherId: number;
  /** The session from which the owner ends the caller's. */
  spare: Pair;
  llt: { id: number; longlived_token: string };
}

export async function aVictim(target: TestApp): Promise<Victim> {
  const account = anAccount();
  const first = await signUp(target, account);
  // Refreshed before the others log in, so that its session is the least recently used one.
  const caller = (await refresh(target, first.refresh_token)).json<Pair>();
  await verify(target, caller.access_token);
  const other = await logIn(target, account.username);
  const spare = await logIn(target, account.username);
  const llt = await createLongLived(target, spare.access_token);
  return {
    userId: first.user.id,
    username: account.username,
    caller,
    superseded: first.refresh_token,
    callerId: Number(claimsOf(caller.access_token).sid),
    spare,
    otherId: Number(claimsOf(other.access_token).sid),
    llt,
  };
}

/** Ends the caller's session, or at least its access token. Resolves with the answer. */
export type Ending = (target: TestApp, victim: Victim, clock: ShiftedClock) => Promise<void>;

const answered = async (status: number, asking: ReturnType<typeof call>) => {
  const { statusCode, body } = await asking;
  if (statusCode !== status) throw new Error(`the ending was answered ${statusCode}: ${body}`);
};

/** Endings that are committed to the record. */
export const RECORDED_ENDINGS: Record<string, Ending> = {
  logout: (target, { caller }) =>
    answered(200, call(target, 'DELETE /api/auth', { token: caller.access_token })),
  'logout by id': (target, { spare, callerId }) =>
    answered(200, call(target, `DELETE /api/auth/${callerId}`, { token: spare.access_token })),
  'log out everywhere': (target, { spare }) =>
    answered(200, call(target, 'DELETE /api/user/tokens', { token: spare.access_token })),
  theft: (target, { superseded }) => answered(401, refresh(target, superseded)),
  replacement: async (target, { username }) => {
    await logIn(target, username);
  },
  'disabling the user': async ({ databaseUrl }, { username }) => {
    // In the record only: no replica has set a tombstone yet.
    await disableAccount(databaseUrl, { username });
  },
};

/** Endings of the access token alone. */
export const TOKEN_ENDINGS: Record<string, Ending> = {
  expiry: (_target, _victim, clock) => {
    clock.shift += 3_600_000;
    return Promise.resolve();
  },
  supersession: (target, { caller }) => answered(200, refresh(target, caller.refresh_token)),
};

/** The system's clock plus `shift` milliseconds. */
export function aShiftedClock() {
  const clock = { ...systemClock, shift: 0, now: () => systemClock.now() + clock.shift };
  return clock;
}

export type ShiftedClock = ReturnType<typeof aShiftedClock>;

/** The user's valid tokens in the record. An operation without effect does not change them. */
export async function liveTokens({ databaseUrl }: TestApp, { userId }: Victim): Promise<number[]> {
  const rows = await sql<{ id: string }>(
    databaseUrl,
    'SELECT id FROM tokens WHERE user_id = $1 AND revoked_at IS NULL ORDER BY id',
    [userId],
  );
  return rows.map(({ id }) => Number(id));
}

/** What an operation may change: the valid tokens, the account's row, its second factors, and the mails that it wants. */
export async function effectsOn(target: TestApp, victim: Victim): Promise<unknown[]> {
  const rows = await sql<{ row: unknown }>(
    target.databaseUrl,
    `SELECT to_jsonb(users) - 'disabled_at' AS row FROM users WHERE id = $1`,
    [victim.userId],
  );
  const mails = await sql<{ kind: string }>(
    target.databaseUrl,
    'SELECT kind FROM wanted_mails WHERE user_id = $1',
    [victim.userId],
  );
  const factors = await sql(
    target.databaseUrl,
    `SELECT encode(secret, 'hex'), confirmed_at FROM factors WHERE user_id = $1
     UNION ALL SELECT encode(code_hash, 'hex'), NULL FROM recovery_codes WHERE user_id = $1 ORDER BY 1`,
    [victim.userId],
  );
  return [await liveTokens(target, victim), ...rows.map(({ row }) => row), ...factors, ...mails];
}
