import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import { AuthError } from '../errors.ts';
import { externalIdErrors, fieldError } from '../identifiers.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { Turn } from '../passwords/bulkhead.ts';
import { parsePassword, requireUnguessable } from '../passwords/policy.ts';
import type { NewPasswordPorts } from '../passwords/ports.ts';
import type { Account, AccountStore } from './account.ts';
import { parseNames, type NewNames } from './new-names.ts';
import type { UserStore } from './ports.ts';
import { publishCreated } from './publish-created.ts';
import { roleErrors } from '../roles.ts';
import { refuseTaken } from './taken.ts';

interface CreateAccountPorts extends NewPasswordPorts {
  accounts: Pick<AccountStore, 'add'>;
  feed: Pick<RevocationFeed, 'publishChanges'>;
  users: Pick<UserStore, 'findTaken'>;
  /** A hash that no password opens, which takes the work of a real one. */
  hashThatNothingOpens: () => Uint8Array;
  newNames: NewNames;
  audit: Audit;
}

export interface NewAccountRequest {
  username: string;
  name: string;
  email: string;
  /** Without one, only a reset opens the account. */
  password?: string;
  roles?: string[];
  externalId?: string;
}

/**
 * Adds an account for a registered service, also while signup is off. It has no session.
 * @throws AuthError `validation_failed`, `password_refused`, `username_taken`, `email_taken`,
 * `external_id_taken`, `overloaded`, `unavailable`
 */
export function makeCreateAccount(ports: CreateAccountPorts) {
  const { accounts, users, hasher, bulkhead, audit } = ports;

  return async function createAccount(
    request: NewAccountRequest,
    turn: Turn,
    { serviceId }: ServiceIdentity,
    from: Sourced,
  ): Promise<Account> {
    const { password, roles = [], ...names } = parseRequest(request, ports);
    const hash = async () =>
      password === undefined
        ? ports.hashThatNothingOpens()
        : bulkhead.run('known', turn, () => hasher.hash(password));
    // Checked first only to save a hash; the unique constraints decide.
    refuseTaken(await users.findTaken(names));
    const account = await accounts.add({ ...names, roles, passwordHash: await hash() });
    audit({ event: 'user.created_by_client', userId: account.id, serviceId }, from);
    await publishCreated(ports.feed, account);
    return account;
  };
}

export type CreateAccount = ReturnType<typeof makeCreateAccount>;

function parseRequest(
  request: NewAccountRequest,
  { newNames, passwordMinLength, isCommonPassword }: CreateAccountPorts,
): NewAccountRequest {
  const { password, roles, externalId } = request;
  const { values: names, errors } = parseNames(request, newNames);
  const parsed = password === undefined ? null : parsePassword(password, passwordMinLength);
  if (parsed?.ok === false) errors.push(fieldError('/password', parsed));
  errors.push(...roleErrors(roles), ...externalIdErrors(externalId));
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  const account = { ...names, ...(roles && { roles }), ...(externalId !== undefined && { externalId }) };
  if (!parsed?.ok) return account;
  requireUnguessable(parsed.value, names, isCommonPassword);
  return { ...account, password: parsed.value };
}
