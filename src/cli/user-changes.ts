import { setTimeout as sleep } from 'node:timers/promises';
import { randomBytes } from 'node:crypto';
import type { AccountKey } from '../domain/identifiers.ts';
import { loadSettings } from '../config/config.ts';
import { liveIds } from '../domain/tokens/finish-endings.ts';
import type { Lifetimes } from '../domain/tokens/claims.ts';
import type { TokenRecord } from '../domain/tokens/token-record.ts';
import type { AccountChanges, AccountStore, ChangedAccount } from '../domain/users/account.ts';
import { parseRoles } from '../domain/roles.ts';
import { makeAccountStore } from '../infra/postgres/account-store.ts';
import { NO_FACTOR_SETTINGS } from '../infra/postgres/factor-changes.ts';
import { makeFactorStore } from '../infra/postgres/factor-store.ts';
import { nameHashing, NEEDS_SECRET, NO_NAMES } from './account-settings.ts';
import { UsageError } from './arguments.ts';
import { CommandError, type Act, type Facts, type Outcome } from './command.ts';
import { confirm, requireConfirmation } from './confirm.ts';
import { tokenLifetimes } from './token-lifetimes.ts';
import { hashOneTimeToken, newResetToken } from '../domain/passwords/one-time-token.ts';
import { issueReset } from '../infra/postgres/password-resets.ts';

/** Milliseconds. Each running replica tells the fast store of pending changes every second, so this is ample. */
const SETTLE_TIMEOUT = 10_000;

/** Ended tokens stay ended; the user logs in again. */
export const enable: Act = async (postgres, user) => {
  const changed = await change(makeAccountStore(postgres, NO_NAMES), user, { disabled: false });
  if (!changed) return null;
  const userId = changed.account.id;
  // Nothing to wait for: the next login finds the account enabled.
  return { result: { user: userId, ended: 0, done: true }, text: 'enabled', audited: { userId } };
};

/**
 * Disables the account in the record at once. Its tokens are refused as soon as a replica has set their tombstones, so
 * this waits for that.
 */
export const disable: Act = async (postgres, user, { env, note }) => {
  const lifetimes = tokenLifetimes(env);
  const accounts = makeAccountStore(postgres, NO_NAMES);
  const changed = await change(accounts, user, { disabled: true });
  return changed && settleEndings({ accounts, lifetimes, note }, endingsOf(changed), 'disabled');
};

/** Deletes the account in the record at once, and waits as `disable`. */
export const deleteUser: Act = async (postgres, user, { env, values, note }) => {
  requireConfirmation('user delete', values.yes);
  const { DELETED_NAME_GRACE: grace } = loadSettings(env, 'DELETED_NAME_GRACE');
  const lifetimes = tokenLifetimes(env);
  const hashing = nameHashing(env);
  if (!hashing) throw new CommandError(`to reserve the names, ${NEEDS_SECRET}`);
  const accounts = makeAccountStore(postgres, NO_NAMES);
  if (!(await accounts.find(user))) return null;
  if (!values.yes && !(await confirm('Delete the account? It cannot be brought back.')))
    throw new CommandError('Nothing has changed');
  const deleted = await accounts.delete(user, Date.now(), {
    grace: grace * 1000,
    hashes: (names) => hashing.newest(names).map(([, hash]) => hash),
  });
  return deleted && settleEndings({ accounts, lifetimes, note }, endingsOf(deleted), 'deleted');
};

/** `latchkey user factors NAME --remove`: removes the factors in the record at once, and waits as `disable`. */
export const removeFactors: Act = async (postgres, user, { env, values, note }) => {
  requireConfirmation('user factors --remove', values.yes);
  const lifetimes = tokenLifetimes(env);
  const accounts = makeAccountStore(postgres, NO_NAMES);
  const account = await accounts.find(user);
  if (!account) return null;
  const question = 'Remove every second factor, and end all tokens? Whoever knows the password then logs in.';
  if (!values.yes && !(await confirm(question))) throw new CommandError('Nothing has changed');
  const factors = makeFactorStore(postgres, {
    ...NO_FACTOR_SETTINGS,
    notices: loadSettings(env, 'NOTICES').NOTICES,
  });
  const removal = await factors.removeAll({ id: account.id }, Date.now());
  if (!removal) return null;
  const { factors: removed } = removal;
  note({ removed });
  const settled = await settleEndings({ accounts, lifetimes, note }, removal, `${removed} factors removed`);
  return { ...settled, result: { ...settled.result, removed } };
};

