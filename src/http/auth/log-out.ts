import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Bearer } from '../../domain/access-tokens/principal.ts';
import { AuthError } from '../../domain/errors.ts';
import type { LogOut } from '../../domain/sessions/log-out.ts';
import type { EndToken } from '../../domain/tokens/end-token.ts';
import { operation } from '../openapi/operation.ts';
import { bearerOf, principalOf } from '../plugins/authenticate.ts';
import { IdText, MessageSchema, parseId, refuseBody } from '../schemas.ts';

interface LogOutRoute {
  logOut: LogOut;
  endToken: EndToken;
}

const schema = operation({
  operationId: 'logOut',
  summary: 'End a session or a long-lived token; the one used where no id is given',
  description:
    'Ends the whole session, access and refresh token. Any unexpired access token of it will do, also one that a refresh has superseded, and ending what is over already is 200 again, so that a retry is safe. A long-lived token may end nothing but itself.',
  tags: ['Sessions'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_unknown', 'token_not_allowed'],
  querystring: Type.Object({ id: Type.Optional(IdText) }, { additionalProperties: false }),
  response: { 200: MessageSchema },
});

const schemaWithId = operation({
  ...schema,
  operationId: 'logOutById',
  summary: 'End the session or long-lived token with this id',
  description: 'As without an id in the path. An id in the query as well has to be the same.',
  params: Type.Object({ id: IdText }),
});

export const logOutRoute: FastifyPluginCallbackTypebox<LogOutRoute> = (app, { logOut, endToken }, done) => {
  const onRequest = app.auth.principalUnless(endsOwnToken);

  async function answer(request: FastifyRequest, inPath: string | undefined, inQuery: string | undefined) {
    refuseBody(request.body);
    const id = targetOf(inPath, inQuery);
    const bearer = bearerOf(request);
    if (id === undefined || id === bearer.tokenId) await logOut(bearer);
    else await endToken(principalOf(request), id);
    return { msg: 'logged out' };
  }

  app.delete('/api/auth', { schema, onRequest }, (request) => answer(request, undefined, request.query.id));
  app.delete('/api/auth/:id', { schema: schemaWithId, onRequest }, (request) =>
    answer(request, request.params.id, request.query.id),
  );
  done();
};

/** Read before validation, as authentication comes first: whatever is not plainly the token in hand counts as another. */
function endsOwnToken({ params, query }: FastifyRequest, { tokenId }: Bearer): boolean {
  const given = [(params as { id?: string }).id, (query as { id?: unknown }).id];
  return given.every((id) => id === undefined || id === String(tokenId));
}

/** @throws AuthError `validation_failed` */
function targetOf(inPath: string | undefined, inQuery: string | undefined): number | undefined {
  const fromPath = inPath === undefined ? undefined : parseId(inPath, 'params/id');
  const fromQuery = inQuery === undefined ? undefined : parseId(inQuery, 'query/id');
  if (fromPath !== undefined && fromQuery !== undefined && fromPath !== fromQuery) {
    throw new AuthError('validation_failed', {
      errors: [{ path: 'query/id', message: 'differs from the id in the path' }],
    });
  }
  return fromPath ?? fromQuery;
}
