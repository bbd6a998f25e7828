import Type, { type TSchema } from 'typebox';
import { AuthError } from '../domain/errors.ts';
import type { User } from '../domain/users/user.ts';

/** Schemas that two routes share; every other one stands beside its route. Responses hold nothing that is not listed. */

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

export const UserSchema = Type.Object(
  {
    id: Id,
    username: Type.String({ description: 'In its canonical form', examples: ['ada'] }),
    name: Type.String({ description: 'What the user is called', examples: ['Ada Lovelace'] }),
    created_at: Timestamp,
  },
  { title: 'User', description: 'An account', additionalProperties: false },
);

export const PairSchema = Type.Object(
  {
    access_token: Type.String({
      description: 'For `bearerAuth`; good for `ACCESS_TOKEN_TTL` (15 minutes), and until the next refresh',
      readOnly: true,
      examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    refresh_token: Type.String({
      description: 'For `bearerRefreshToken`; good once, for `REFRESH_TOKEN_TTL` (30 days)',
      readOnly: true,
      examples: ['eyJhbGciOiJIUzI1NiIsInR5cCI6InJ0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    user: UserSchema,
  },
  {
    title: 'Pair',
    description: 'The session’s newest pair of tokens, and its user',
    additionalProperties: false,
  },
);

export const MessageSchema = Type.Object(
  { msg: Type.String({ description: 'For people', readOnly: true, examples: ['logged out'] }) },
  { title: 'Message', description: 'It is done', additionalProperties: false },
);

/** Form, length and characters are checked after normalisation, by the domain: a schema counts too early. */
export const Username = Type.String({
  description:
    '1 to 64 characters, without whitespace, control characters or `@`; `Ada` and `ada` are one username',
  examples: ['ada'],
});
export const Password = Type.String({
  description:
    'At signup 8 (`PASSWORD_MIN_LENGTH`) to 1,024 characters of any kind, not blank, none of the commonest passwords and not the user’s own name or address',
  writeOnly: true,
  examples: ['correct horse battery staple'],
});
export const Device = Type.String({
  description:
    'What the user calls the device, 1 to 128 characters, not blank; where it may be left out, a short form of the User-Agent takes its place',
  writeOnly: true,
  examples: ['Kitchen tablet'],
});

/**
 * An id in a path or query, as text: a validator that turns text into numbers takes `1e3`, `0x10` and a rounded 2^53 + 1.
 */
export const IdText = Type.String({
  description: 'The id of a token: a decimal from 1 to 2^53 - 1',
  pattern: '^[1-9][0-9]{0,15}$',
  examples: ['7'],
});

/**
 * RFC 7662, section 2.1, and RFC 7009, section 2.1. The hint may be wrong and changes nothing: a token says of itself what it
 * is. Unlike our own bodies it is open: RFC 6749, section 3.1, has us ignore what we do not know.
 */
export const TokenForm = Type.Object(
  {
    token: Type.String({
      description: 'The token that is asked about',
      writeOnly: true,
      examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    token_type_hint: Type.Optional(
      Type.String({
        description: 'May say anything: a token says of itself what it is',
        examples: ['access_token'],
      }),
    ),
  },
  { title: 'TokenForm', description: 'A form; parameters that are not listed are ignored' },
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
  throw new AuthError('validation_failed', { errors: [{ path, message: 'must be at most 2^53 - 1' }] });
}

/**
 * For the operations without a body: a revocation that is not understood revokes nothing. `{}` is as good as none.
 * @throws AuthError `validation_failed`
 */
export function refuseBody(body: unknown): void {
  if (body === undefined) return;
  if (typeof body === 'object' && body !== null && !Array.isArray(body) && Object.keys(body).length === 0)
    return;
  throw new AuthError('validation_failed', { errors: [{ path: '', message: 'there must be no body' }] });
}

export function userBody({ id, username, name, createdAt }: User) {
  return { id, username, name, created_at: timestamp(createdAt) };
}

/** RFC 3339 in UTC. @param ms milliseconds since 1970. */
export function timestamp(ms: number): string {
  return new Date(ms).toISOString();
}
