import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { Refresh } from '../../domain/sessions/refresh.ts';
import type { ClientOf } from '../client.ts';
import { operation } from '../openapi/operation.ts';
import type { PairBody } from '../pair.ts';
import { readBearer } from '../plugins/authenticate.ts';
import type { TokenCodec } from '../plugins/jwt.ts';
import { PairSchema } from '../schemas.ts';

interface RefreshRoute {
  refresh: Refresh;
  pairBody: PairBody;
  clientOf: ClientOf;
  codec: TokenCodec;
}

const schema = operation({
  operationId: 'refresh',
  summary: 'Exchange a refresh token for the next pair',
  description:
    'The pair that is exchanged is over. The same client may repeat a refresh whose answer it did not get, within `REFRESH_RETRY_WINDOW` (10 seconds), and gets the same pair again. Anybody else who presents a token that had been exchanged ends the session: it may have been stolen.',
  tags: ['Sessions'],
  security: [{ bearerRefreshToken: [] }],
  refuses: ['token_reused', 'refresh_overlap'],
  response: { 200: PairSchema },
});

export const refreshRoute: FastifyPluginCallbackTypebox<RefreshRoute> = (app, options, done) => {
  const { refresh, pairBody, clientOf, codec } = options;
  app.get('/api/auth/refresh', { schema }, async (request) => {
    const identity = await readBearer(codec, request, 'refresh');
    const { receivedAt } = request;
    return pairBody(await refresh({ identity, client: clientOf(request), receivedAt }));
  });
  done();
};
