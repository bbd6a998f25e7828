import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { Profile, TokenSummary } from '../../domain/users/profile.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { Id, Timestamp, timestamp } from '../schemas.ts';
import { userBody, UserSchema } from '../token-pair-response.ts';

interface ProfileRoute {
  profile: Profile;
}

export const TokenSchema = Type.Object(
  {
    id: Id,
    type: Type.Union([Type.Literal('refresh'), Type.Literal('llt')], {
      description: 'A session, or a long-lived token',
      examples: ['refresh'],
    }),
    name: Type.String({ description: 'The device', examples: ['Kitchen tablet'] }),
    created_at: Timestamp,
    created_by: Type.Union([Id, Type.Null()], {
      description:
        'The session that created a long-lived token; `null` for a session, and for a token of a release that did not record it',
      examples: [null],
    }),
    last_used_at: Type.Union([Timestamp, Type.Null()], {
      description: '`null` if it is not known',
      examples: ['2026-01-09T17:30:00.000Z'],
    }),
    expires_at: Type.Union([Timestamp, Type.Null()], {
      description: '`null` for never',
      examples: ['2026-02-08T17:30:00.000Z'],
    }),
    current: Type.Boolean({ description: 'Whether this is the token of the request', examples: [true] }),
  },
  { title: 'Token', description: 'A session or a long-lived token', additionalProperties: false },
);

const schema = operation({
  operationId: 'getProfile',
  summary: 'The account and its tokens',
  description: 'The tokens are the user’s live sessions (`refresh`) and long-lived tokens (`llt`).',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  response: {
    200: Type.Object(
      {
        ...UserSchema.properties,
        tokens: Type.Array(TokenSchema, { description: 'The tokens that may act for it' }),
      },
      {
        title: 'Profile',
        description: 'An account, and the tokens that may act for it',
        additionalProperties: false,
      },
    ),
  },
});

export const profileRoute: FastifyPluginCallbackTypebox<ProfileRoute> = (app, { profile }, done) => {
  app.get('/api/user', { schema, onRequest: app.auth.principal }, async (request) => {
    const { user, tokens } = await profile(principalOf(request));
    return { ...userBody(user), tokens: tokens.map(tokenBody) };
  });
  done();
};

export function tokenBody({ id, type, name, createdAt, createdBy, ...token }: TokenSummary) {
  const { lastUsedAt, expiresAt, current } = token;
  return {
    id,
    type,
    name,
    created_at: timestamp(createdAt),
    created_by: createdBy,
    last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    expires_at: expiresAt === null ? null : timestamp(expiresAt),
    current,
  };
}
