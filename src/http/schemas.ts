import Type, { type TSchema, type TString } from 'typebox';
import { AuthError } from '../domain/errors.ts';

/** Schemas that routes share; all others are in their route's file. Responses hold only listed properties. */

export const Timestamp = Type.String({
  description: 'RFC 3339, in UTC',
  format: 'date-time',
  readOnly: true,
  examples: ['2026-01-02T03:04:05.678Z'],
});

export const Id = Type.Integer({
  description: 'From 1 to 2^53 - 1',
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  readOnly: true,
  examples: [7],
});

/** The description and the examples go outside, where the reference shows them. */
export function orNull<Schema extends TSchema>(schema: Schema) {
  const { description, examples, ...inner } = schema as Schema & { description?: string; examples?: unknown };
  return Type.Union([inner as unknown as Schema, Type.Null()], {
    ...(description !== undefined && { description }),
    ...(examples !== undefined && { examples }),
  });
}

/** The only schema of an answer with an address (test/http/openapi/document.test.ts). */
export const AddressSchema = Type.Object(
  {
    email: Type.String({
      description: 'The e-mail address as its owner gave it',
      readOnly: true,
      examples: ['ada@example.com'],
    }),
    verified: Type.Boolean({ description: 'Whether the address is verified', examples: [true] }),
    pending: Type.Union([Type.String(), Type.Null()], {
      description:
        'The address that takes its place once its owner has proved it, as it was given; `null` for none',
      readOnly: true,
      examples: [null],
    }),
    deliverable: Type.Boolean({
      description: 'Whether mails reach the address: `false` after a mailer has reported that they do not',
      examples: [true],
    }),
  },
  { title: 'Address', description: 'An account’s e-mail address', additionalProperties: false },
);

export const MessageSchema = Type.Object(
  {
    msg: Type.String({ description: 'What was done, for people', readOnly: true, examples: ['logged out'] }),
  },
  { title: 'Message', description: 'The request was carried out', additionalProperties: false },
);

/** The answer of a request that ends tokens. @param msg what it says to people. */
export function endedTokens(title: string, msg: string) {
  return Type.Object(
    {
      msg: Type.String({ description: 'What was done, for people', examples: [msg] }),
      ended: Type.Integer({
        description: 'How many live tokens this request has ended',
        examples: [3],
      }),
    },
    { title, description: 'The request was carried out', additionalProperties: false },
  );
}

/**
 * The domain checks form, length and characters after normalisation, and a validator would check them before it. So the
 * limits of texts are shown in the reference only (openapi/shown.ts).
 */
export const Name = Type.String({
  description: 'The user’s name. It is not blank and has no invisible characters',
  shown: { minLength: 1, maxLength: 128 },
  examples: ['Ada Lovelace'],
});
export const Email = Type.String({
  description: 'A mailbox (RFC 5321) in any script (RFC 6531), without quotes and invisible characters',
  shown: { minLength: 3, maxLength: 254, pattern: '^[^@\\s]+@[^@\\s]+$' },
  writeOnly: true,
  examples: ['ada@example.com'],
});
export const NewPassword = Type.String({
  description:
    'At least `PASSWORD_MIN_LENGTH` (8) characters of any kind. Common passwords, simple patterns and the user’s own name or address are refused',
  shown: { minLength: 8, maxLength: 1024 },
  writeOnly: true,
  examples: ['a longer difference engine'],
});

export const Username = Type.String({
  description:
    'In one script, without whitespace, invisible characters or `@`. `Ada` and `ada` are the same username',
  shown: { minLength: 1, maxLength: 64, pattern: '^[^@\\s]+$' },
  examples: ['ada'],
});
export const Password = Type.String({
  description: 'The account’s password',
  shown: { minLength: 1, maxLength: 1024 },
  writeOnly: true,
  examples: ['correct horse battery staple'],
});
/**
 * A text or null. With `nullable`, because a value that a union refuses gets an error for each part of it.
 * @param shown the limits of the text.
 */
export function nullable(text: TString, shown: object) {
  return Type.Unsafe<string | null>({
    ...text,
    nullable: true,
    shown: { type: undefined, nullable: undefined, anyOf: [{ type: 'string', ...shown }, { type: 'null' }] },
  });
}

const LANGUAGE_TAG = { minLength: 2, maxLength: 35 };

