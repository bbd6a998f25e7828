import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Bearer } from '../../domain/principal.ts';
import type { LogOutEverywhere } from '../../domain/sessions/log-out-everywhere.ts';
import { SHOWN_REASONS, type EndedPosition, type EndedToken } from '../../domain/tokens/ended-token.ts';
import { ENDED_PAGE, type ListTokens } from '../../domain/users/list-tokens.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { endedTokens, Id, refuseBody, Timestamp, timestamp } from '../schemas.ts';
import { tokenBody, TokenSchema } from './profile.ts';

interface TokensRoute {
  listTokens: ListTokens;
  logOutEverywhere: LogOutEverywhere;
}

const EndedSchema = Type.Object(
  {
    id: Id,
    type: TokenSchema.properties.type,
    name: TokenSchema.properties.name,
    created_at: Timestamp,
    created_by: TokenSchema.properties.created_by,
    last_used_at: TokenSchema.properties.last_used_at,
    ended_at: Timestamp,
    reason: Type.Enum([...SHOWN_REASONS], {
      type: 'string',
      description:
        'Why it ended; `unknown` is a reason that a later release has recorded and this one does not know',
      examples: ['logout'],
    }),
  },
  { title: 'EndedToken', description: 'A token that has ended', additionalProperties: false },
);

const listSchema = operation({
  operationId: 'listTokens',
  summary: 'List the live tokens, and those that ended in the last 30 days.',
  description: 'With it, a user finds a session that is not theirs, and sees why one of their own has ended.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  querystring: Type.Object(
    {
      ended_before: Type.Optional(
        Type.String({
          pattern: '^\\d{1,15}\\.\\d{1,15}$',
          description: 'The `ended_next` of the previous page',
          examples: ['1795306833335.155'],
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: {
    200: Type.Object(
      {
        tokens: Type.Array(TokenSchema, { description: 'The tokens that may act for the user' }),
        ended: Type.Array(EndedSchema, { description: 'The newest first', maxItems: ENDED_PAGE }),
        ended_next: Type.Union([Type.String(), Type.Null()], {
          description: 'Pass it as `ended_before` for the next page; null on the last',
          examples: [null],
        }),
      },
      {
        title: 'Tokens',
        description: 'The tokens that may act for the user, and those that did before',
        additionalProperties: false,
      },
    ),
  },
});

const endSchema = operation({
  operationId: 'logOutEverywhere',
  summary: 'Log out on all devices.',
  description:
    'Ends every session and long-lived token of the user, for example after a device was lost. With `keep=current`, the session that asks stays. You may repeat the request with the same token until the user logs in again. A long-lived token may not do this.',
  tags: ['Logout'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_not_allowed'],
  querystring: Type.Object(
    {
      keep: Type.Optional(Type.Literal('current', { description: 'Keeps the session that asks' })),
    },
    { additionalProperties: false },
  ),
  response: {
    200: endedTokens('LoggedOutEverywhere', 'logged out everywhere'),
  },
});

export const tokensRoutes: FastifyPluginCallbackTypebox<TokensRoute> = (app, options, done) => {
  const { listTokens, logOutEverywhere } = options;

  app.get('/api/user/tokens', { schema: listSchema, onRequest: app.auth.principal }, async (request) => {
    const before = positionOf(request.query.ended_before);
    const { tokens, ended, next } = await listTokens(principalOf(request), before);
    return { tokens: tokens.map(tokenBody), ended: ended.map(endedBody), ended_next: positionText(next) };
  });

  /**
   * Only without a query: a session that was kept can repeat the request. Runs before validation, so any query counts.
   */
  const isDone = async ({ query }: FastifyRequest, bearer: Bearer) =>
    Object.keys(query as object).length === 0 && (await logOutEverywhere.completeIfAllEnded(bearer));

  app.delete('/api/user/tokens', { schema: endSchema, ...app.auth.changeOrDone(isDone) }, async (request) => {
    refuseBody(request.body);
    const { caller, query } = request;
    const ended = caller ? await logOutEverywhere.end(caller, query.keep === 'current', request) : 0;
    return { msg: 'logged out everywhere', ended };
  });
  done();
};

function positionOf(text: string | undefined): EndedPosition | undefined {
  const [endedAt = NaN, id = NaN] = text?.split('.').map(Number) ?? [];
  return text === undefined ? undefined : { endedAt, id };
}

function positionText(position: EndedPosition | null): string | null {
  return position && `${position.endedAt}.${position.id}`;
}

function endedBody({ id, type, name, createdAt, createdBy, ...token }: EndedToken) {
  const { lastUsedAt, endedAt, reason } = token;
  return {
    id,
    type,
    name,
    created_at: timestamp(createdAt),
    created_by: createdBy,
    last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    ended_at: timestamp(endedAt),
    reason,
  };
}
