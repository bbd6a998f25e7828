import Type, { type Static } from 'typebox';
import type { Account } from '../../domain/users/account.ts';
import { userBody, UserSchema } from '../token-pair-response.ts';
import { IdText, parseId } from '../schemas.ts';

export const Disabled = Type.Boolean({
  description: 'Whether the account is disabled: its tokens have ended, and its logins are refused',
  examples: [false],
});

export const EmailVerified = Type.Boolean({
  description: 'Whether a service has verified that the e-mail address is the user’s',
  examples: [true],
});

/** What services see of an account. */
export const AccountSchema = Type.Object(
  {
    ...UserSchema.properties,
    disabled: Disabled,
    email_verified: EmailVerified,
  },
  { title: 'Account', description: 'An account, as services see it', additionalProperties: false },
);

export function accountBody(account: Account) {
  const { disabled, emailVerified } = account;
  return { ...userBody(account), disabled, email_verified: emailVerified };
}

/** The id in the path of an account's operations. */
export const AccountParams = Type.Object({ id: IdText });

/** @throws AuthError `validation_failed` beyond 2^53 - 1 */
export function accountId({ id }: Static<typeof AccountParams>): number {
  return parseId(id, 'params/id');
}
