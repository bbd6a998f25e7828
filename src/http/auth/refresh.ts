import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { Refresh } from '../../domain/sessions/refresh.ts';
import type { CallerFingerprint } from '../caller/fingerprint.ts';
import { operation } from '../openapi/operation.ts';
import type { TokenPairResponse } from '../token-pair-response.ts';
import { readBearer } from '../plugins/authenticate.ts';
import type { TokenCodec } from '../token-codec.ts';
import { PairSchema } from '../token-pair-response.ts';

interface RefreshRoute {
  refresh: Refresh;
  tokenPairResponse: TokenPairResponse;
  callerFingerprint: CallerFingerprint;
  codec: TokenCodec;
}

const schema = operation({
  operationId: 'refresh',
  summary: 'Refresh: the next pair of tokens',
  description:
    'The previous pair is no longer good. “Rules for clients” in `docs/api.md` says when to retry, and when the session ends instead.',
  tags: ['Sessions'],
  security: [{ bearerRefreshToken: [] }],
  refuses: ['token_reused', 'refresh_overlap'],
  response: { 200: PairSchema },
});

export const refreshRoute: FastifyPluginCallbackTypebox<RefreshRoute> = (app, options, done) => {
  const { refresh, tokenPairResponse, callerFingerprint, codec } = options;
  app.get('/api/auth/refresh', { schema, config: { group: 'refresh' } }, async (request) => {
    const identity = await readBearer(codec, request, 'refresh');
    const { receivedAt } = request;
    const caller = callerFingerprint(request);
    return tokenPairResponse(await refresh({ identity, caller, receivedAt, from: request }));
  });
  done();
};
