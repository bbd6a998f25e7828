import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { LIMITED_MIN_AGE, type CreateLimited } from '../../domain/long-lived-tokens/create.ts';
import type { Bearer } from '../../domain/principal.ts';
import { limitedClaims } from '../../domain/tokens/claims.ts';
import type { LogOutEverywhere } from '../../domain/sessions/log-out-everywhere.ts';
import { SHOWN_REASONS, type EndedPosition, type EndedToken } from '../../domain/tokens/ended-token.ts';
import { ENDED_PAGE, type ListTokens } from '../../domain/users/list-tokens.ts';
import type { NetworkOf } from '../caller/network.ts';
import { deviceNameOf, userAgentTextOf } from '../caller/user-agent.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf, principalOf } from '../plugins/authenticate.ts';
import { closedBody, endedTokens, Id, refuseBody, Scopes, Timestamp, timestamp } from '../schemas.ts';
import type { TokenCodec } from '../token-codec.ts';
import { limitsBody, tokenBody, TokenSchema } from './profile.ts';

interface TokensRoute {
  listTokens: ListTokens;
  logOutEverywhere: LogOutEverywhere;
  createLimited: CreateLimited;
  codec: TokenCodec;
  networkOf: NetworkOf;
}

const EndedSchema = Type.Object(
  {
    id: Id,
    type: TokenSchema.properties.type,
    name: TokenSchema.properties.name,
    created_at: Timestamp,
    created_by: TokenSchema.properties.created_by,
    scopes: TokenSchema.properties.scopes,
    audience: TokenSchema.properties.audience,
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

const createSchema = operation({
  operationId: 'createLimitedToken',
  summary: 'Create a token for a script, pipeline or device that should do less than its user.',
  description:
    'The token is shown only in this answer. It is good only where a service demands scopes and the token has all of them ([verify](#/Verification/verifyInScope)), and at Latchkey it may only end itself. A scope narrows what the user may do and never grants anything. It ends at `expires_at`, and before that in every way in which a long-lived token ends. The limits of long-lived tokens count for both kinds together: `MAX_LLT_PER_USER`, `RATE_LIMIT_LLT`, `RATE_LIMIT_LLT_NETWORK` and `LLT_LOGIN_MAX_AGE`.',
  tags: ['Limited tokens'],
  security: [{ bearerAuth: [] }],
  refuses: [
    'too_many_tokens',
    'invalid_target',
    'token_not_allowed',
    'llt_disabled',
    'login_too_old',
    'rate_limited',
    'overloaded',
  ],
  body: closedBody('CreateLimitedToken', {
    name: Type.String({
      description: 'What the user calls the script, pipeline or device. Invisible characters are removed',
      shown: { minLength: 1, maxLength: 128 },
      examples: ['Orders report'],
    }),
    scopes: Scopes,
    expires_in: Type.Optional(
      Type.Integer({
        description:
          'Its lifetime in seconds: at most `LIMITED_TOKEN_MAX_AGE` (a year), or `LLT_MAX_AGE` if that is set and less. 90 days if it is missing, or that maximum if it is less',
        shown: { minimum: LIMITED_MIN_AGE },
        examples: [604800],
      }),
    ),
    audience: Type.Optional(
      Type.String({
        description: 'A registered audience, for which alone the token is good; `AUDIENCE` if it is missing',
        examples: ['orders'],
      }),
    ),
  }),
  response: {
    200: Type.Object(
      {
        id: Id,
        token: Type.String({
          description: 'The token, for `bearerAuth`; Latchkey cannot show it again',
          readOnly: true,
          examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImxpbWl0ZWQrand0In0.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
        }),
        expires_at: Timestamp,
      },
      {
        title: 'LimitedToken',
        description: 'The new token, and the id by which it is ended',
        additionalProperties: false,
      },
    ),
  },
});

const endSchema = operation({
  operationId: 'logOutEverywhere',
  summary: 'Log out on all devices.',
  description:
    'Ends every session, long-lived token and limited token of the user, for example after a device was lost. With `keep=current`, the session that asks stays. You may repeat the request with the same token until the user logs in again. A long-lived token may not do this.',
  tags: ['Logout'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_not_allowed', 'rate_limited'],
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
  const { listTokens, logOutEverywhere, createLimited, codec, networkOf } = options;

  app.get('/api/user/tokens', { schema: listSchema, onRequest: app.auth.principal }, async (request) => {
    const before = positionOf(request.query.ended_before);
    const { tokens, ended, next } = await listTokens(principalOf(request), before);
    return { tokens: tokens.map(tokenBody), ended: ended.map(endedBody), ended_next: positionText(next) };
  });

  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [authenticate, app.refuseWhenStoreFull];
  app.post('/api/user/tokens', { schema: createSchema, onRequest, preValidation }, async (request) => {
    const { name, scopes, expires_in: expiresIn, audience } = request.body;
    // The record and the token name the same key, even if the keys change meanwhile.
    const signer = codec.limitedSigner();
    const asked = { name: deviceNameOf(name, userAgentTextOf(request)), scopes, expiresIn, audience };
    const origin = { from: request, network: networkOf(request) };
    const granted = await createLimited(callerOf(request), asked, signer.kid, origin);
    const { tokenId, expiresAt } = granted;
    return { id: tokenId, token: signer.sign(limitedClaims(granted)), expires_at: timestamp(expiresAt) };
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
  const { limited, lastUsedAt, endedAt, reason } = token;
  return {
    id,
    type,
    name,
    created_at: timestamp(createdAt),
    created_by: createdBy,
    ...limitsBody(limited),
    last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    ended_at: timestamp(endedAt),
    reason,
  };
}
