import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { WriteBehind } from '../../domain/tokens/write-behind.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { closedBody, MessageSchema } from '../schemas.ts';

interface UsesRoute {
  noteReported: WriteBehind['noteReported'];
}

/** The most ids of one request, whose body has at most 16 KiB. */
const MOST_USES = 500;

const schema = operation({
  operationId: 'reportUses',
  summary: 'Say which long-lived and limited tokens you have taken without asking.',
  description:
    'Moves `last_used_at` of these tokens to now, at most once a minute for each token. An id of a session, of a token that has ended or of no token changes nothing, and the answer does not show it. A service that remembers which tokens are good, as `@latchkey/verifier` does, sends them once a minute, so that their owners see that they are in use. It needs the right `introspect`.',
  tags: ['Registered services'],
  security: BY_SERVICE,
  refuses: [],
  body: closedBody('Uses', {
    tokens: Type.Array(
      Type.Integer({
        description: 'The id of a token, which is its claim `sid`',
        minimum: 1,
        maximum: Number.MAX_SAFE_INTEGER,
      }),
      { description: 'Each once is enough', minItems: 1, maxItems: MOST_USES, examples: [[7, 8]] },
    ),
  }),
  response: { 200: MessageSchema },
});

export const usesRoute: FastifyPluginCallbackTypebox<UsesRoute> = (app, { noteReported }, done) => {
  const options = { schema, ...app.auth.service('introspect'), config: { group: 'introspection' as const } };
  app.post('/api/auth/uses', options, (request) => {
    noteReported(request.body.tokens);
    return { msg: 'received' };
  });
  done();
};
