import type { AccountKey } from '../identifiers.ts';
import type { Audit } from '../audit/event.ts';
import { snakeCase } from '../audit/to-entry.ts';
import type { Sourced } from '../audit/source.ts';
import type { RegisteredServices } from '../services/authenticate.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { ResetIssuer } from '../passwords/password-store.ts';
import { hashOneTimeToken, newResetToken } from '../passwords/one-time-token.ts';
import { liveIds, type FinishEndings } from '../tokens/finish-endings.ts';
import type { Lifetimes } from '../tokens/claims.ts';
import type { TokenStore } from '../tokens/ports.ts';
import type { TokenStateStore } from '../tokens/token-state-store.ts';
import {
  type AccountFilter,
  endsAll,
  type Account,
  type AccountChanges,
  type AccountStore,
  type Address,
  type ChangedAccount,
  type Reservation,
} from './account.ts';
import type { FinishUserChange } from './finish-user-change.ts';
import { parseFields } from './account-fields.ts';
import type { NewNames } from './new-names.ts';
import type { AccountWithTokens, TokenSummary } from './account-with-tokens.ts';

interface ManageAccountsPorts {
  accounts: Pick<AccountStore, 'find' | 'address' | 'page' | 'change' | 'delete'>;
  tokens: Pick<TokenStore, 'revokeAll'>;
  services: Pick<RegisteredServices, 'admitAgain'>;
  accountWithTokens: AccountWithTokens;
  issueReset: ResetIssuer;
  tokenStates: Pick<TokenStateStore, 'now'>;
  finishEndings: FinishEndings;
  finishUserChange: FinishUserChange;
  newNames: NewNames;
  reservation: Reservation;
  randomBytes: (size: number) => Buffer;
  lifetimes: Lifetimes;
  clock: Clock;
  audit: Audit;
}

/** A reset token, to be shown once. */
export interface NewReset {
  resetToken: string;
  /** Milliseconds since 1970. */
  expiresAt: number;
}

/**
 * What registered services may do with accounts. Each change takes effect in one commit, and is answered after the fast
 * store has it. A repeat is safe.
 */
export function makeManageAccounts(ports: ManageAccountsPorts) {
  const { accounts, tokenStates, lifetimes, clock, audit } = ports;

  async function get(id: number): Promise<Account> {
    return existing(await accounts.find({ id }));
  }

  /** Also if nothing has changed: an earlier try may have failed here. */
  async function finish({ account, status, before }: ChangedAccount): Promise<void> {
    if (before > 0) await ports.finishEndings(account.id, before);
    await ports.finishUserChange(account, status);
  }

  return {
    /** @returns null if there is none. @throws AuthError `unavailable` */
    find: (key: AccountKey): Promise<Account | null> => accounts.find(key),

    /** @throws AuthError `user_unknown`, `unavailable` */
    get,

    /** @throws AuthError `user_unknown`, `unavailable` */
    address: async (id: number): Promise<Address> => existing(await accounts.address(id)),

    /** Accounts with ids above `after`, in their order, of those that the filter takes. @throws AuthError `unavailable` */
    page: (after: number, limit: number, filter?: AccountFilter): Promise<Account[]> =>
      accounts.page(after, limit, filter),

    /**
     * Disabling ends all tokens.
     * @param service holds `users.write`.
     * @throws AuthError `right_missing`, `validation_failed`, `user_unknown`, `username_taken`, `email_taken`,
     * `external_id_taken`, `rate_limited`, `unavailable`
     */
    async change(
      id: number,
      request: AccountChanges,
      service: ServiceIdentity,
      from: Sourced,
    ): Promise<Account> {
      // First of all, so that the refusal depends on nothing but the request.
      if (namesMailbox(request)) await ports.services.admitAgain(service, 'users.reset');
      const { serviceId } = service;
      const changes = parseChanges(request, ports.newNames);
      // Fails here if the fast store is down, before anything is written.
      await tokenStates.now();
      const at = clock.now();
      const changed = existing(await accounts.change({ id }, changes, at));
      if (changed.isChanged) {
        const fields = Object.keys(changes).map(snakeCase).join(',');
        const tokenIds = liveIds(changed.ended, at, lifetimes);
        const { disabled } = changed.account;
        audit({ event: 'user.changed_by_client', userId: id, serviceId, fields, disabled, tokenIds }, from);
      }
      await finish(changed);
      return changed.account;
    },

    /** @throws AuthError `user_unknown` (also if it is deleted already), `rate_limited`, `unavailable` */
    async delete(id: number, { serviceId }: ServiceIdentity, from: Sourced): Promise<void> {
      await tokenStates.now();
      const at = clock.now();
      const deleted = await accounts.delete({ id }, at, ports.reservation);
      // An earlier try may have failed after its commit.
      if (!deleted) await ports.finishEndings(id, 0);
      const changed = existing(deleted);
      const tokenIds = liveIds(changed.ended, at, lifetimes);
      audit({ event: 'user.deleted_by_client', userId: id, serviceId, tokenIds }, from);
      await finish(changed);
    },

    /** The live tokens. @throws AuthError `user_unknown`, `unavailable` */
    async listTokens(id: number): Promise<TokenSummary[]> {
      const user = await get(id);
      return (await ports.accountWithTokens({ user, tokenId: 0 })).tokens;
    },

    /**
     * Ends all tokens with the reason `admin`.
     * @returns how many live ones this call has ended.
     * @throws AuthError `user_unknown`, `rate_limited`, `unavailable`
     */
    async endTokens(id: number, { serviceId }: ServiceIdentity, from: Sourced): Promise<number> {
      await get(id);
      const at = clock.now();
      const { ended, before } = await ports.tokens.revokeAll(id, endsAll(at));
      const tokenIds = liveIds(ended, at, lifetimes);
      if (ended.length > 0)
        audit({ event: 'user.logged_out_by_client', userId: id, serviceId, tokenIds }, from);
      await ports.finishEndings(id, before ?? 0);
      return tokenIds.length;
    },

    /**
     * Makes a reset token in place of an earlier one that was not mailed.
     * @throws AuthError `user_unknown`, `rate_limited`, `unavailable`
     */
    async resetPassword(id: number, { serviceId }: ServiceIdentity, from: Sourced): Promise<NewReset> {
      const resetToken = newResetToken(ports.randomBytes);
      const { expiresAt } = existing(await ports.issueReset({ id }, hashOneTimeToken(resetToken)));
      audit({ event: 'user.reset_by_client', userId: id, serviceId }, from);
      return { resetToken, expiresAt };
    },
  };
}

export type ManageAccounts = ReturnType<typeof makeManageAccounts>;

/** @throws AuthError `user_unknown` */
function existing<Found>(found: Found | null): Found {
  if (found === null) throw new AuthError('user_unknown');
  return found;
}

/**
 * Whether the change says where the account's mails go, or that they go to its owner. Whoever names the mailbox can ask
 * there for a reset token, as anyone can. The stored address counts too: a rule that compared the two would answer
 * guesses.
 */
function namesMailbox({ email, emailVerified }: AccountChanges): boolean {
  return email !== undefined || emailVerified === true;
}

/** @throws AuthError `validation_failed` */
function parseChanges(request: AccountChanges, newNames: NewNames): AccountChanges {
  const { values, errors } = parseFields(request, newNames);
  if (Object.keys(request).length === 0)
    errors.push({ path: '', code: 'required', message: 'must have a field that changes' });
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  return values;
}
