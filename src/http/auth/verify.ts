import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { ALL_METHODS } from '../plugins/method-not-allowed.ts';
import { Id } from '../schemas.ts';

const schema = operation({
  operationId: 'verify',
  summary: 'Is this access token or long-lived token good right now?',
  description:
    'For proxies (`auth_request`, `forward_auth`) and services. It takes any method and ignores the body, so that a proxy can pass its client’s request on unchanged. Envoy may append its path.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  'x-any-path-below': true,
  answers: {
    200: {
      description: 'The token is good; the headers name its user',
      headers: {
        'X-Auth-User': idHeader('The user’s id'),
        'X-Auth-Username': header(
          'The username in ASCII: other characters and `%` are percent-encoded UTF-8',
          '^[!-~]+$',
          'ada',
        ),
        'X-Auth-Roles': header(
          'The user’s present roles, separated by commas; empty for none',
          '^([a-z0-9:_-]{1,64}(,[a-z0-9:_-]{1,64}){0,31})?$',
          'editor,billing:read',
        ),
        'X-Auth-Session': idHeader('The id of the token: a session’s or a long-lived token’s'),
        'X-Auth-Token-Type': header('`access` or `llt`', '^(access|llt)$', 'access'),
      },
    },
  },
});

/** Envoy appends its client's path and query; they are ignored. */
const ROUTES = [
  { url: '/api/auth/verify', schema },
  // The same operation: OpenAPI has no parameter for the rest of a path.
  { url: '/api/auth/verify/*', schema: { operationId: 'verifyForPath', hide: true } },
];

/**
 * The hottest path. A proxy calls it with its client's own method, headers and perhaps body, so it answers without
 * reading a body.
 */
export function verifyRoute(app: FastifyInstance, _options: object, done: () => void): void {
  for (const { url, schema } of ROUTES) {
    app.route({
      method: ALL_METHODS,
      url,
      schema,
      config: { group: 'verify' },
      onRequest: [app.auth.principal, answer],
      handler: answer,
    });
  }
  done();
}

function answer(request: FastifyRequest, reply: FastifyReply): void {
  const { user, tokenId, type } = principalOf(request);
  reply
    .header('x-auth-user', user.id)
    .header('x-auth-username', headerText(user.username))
    .header('x-auth-roles', user.roles.join(','))
    .header('x-auth-session', tokenId)
    .header('x-auth-token-type', type)
    .send('');
}

function idHeader(description: string): JsonObject {
  return { description, required: true, schema: { ...Id, description: undefined, readOnly: undefined } };
}

function header(description: string, pattern: string, example: string): JsonObject {
  return { description, required: true, schema: { type: 'string', pattern, examples: [example] } };
}

/** Header values are ASCII: anything else, and the percent sign itself, is percent-encoded UTF-8 (RFC 3986). */
function headerText(text: string): string {
  return text.replace(/[^\x21-\x24\x26-\x7e]/gu, encodeURIComponent);
}
