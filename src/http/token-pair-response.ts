import Type from 'typebox';
import type { SessionGrant } from '../domain/sessions/session.ts';
import type { Config } from '../config/config.ts';
import { lifetimesOf, pairClaims } from '../domain/tokens/claims.ts';
import type { User } from '../domain/user.ts';
import { Id, Roles, Timestamp, timestamp } from './schemas.ts';
import type { TokenCodec } from './token-codec.ts';

export const UserSchema = Type.Object(
  {
    id: Id,
    username: Type.String({ description: 'The username in its canonical form', examples: ['ada'] }),
    name: Type.String({ description: 'The user’s name', examples: ['Ada Lovelace'] }),
    created_at: Timestamp,
    roles: Roles,
  },
  { title: 'User', description: 'An account', additionalProperties: false },
);

/** A token needs no escapes, and to look for them took a refresh longer than all other steps of writing its answer. */
const TOKEN = { format: 'unsafe', shown: { format: undefined }, readOnly: true };

export const PairSchema = Type.Object(
  {
    access_token: Type.String({
      description:
        'For `bearerAuth`; good for `ACCESS_TOKEN_TTL` (15 minutes) or until the next refresh, if that is earlier',
      ...TOKEN,
      examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    refresh_token: Type.String({
      description: 'For `bearerRefreshToken`; good for one refresh within `REFRESH_TOKEN_TTL` (30 days)',
      ...TOKEN,
      examples: ['eyJhbGciOiJIUzI1NiIsInR5cCI6InJ0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    user: UserSchema,
  },
  {
    title: 'Pair',
    description: 'The newest pair of tokens of the session, and its user',
    additionalProperties: false,
  },
);

/** Signs both tokens of a grant: the answer of login, signup and refresh. */
export function makeTokenPairResponse(
  codec: TokenCodec,
  config: Pick<Config, 'ACCESS_TOKEN_TTL' | 'REFRESH_TOKEN_TTL' | 'SESSION_MAX_AGE'>,
) {
  const lifetimes = lifetimesOf(config);
  return function tokenPairResponse({ user, tokenId, generation, createdAt, acr }: SessionGrant) {
    const identity = { userId: user.id, tokenId, generation, acr };
    const { access, refresh } = pairClaims(identity, createdAt, lifetimes, user);
    return {
      access_token: codec.sign('access', access),
      refresh_token: codec.sign('refresh', refresh),
      user: userBody(user),
    };
  };
}

export type TokenPairResponse = ReturnType<typeof makeTokenPairResponse>;

export function userBody({ id, username, name, createdAt, roles }: User) {
  return { id, username, name, created_at: timestamp(createdAt), roles };
}
