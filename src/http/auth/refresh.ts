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
  summary: 'Exchange the refresh token for the next pair of tokens.',
  description:
    'Both tokens of the previous pair are superseded at once, so on this page paste the new ones at **Authorize** before you go on. If no answer arrives, or one other than 401 and 403, retry with the same refresh token: within `REFRESH_RETRY_WINDOW` (10 s), the same client gets the same pair again. If a superseded refresh token comes back later, after its successor was used, Latchkey takes it for stolen and ends the session.',
  tags: ['Sessions'],
  security: [{ bearerRefreshToken: [] }],
  refuses: ['token_reused', 'refresh_overlap'],
  response: { 200: PairSchema },
});

export const refreshRoute: FastifyPluginCallbackTypebox<RefreshRoute> = (app, options, done) => {
  const { refresh, tokenPairResponse, callerFingerprint, codec } = options;
  const budget = { none: 'without a refresh token of ours it does nothing, and that is one session’s' };
  app.get('/api/auth/refresh', { schema, config: { group: 'refresh', budget } }, async (request) => {
    const identity = await readBearer(codec, request, 'refresh');
    const { receivedAt } = request;
    const caller = callerFingerprint(request);
    return tokenPairResponse(await refresh({ identity, caller, receivedAt, from: request }));
  });
  done();
};
