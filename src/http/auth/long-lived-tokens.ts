import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { longLivedClaims } from '../../domain/tokens/claims.ts';
import type { Bearer } from '../../domain/principal.ts';
import type { CreateLongLived } from '../../domain/long-lived-tokens/create.ts';
import type { EndToken, LogOut } from '../../domain/tokens/end-token.ts';
import { deviceNameOf, userAgentTextOf } from '../caller/user-agent.ts';
import type { NetworkOf } from '../caller/network.ts';
import { operation } from '../openapi/operation.ts';
import { bearerOf, callerOf } from '../plugins/authenticate.ts';
import type { TokenCodec } from '../token-codec.ts';
import { closedBody, Device, Id, IdText, MessageSchema, parseId, refuseBody } from '../schemas.ts';

interface LongLivedTokensRoute {
  createLongLived: CreateLongLived;
  logOut: LogOut;
  endToken: EndToken;
  codec: TokenCodec;
  networkOf: NetworkOf;
}

const createSchema = operation({
  operationId: 'createLongLivedToken',
  summary: 'Create a token for a device that cannot refresh.',
  description:
    'The token is shown only in this answer. It is good until it is deleted, its user is disabled, or the session that created it turns out to be stolen; if `LLT_MAX_AGE` is set, it also expires. It works like an access token, but may not create tokens, end other ones or change the account. A user has at most `MAX_LLT_PER_USER` (100) of them. `RATE_LIMIT_LLT` (100 an hour) limits how many a user creates, and `RATE_LIMIT_LLT_NETWORK` (1,000 an hour) how many a network creates, deleted ones included. If `LLT_LOGIN_MAX_AGE` is set, the login must be younger than that.',
  tags: ['Long-lived tokens'],
  security: [{ bearerAuth: [] }],
  refuses: [
    'too_many_tokens',
    'token_not_allowed',
    'llt_disabled',
    'login_too_old',
    'rate_limited',
    'overloaded',
  ],
  body: closedBody('CreateLongLivedToken', { device: Device }),
  response: {
    200: Type.Object(
      {
        id: Id,
        longlived_token: Type.String({
          description: 'The token, for `bearerAuth`; Latchkey cannot show it again',
          readOnly: true,
          examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImxsdCtqd3QifQ.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
        }),
      },
      {
        title: 'LongLivedToken',
        description: 'The new token, and the id by which it is deleted',
        additionalProperties: false,
      },
    ),
  },
});

const deleteSchema = operation({
  operationId: 'deleteLongLivedToken',
  summary: 'Delete a long-lived token.',
  description:
    'Latchkey refuses it from then on. You may repeat the request, because a token that was deleted before is 200 again. A long-lived token may delete only itself.',
  tags: ['Long-lived tokens'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_unknown', 'token_not_allowed', 'rate_limited'],
  params: Type.Object({ id: IdText }),
  querystring: Type.Object({}, { additionalProperties: false }),
  response: { 200: MessageSchema },
});

export const longLivedTokenRoutes: FastifyPluginCallbackTypebox<LongLivedTokensRoute> = (
  app,
  options,
  done,
) => {
  const { createLongLived, logOut, endToken, codec, networkOf } = options;

  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [authenticate, app.refuseWhenStoreFull];
  app.post('/api/auth/llt', { schema: createSchema, onRequest, preValidation }, async (request) => {
    // The record and the token name the same key, even if the keys change meanwhile.
    const signer = codec.signer('llt');
    const device = deviceNameOf(request.body.device, userAgentTextOf(request));
    const origin = { from: request, network: networkOf(request) };
    const granted = await createLongLived(callerOf(request), device, signer.kid, origin);
    const { userId, tokenId, createdAt, expiresAt } = granted;
    const claims = longLivedClaims(userId, tokenId, createdAt, expiresAt);
    return { id: tokenId, longlived_token: signer.sign(claims) };
  });

  app.delete(
    '/api/auth/llt/:id',
    { schema: deleteSchema, ...app.auth.changeUnless(endsOwnToken) },
    async (request) => {
      refuseBody(request.body);
      const id = parseId(request.params.id, 'params/id');
      const bearer = bearerOf(request);
      // An LLT may end itself, and may repeat that: the first answer may have been lost.
      if (isOwn(bearer, id)) await logOut(bearer, request);
      else await endToken(callerOf(request), id, request, 'llt');
      return { msg: 'deleted' };
    },
  );
  done();
};

function endsOwnToken({ params }: FastifyRequest, bearer: Bearer): boolean {
  return isOwn(bearer, Number((params as { id: string }).id));
}

function isOwn({ type, tokenId }: Bearer, id: number): boolean {
  return type === 'llt' && id === tokenId;
}
