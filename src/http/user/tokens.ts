import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Bearer } from '../../domain/access-tokens/principal.ts';
import type { LogOutEverywhere } from '../../domain/sessions/log-out-everywhere.ts';
import { SHOWN_REASONS, type EndedPosition, type EndedToken } from '../../domain/tokens/ended-token.ts';
import type { ListTokens } from '../../domain/users/list-tokens.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { Id, refuseBody, Timestamp, timestamp } from '../schemas.ts';
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
    last_used_at: TokenSchema.properties.last_used_at,
    ended_at: Timestamp,
    reason: Type.Enum([...SHOWN_REASONS], {
      type: 'string',
      description: 'Why; `unknown` where it was ended by a release that did not write it down',
      examples: ['logout'],
    }),
  },
  { title: 'EndedToken', description: 'A token that is over', additionalProperties: false },
);

const listSchema = operation({
  operationId: 'listTokens',
  summary: 'The live tokens, and what became of those that ended in the last 30 days',
  description: 'So that a user finds a session that is not theirs, and sees why one of their own is over.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  querystring: Type.Object(
    {
      ended_before: Type.Optional(
        Type.String({
          pattern: '^\\d{1,15}\\.\\d{1,15}$',
          description: 'The `ended_next` of the page before',
          examples: ['1795306833335.155'],
        }),
      ),
    },
    { additionalProperties: false },
  ),
  response: {
    200: Type.Object(
      {
        tokens: Type.Array(TokenSchema, { description: 'What may act for the user' }),
        ended: Type.Array(EndedSchema, { description: 'The newest first, 100 a page' }),
        ended_next: Type.Union([Type.String(), Type.Null()], {
          description: 'Give it as `ended_before` for the next page; null on the last',
          examples: [null],
        }),
      },
      {
        title: 'Tokens',
        description: 'What may act for the user, and what might',
        additionalProperties: false,
      },
    ),
  },
});

const endSchema = operation({
  operationId: 'logOutEverywhere',
  summary:
    'End every session and long-lived token of the user; all but the session that asks with keep=current',
  description:
    'For a user who has lost a device, or trusts none. Repeating it is 200 again, until somebody has logged in. A long-lived token may not.',
  tags: ['Sessions'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_not_allowed'],
  querystring: Type.Object(
    {
      keep: Type.Optional(
        Type.Literal('current', { description: 'The session that asks, which then lives on' }),
      ),
    },
    { additionalProperties: false },
  ),
  response: {
    200: Type.Object(
      {
        msg: Type.String({ description: 'For people', examples: ['logged out everywhere'] }),
        ended: Type.Integer({ description: 'Live tokens that this has ended', examples: [3] }),
      },
      { title: 'LoggedOutEverywhere', description: 'It is done', additionalProperties: false },
    ),
  },
});

export const tokensRoutes: FastifyPluginCallbackTypebox<TokensRoute> = (app, options, done) => {
  const { listTokens, logOutEverywhere } = options;

  app.get('/api/user/tokens', { schema: listSchema, onRequest: app.auth.principal }, async (request) => {
    const before = positionOf(request.query.ended_before);
    const { tokens, ended, next } = await listTokens(principalOf(request), before);
    return { tokens: tokens.map(tokenBody), ended: ended.map(endedBody), ended_next: positionText(next) };
  });

  /** One that kept itself is alive to ask again. Read before validation: whatever is not plainly nothing counts as more. */
  const hasHappened = async ({ query }: FastifyRequest, bearer: Bearer) =>
    Object.keys(query as object).length === 0 && (await logOutEverywhere.hasHappened(bearer));

  app.delete(
    '/api/user/tokens',
    { schema: endSchema, onRequest: app.auth.principalOrDone(hasHappened) },
    async (request) => {
      refuseBody(request.body);
      const { principal, query } = request;
      const ended = principal ? await logOutEverywhere.end(principal, query.keep === 'current') : 0;
      return { msg: 'logged out everywhere', ended };
    },
  );
  done();
};

function positionOf(text: string | undefined): EndedPosition | undefined {
  const [endedAt = NaN, id = NaN] = text?.split('.').map(Number) ?? [];
  return text === undefined ? undefined : { endedAt, id };
}

function positionText(position: EndedPosition | null): string | null {
  return position && `${position.endedAt}.${position.id}`;
}

function endedBody({ id, type, name, createdAt, lastUsedAt, endedAt, reason }: EndedToken) {
  return {
    id,
    type,
    name,
    created_at: timestamp(createdAt),
    last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    ended_at: timestamp(endedAt),
    reason,
  };
}
