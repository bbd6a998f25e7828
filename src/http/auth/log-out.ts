import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Bearer } from '../../domain/principal.ts';
import { AuthError } from '../../domain/errors.ts';
import type { EndToken, LogOut } from '../../domain/tokens/end-token.ts';
import { operation } from '../openapi/operation.ts';
import { bearerOf, callerOf } from '../plugins/authenticate.ts';
import { IdText, MessageSchema, parseId, refuseBody } from '../schemas.ts';

interface LogOutRoute {
  logOut: LogOut;
  endToken: EndToken;
}

const schema = operation({
  operationId: 'logOut',
  summary: 'Log out.',
  description:
    'Ends the session of the access token that you send, so its refresh token ends too. With `id`, it ends another session or long-lived token of the same user instead. Any unexpired access token of the session will do, even one that a refresh has replaced. You may repeat the request, because a token that has ended already is 200 again. A long-lived token may end only itself, and so may a limited token, which can do nothing else at Latchkey.',
  tags: ['Logout'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_unknown', 'token_not_allowed', 'rate_limited'],
  takesLimited: true,
  querystring: Type.Object({ id: Type.Optional(IdText) }, { additionalProperties: false }),
  response: { 200: MessageSchema },
});

const schemaWithId = operation({
  ...schema,
  operationId: 'logOutById',
  summary: 'End the session or the long-lived token with this id.',
  description:
    'The same as a logout with `id` in the query. If the query has an id too, it must be the same one.',
  params: Type.Object({ id: IdText }),
});

const tokenSchema = operation({
  ...schemaWithId,
  operationId: 'endToken',
  summary: 'End the token with this id, as the list of tokens shows it.',
  description: 'The same as a logout with `id` in the path, where one looks for it beside the list.',
});

export const logOutRoute: FastifyPluginCallbackTypebox<LogOutRoute> = (app, { logOut, endToken }, done) => {
  const access = app.auth.changeUnless(endsOwnToken, 'limited');

  async function answer(request: FastifyRequest, inPath: string | undefined, inQuery: string | undefined) {
    refuseBody(request.body);
    const id = targetOf(inPath, inQuery);
    const bearer = bearerOf(request);
    if (id === undefined || id === bearer.tokenId) await logOut(bearer, request);
    else await endToken(callerOf(request), id, request);
    return { msg: 'logged out' };
  }

  app.delete('/api/auth', { schema, ...access }, (request) => answer(request, undefined, request.query.id));
  app.delete('/api/auth/:id', { schema: schemaWithId, ...access }, (request) =>
    answer(request, request.params.id, request.query.id),
  );
  app.delete('/api/user/tokens/:id', { schema: tokenSchema, ...access }, (request) =>
    answer(request, request.params.id, request.query.id),
  );
  done();
};

/** Runs before validation, so any id that is not exactly that of the presented token counts as another token's. */
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
      errors: [{ path: 'query/id', code: 'not_allowed', message: 'differs from the id in the path' }],
    });
  }
  return fromPath ?? fromQuery;
}
