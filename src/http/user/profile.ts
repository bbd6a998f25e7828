import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { Profile, TokenSummary } from '../../domain/users/profile.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { Id, Timestamp, timestamp, userBody, UserSchema } from '../schemas.ts';

interface ProfileRoute {
  profile: Profile;
}

const TokenSchema = Type.Object(
  {
    id: Id,
    type: Type.Union([Type.Literal('refresh'), Type.Literal('llt')]),
    name: Type.String({ description: 'The device' }),
    created_at: Timestamp,
    last_used_at: Type.Union([Timestamp, Type.Null()]),
    expires_at: Type.Union([Timestamp, Type.Null()]),
    current: Type.Boolean({ description: 'It is the token that asks' }),
  },
  { additionalProperties: false },
);

const schema = {
  operationId: 'getProfile',
  summary: 'The account and its tokens',
  response: {
    200: Type.Object(
      { ...UserSchema.properties, tokens: Type.Array(TokenSchema) },
      { additionalProperties: false },
    ),
  },
};

export const profileRoute: FastifyPluginCallbackTypebox<ProfileRoute> = (app, { profile }, done) => {
  app.get('/api/user', { schema, onRequest: app.auth.principal }, async (request) => {
    const { user, tokens } = await profile(principalOf(request));
    return { ...userBody(user), tokens: tokens.map(tokenBody) };
  });
  done();
};

function tokenBody({ id, type, name, createdAt, lastUsedAt, expiresAt, current }: TokenSummary) {
  return {
    id,
    type,
    name,
    created_at: timestamp(createdAt),
    last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    expires_at: expiresAt === null ? null : timestamp(expiresAt),
    current,
  };
}