export const Locale = Type.String({
  description: 'The language of the account’s mails: a language tag (BCP 47), kept in its canonical form',
  shown: LANGUAGE_TAG,
  examples: ['pt-BR'],
});
export const NullableLocale = nullable(Locale, LANGUAGE_TAG);

/** Shown only: the domain's errors do not repeat a role that was sent. */
export const Roles = Type.Array(Type.String({ shown: { pattern: '^[a-z0-9:_-]{1,64}$' } }), {
  description: 'The roles; what they mean is up to your services',
  shown: { maxItems: 32, uniqueItems: true },
  examples: [['admin', 'billing:read']],
});
export const Device = Type.String({
  description:
    'What the user calls the device. Invisible characters are removed. Where it is optional, a short form of the User-Agent takes its place if it is missing or nothing is left of it',
  shown: { minLength: 1, maxLength: 128 },
  writeOnly: true,
  examples: ['Kitchen tablet'],
});

/** Shown only: the domain's errors do not repeat a scope that was sent. */
export const Scopes = Type.Array(Type.String({ shown: { pattern: '^[a-z0-9:_-]{1,64}$' } }), {
  description: 'What the token is good for; what the names mean is up to your services',
  shown: { minItems: 1, maxItems: 32, uniqueItems: true },
  examples: [['orders:read']],
});

const messages = new Map<string, string>();
/** By pattern, what to say of a text that does not match, because a pattern itself tells a reader little. */
export const PATTERN_MESSAGES: ReadonlyMap<string, string> = messages;

/**
 * An integer in a path or query, shown as one. It is validated as text: a validator that converts to numbers accepts
 * `1e3`, `0x10` and a rounded 2^53 + 1.
 */
export function integerText(
  pattern: string,
  {
    description,
    example,
    ...bounds
  }: { description: string; minimum: number; maximum: number; example: number },
) {
  const { minimum, maximum } = bounds;
  const most = maximum === Number.MAX_SAFE_INTEGER ? '2^53 - 1' : maximum;
  messages.set(pattern, `must be a whole number from ${minimum} to ${most}, in decimal`);
  const shown = { type: 'integer', ...bounds, pattern: undefined, examples: [example] };
  return Type.String({ description, pattern, shown });
}

export const IdText = integerText('^[1-9][0-9]{0,15}$', {
  description: 'An id, in decimal, from 1 to 2^53 - 1',
  minimum: 1,
  maximum: Number.MAX_SAFE_INTEGER,
  example: 7,
});

/**
 * RFC 7662, section 2.1, and RFC 7009, section 2.1. The hint is ignored, since a token states its own type. Unlike our
 * own bodies the form is open: RFC 6749, section 3.1, demands that unknown parameters are ignored.
 */
export const TokenForm = Type.Object(
  {
    token: Type.String({
      description: 'The token',
      writeOnly: true,
      examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    token_type_hint: Type.Optional(
      Type.String({
        description: 'Ignored, because a token states its own type',
        examples: ['access_token'],
      }),
    ),
  },
  { title: 'TokenForm', description: 'A form, in which parameters that are not listed are ignored' },
);

/** A request body: closed. @param title its name in the reference. */
export function closedBody<Properties extends Record<string, TSchema>>(
  title: string,
  properties: Properties,
) {
  return Type.Object(properties, { title, additionalProperties: false });
}

/** @param path where it was given, for the error. @throws AuthError `validation_failed` beyond 2^53 - 1 */
export function parseId(text: string, path: string): number {
  const id = Number(text);
  if (Number.isSafeInteger(id)) return id;
  throw new AuthError('validation_failed', {
    errors: [{ path, code: 'out_of_range', message: 'must be at most 2^53 - 1' }],
  });
}

/**
 * For operations without a body: a revocation with an unknown body revokes nothing. `{}` counts as no body.
 * @throws AuthError `validation_failed`
 */
export function refuseBody(body: unknown): void {
  if (body === undefined) return;
  if (typeof body === 'object' && body !== null && !Array.isArray(body) && Object.keys(body).length === 0)
    return;
  throw new AuthError('validation_failed', {
    errors: [{ path: '', code: 'not_allowed', message: 'there must be no body' }],
  });
}

/** RFC 3339 in UTC. @param ms milliseconds since 1970. */
export function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}

/** An example of what stands between the two steps of a login. */
export const LOGIN_TOKEN =
  'lkl_AAAAAAAAAAcAAAAAAAAAAAAAAAAAAAAAAAABm3ZkFxgq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2m';
