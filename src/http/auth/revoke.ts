import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { RevokeToken } from '../../domain/tokens/end-token.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { formBody } from '../plugins/bodies.ts';
import type { TokenCodec } from '../token-codec.ts';
import { TokenForm } from '../schemas.ts';

interface RevokeRoute {
  revokeToken: RevokeToken;
  codec: TokenCodec;
}

const schema = operation({
  operationId: 'revoke',
  summary: 'End the session, the long-lived token or the limited token to which a token belongs (RFC 7009).',
  description:
    'A valid signature is enough, so the token may have expired or been superseded. An invalid token, or one that has ended, is 200 too. So is a token that was exchanged for an audience, on which the request has no effect. It needs the right `revoke`.',
  tags: ['Registered services'],
  security: BY_SERVICE,
  refuses: ['rate_limited'],
  consumes: ['application/x-www-form-urlencoded'],
  body: TokenForm,
  answers: { 200: { description: 'The token is not good any more. There is no body.' } },
});

export const revokeRoute: FastifyPluginAsyncTypebox<RevokeRoute> = async (app, { revokeToken, codec }) => {
  await app.register(formBody);
  const options = { schema, ...app.auth.service('revoke'), config: { oauthErrors: true } };
  app.post('/api/auth/revoke', options, async (request, reply) => {
    const identity = await codec.verifySigned(request.body.token, 'refresh', 'access', 'llt', 'limited');
    if (typeof identity === 'object') await revokeToken(serviceOf(request), identity, request);
    else request.refusalReason = identity;
    // RFC 7009, section 2.2: an invalid token gets 200 too, since it is already unusable.
    return reply.send('');
  });
};
