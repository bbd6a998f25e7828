import type { Audit } from '../audit/event.ts';
import type { Sourced } from '../audit/source.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import { AuthError } from '../errors.ts';
import { fieldError } from '../identifiers.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { Turn } from '../passwords/bulkhead.ts';
import { parsePassword, requireUnguessable } from '../passwords/policy.ts';
import type { NewPasswordPorts } from '../passwords/ports.ts';
import type { Account, AccountRequest, AccountStore } from './account.ts';
import { parseFields } from './account-fields.ts';
import type { NewNames } from './new-names.ts';
import type { UserStore } from './ports.ts';
import { publishCreated } from './publish-created.ts';
import { refuseTaken } from './taken.ts';

interface CreateAccountPorts extends NewPasswordPorts {
  accounts: Pick<AccountStore, 'add'>;
  feed: Pick<RevocationFeed, 'publishChanges'>;
  users: Pick<UserStore, 'findTaken'>;
  /** A hash that no password opens, which takes the work of a real one. */
  hashThatNothingOpens: () => Uint8Array;
  newNames: NewNames;
  /** Encrypts the secret of an authenticator app. */
  sealTotp: (userId: number, secret: Uint8Array) => { keyId: string; secret: Uint8Array };
  audit: Audit;
}

/**
 * Adds an account for a registered service, or for a seed, also while signup is off. It has no session.
 * @throws AuthError `validation_failed`, `password_refused`, `username_taken`, `email_taken`,
 * `external_id_taken`, `overloaded`, `unavailable`
 */
export function makeCreateAccount(ports: CreateAccountPorts) {
  const { accounts, users, hasher, bulkhead, audit } = ports;

  return async function createAccount(
    request: AccountRequest,
    turn: Turn,
    /** null for a seed, which leaves one event for all. */
    service: Pick<ServiceIdentity, 'serviceId'> | null,
    from: Sourced,
  ): Promise<Account> {
    const { password, totpSecret, roles = [], ...fields } = parseAccountRequest(request, ports);
    const hash = async () =>
      password === undefined
        ? ports.hashThatNothingOpens()
        : bulkhead.run('known', turn, () => hasher.hash(password));
    // Checked first only to save a hash; the unique constraints decide.
    refuseTaken(await users.findTaken(fields));
    const account = await accounts.add({
      ...fields,
      roles,
      passwordHash: await hash(),
      ...(totpSecret && { sealTotp: (userId: number) => ports.sealTotp(userId, totpSecret) }),
    });
    if (service) {
      const { serviceId } = service;
      audit({ event: 'user.created_by_client', userId: account.id, serviceId }, from);
    }
    await publishCreated(ports.feed, account);
    return account;
  };
}

export type CreateAccount = ReturnType<typeof makeCreateAccount>;

const INVITED = 'must not be true with a password, or for a disabled account';

/** The rules for names and passwords. */
export type AccountRules = Pick<CreateAccountPorts, 'newNames' | 'passwordMinLength' | 'isCommonPassword'>;

/** The request, its names in canonical form. @throws AuthError `validation_failed`, `password_refused` */
export function parseAccountRequest(
  request: AccountRequest,
  { newNames, passwordMinLength, isCommonPassword }: AccountRules,
): AccountRequest {
  const { values, errors } = parseFields(request, newNames);
  const { password } = request;
  const parsed = password === undefined ? null : parsePassword(password, passwordMinLength);
  if (parsed?.ok === false) errors.push(fieldError('/password', parsed));
  // An invitation brings the first password, and a disabled account wants no mail.
  if (values.invite === true && (password !== undefined || values.disabled === true))
    errors.push({ path: '/invite', code: 'not_allowed', message: INVITED });
  if (errors.length > 0) throw new AuthError('validation_failed', { errors });
  if (!parsed?.ok) return values;
  requireUnguessable(parsed.value, values, isCommonPassword);
  return { ...values, password: parsed.value };
}
