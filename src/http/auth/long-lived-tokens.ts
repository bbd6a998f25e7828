import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import { longLivedClaims } from '../../domain/access-tokens/claims.ts';
import type { Bearer } from '../../domain/access-tokens/principal.ts';
import { AuthError } from '../../domain/errors.ts';
import type { CreateLongLived } from '../../domain/long-lived-tokens/create.ts';
import type { LogOut } from '../../domain/sessions/log-out.ts';
import type { EndToken } from '../../domain/tokens/end-token.ts';
import { operation } from '../openapi/operation.ts';
import { bearerOf, principalOf } from '../plugins/authenticate.ts';
import type { TokenCodec } from '../plugins/jwt.ts';
import { closedBody, Device, Id, IdText, MessageSchema, parseId, refuseBody } from '../schemas.ts';

interface LongLivedTokensRoute {
  createLongLived: CreateLongLived;
  logOut: LogOut;
  endToken: EndToken;
  codec: TokenCodec;
}

const createSchema = operation({
  operationId: 'createLongLivedToken',
  summary: 'Create a long-lived token for a device; it is shown this once',
  description:
    'The token does not expire: it is good until it is deleted, or its user disabled. It works wherever an access token does, but may not create tokens or end other ones. A user has at most `MAX_LLT_PER_USER` (100).',
  tags: ['Long-lived tokens'],
  security: [{ bearerAuth: [] }],
  refuses: ['too_many_tokens', 'token_not_allowed'],
  body: closedBody('CreateLongLivedToken', { device: Device }),
  response: {
    200: Type.Object(
      {
        id: Id,
        longlived_token: Type.String({
          description: 'For `bearerAuth`; nobody can show it again',
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
  summary: 'Delete a long-lived token',
  description:
    'From then on it is refused everywhere. Deleting what is deleted already is 200 again, so that a retry is safe. A long-lived token may delete nothing but itself.',
  tags: ['Long-lived tokens'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_unknown', 'token_not_allowed'],
  params: Type.Object({ id: IdText }),
  querystring: Type.Object({}, { additionalProperties: false }),
  response: { 200: MessageSchema },
});

export const longLivedTokenRoutes: FastifyPluginCallbackTypebox<LongLivedTokensRoute> = (
  app,
  options,
  done,
) => {
  const { createLongLived, logOut, endToken, codec } = options;

  app.post(
    '/api/auth/llt',
    { schema: createSchema, onRequest: [app.auth.principal, refuseLongLived] },
    async (request) => {
      // One key for the record and the token, whatever becomes of the keys meanwhile.
      const signer = codec.signer('llt');
      const { device } = request.body;
      const { userId, tokenId, createdAt } = await createLongLived(principalOf(request), device, signer.kid);
      return { id: tokenId, longlived_token: signer.sign(longLivedClaims(userId, tokenId, createdAt)) };
    },
  );

  app.delete(
    '/api/auth/llt/:id',
    { schema: deleteSchema, onRequest: app.auth.principalUnless(endsOwnToken) },
    async (request) => {
      refuseBody(request.body);
      const id = parseId(request.params.id, 'params/id');
      const bearer = bearerOf(request);
      // An LLT may end itself, also twice: the first answer may have been lost.
      if (isOwn(bearer, id)) await logOut(bearer);
      else await endToken(principalOf(request), id, 'llt');
      return { msg: 'deleted' };
    },
  );
  done();
};

/** A leaked LLT must not outlive its own deletion, so it may not make another. */
async function refuseLongLived(request: FastifyRequest): Promise<void> {
  if (principalOf(request).type === 'llt') throw new AuthError('token_not_allowed');
  return Promise.resolve();
}

function endsOwnToken({ params }: FastifyRequest, bearer: Bearer): boolean {
  return isOwn(bearer, Number((params as { id: string }).id));
}

function isOwn({ type, tokenId }: Bearer, id: number): boolean {
  return type === 'llt' && id === tokenId;
}