/** Replaces the roles in the record at once, and waits until a replica has told the fast store. */
export const setRoles: Act = async (postgres, user, { values, note }) => {
  if (values.set === undefined) throw new UsageError("user roles needs --set A,B; --set '' removes all");
  const roles = parseRoles(values.set === '' ? [] : values.set.split(','));
  if (!roles.ok) throw new CommandError(`roles ${roles.message}`);
  const accounts = makeAccountStore(postgres, NO_NAMES);
  const changed = await change(accounts, user, { roles: roles.value });
  if (!changed) return null;
  const { id: userId } = changed.account;
  note({ userId });
  const done = await settled(async () => (await accounts.pending(userId)).changes === 0);
  const shown = roles.value.length === 0 ? 'none' : roles.value.join(', ');
  const doubt = done ? '' : '; no running replica has confirmed that it serves them';
  return {
    result: { user: userId, roles: roles.value, done },
    text: `roles: ${shown}${doubt}`,
    isWell: done,
    audited: { done },
  };
};

function change(accounts: AccountStore, user: AccountKey, changes: AccountChanges) {
  return accounts.change(user, changes, Date.now());
}

interface EndingParts {
  accounts: AccountStore;
  lifetimes: Lifetimes;
  note: (facts: Facts) => void;
}

interface Endings {
  userId: number;
  ended: TokenRecord[];
}

function endingsOf({ account, ended }: ChangedAccount): Endings {
  return { userId: account.id, ended };
}

async function settleEndings(
  { accounts, lifetimes, note }: EndingParts,
  { userId, ended: records }: Endings,
  what: string,
): Promise<Outcome> {
  // Expired ones have ended in the record too, but were good for nothing.
  const ended = liveIds(records, Date.now(), lifetimes).length;
  note({ userId, ended });
  const done = await settled(async () => (await accounts.pending(userId)).revocations === 0);
  const doubt = done ? '' : '; no running replica has confirmed that they are refused';
  return {
    result: { user: userId, ended, done },
    text: `${what}, ${ended} tokens ended${doubt}`,
    isWell: done,
    audited: { done },
  };
}

/** Waits for the replicas. @returns whether they were done in time. */
async function settled(isDone: () => Promise<boolean>): Promise<boolean> {
  const deadline = performance.now() + SETTLE_TIMEOUT;
  for (;;) {
    if (await isDone()) return true;
    if (performance.now() >= deadline) return false;
    await sleep(100);
  }
}

/**
 * `latchkey user reset`: makes a reset token in place of an earlier one, and shows it once.
 * @returns null if there is no such user.
 */
export const resetUser: Act = async (postgres, user, { env }) => {
  const { PASSWORD_RESET_TTL: lifetime } = loadSettings(env, 'PASSWORD_RESET_TTL');
  const token = newResetToken(randomBytes);
  const issued = await issueReset(postgres, user, hashOneTimeToken(token), lifetime);
  if (!issued) return null;
  const { userId, disabled } = issued;
  const expiresAt = new Date(issued.expiresAt).toISOString();
  return {
    result: { user: userId, reset_token: token, expires_at: expiresAt, disabled },
    text: [
      `reset_token  ${token}`,
      `expires_at   ${expiresAt}`,
      'The token will not be shown again. It sets a new password once: POST /api/auth/password-reset.',
      ...(disabled ? ['The account is disabled, and a reset does not enable it.'] : []),
    ].join('\n'),
    audited: { userId, disabled },
  };
};
