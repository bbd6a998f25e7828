import Type, { type Static, type TSchema } from 'typebox';
import type { Account } from '../../domain/users/account.ts';
import type { FieldUse, JsonOf } from '../../domain/users/account-fields.ts';
import { userBody, UserSchema } from '../token-pair-response.ts';
import { IdText, NullableLocale, nullable, parseId } from '../schemas.ts';

export const Disabled = Type.Boolean({
  description: 'Whether the account is disabled: its tokens have ended, and its logins are refused',
  examples: [false],
});

export const EmailVerified = Type.Boolean({
  description: 'Whether the user, or a service for them, has verified the e-mail address',
  examples: [true],
});

const EmailDeliverable = Type.Boolean({
  description:
    'False if a mailer has reported that the e-mail address cannot be reached, until it is proved, changed or marked as verified',
  readOnly: true,
  examples: [true],
});

const VISIBLE_ASCII = { minLength: 1, maxLength: 128, pattern: '^[!-~]+$' };

export const ExternalId = Type.String({
  description: 'The id that another system gave the user. It is unique, and compared byte by byte',
  shown: VISIBLE_ASCII,
  examples: ['crm-4711'],
});

export const NullableExternalId = nullable(ExternalId, VISIBLE_ASCII);

/** The properties of a body that takes the fields of an operation: all, and no others. */
export type FieldSchemas<Use extends FieldUse> = Record<JsonOf<Use>, TSchema>;

/** What services see of an account. */
export const AccountSchema = Type.Object(
  {
    ...UserSchema.properties,
    disabled: Disabled,
    email_verified: EmailVerified,
    email_deliverable: EmailDeliverable,
    external_id: NullableExternalId,
    locale: NullableLocale,
  },
  { title: 'Account', description: 'An account, as services see it', additionalProperties: false },
);

export function accountBody(account: Account) {
  const { disabled, emailVerified, emailDeliverable, externalId, locale } = account;
  return {
    ...userBody(account),
    disabled,
    email_verified: emailVerified,
    email_deliverable: emailDeliverable,
    external_id: externalId,
    locale,
  };
}

/** The id in the path of an account's operations. */
export const AccountParams = Type.Object({ id: IdText });

/** @throws AuthError `validation_failed` beyond 2^53 - 1 */
export function accountId({ id }: Static<typeof AccountParams>): number {
  return parseId(id, 'params/id');
}
