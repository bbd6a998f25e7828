import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Bearer } from '../../domain/access-tokens/principal.ts';
import { AuthError } from '../../domain/errors.ts';
import type { LogOut } from '../../domain/sessions/log-out.ts';
import type { EndToken } from '../../domain/tokens/end-token.ts';
import { bearerOf, principalOf } from '../plugins/authenticate.ts';
import { IdText, MessageSchema, parseId, refuseBody } from '../schemas.ts';

interface LogOutRoute {
  logOut: LogOut;
  endToken: EndToken;
}

const schema = {
  operationId: 'logOut',
  summary: 'End a session or a long-lived token; the one used where no id is given',
  querystring: Type.Object({ id: Type.Optional(IdText) }, { additionalProperties: false }),
  response: { 200: MessageSchema },
};

const schemaWithId = {
  ...schema,
  operationId: 'logOutById',
  params: Type.Object({ id: IdText }),
};

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
