import Type, { type TSchema } from 'typebox';
import { AuthError } from '../domain/errors.ts';
import type { User } from '../domain/users/user.ts';

/** Schemas that two routes share; every other one stands beside its route. Responses hold nothing that is not listed. */

export const Timestamp = Type.String({ format: 'date-time', examples: ['2026-01-02T03:04:05.678Z'] });

export const Id = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, examples: [7] });

export const UserSchema = Type.Object(
  {
    id: Id,
    username: Type.String({ examples: ['ada'] }),
    name: Type.String({ examples: ['Ada Lovelace'] }),
    created_at: Timestamp,
  },
  { additionalProperties: false },
);

export const PairSchema = Type.Object(
  { access_token: Type.String(), refresh_token: Type.String(), user: UserSchema },
  { additionalProperties: false },
);

export const MessageSchema = Type.Object({ msg: Type.String() }, { additionalProperties: false });

/** Form, length and characters are checked after normalisation, by the domain: a schema counts too early. */
export const Username = Type.String({
  description: '1 to 64 characters, without whitespace or @',
  examples: ['ada'],
});
export const Password = Type.String({
  description: '8 (PASSWORD_MIN_LENGTH) to 1,024 characters',
  examples: ['correct horse battery staple'],
});
export const Device = Type.String({ description: '1 to 128 characters', examples: ['Kitchen tablet'] });

/**
 * An id in a path or query, as text: a validator that turns text into numbers takes `1e3`, `0x10` and a rounded 2^53 + 1.
 */
export const IdText = Type.String({ pattern: '^[1-9][0-9]{0,15}$', examples: ['7'] });

/** A request body: closed. */
export function closedBody<Properties extends Record<string, TSchema>>(properties: Properties) {
  return Type.Object(properties, { additionalProperties: false });
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
