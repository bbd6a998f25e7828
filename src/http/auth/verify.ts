import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onRequestAsyncHookHandler,
} from 'fastify';
import Type from 'typebox';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { ALL_METHODS } from '../plugins/method-not-allowed.ts';
import { Id } from '../schemas.ts';

const ANSWERS = {
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
};

const Audience = Type.String({ description: 'A registered audience', examples: ['orders'] });

const schema = operation({
  operationId: 'verify',
  summary: 'Is this access token or long-lived token good right now?',
  description:
    'For proxies (`auth_request`, `forward_auth`) and services. It takes any method and ignores the body, so that a proxy can pass its client’s request on unchanged. Envoy may append its path. With `audience`, only a token that was exchanged for it is good.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  querystring: Type.Object({ audience: Type.Optional(Audience) }),
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS,
});

const audienceSchema = operation({
  operationId: 'verifyForAudience',
  summary: 'Is this a good token for one audience?',
  description:
    'As verify with `audience`: only a token that was exchanged for exactly this audience is good. For proxies that append their client’s path and query, as Envoy does: nothing of them is read.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  params: Type.Object({ audience: Audience }),
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS,
});

/**
 * The hottest path. A proxy calls it with its client's own method, headers and perhaps body, so it answers without
 * reading a body.
 */
export function verifyRoute(app: FastifyInstance, _options: object, done: () => void): void {
  const { principal } = app.auth;
  const forQuery = app.auth.exchanged(audienceOfQuery);
  const forPath = app.auth.exchanged(({ params }) => (params as { audience: string }).audience);
  const add = (url: string, schema: FastifySchema, authenticate: onRequestAsyncHookHandler) =>
    app.route({
      method: ALL_METHODS,
      url,
      schema,
      config: { group: 'verify' },
      onRequest: [authenticate, answer],
      handler: answer,
    });

  add('/api/auth/verify', schema, function authenticate(request, reply) {
    const { audience } = request.query as { audience?: unknown };
    return (audience === undefined ? principal : forQuery).call(this, request, reply);
  });
  add('/api/auth/audiences/:audience/verify', audienceSchema, forPath);
  // Envoy appends its client's path and query; both are ignored. The reference leaves these two out: OpenAPI has no
  // parameter for the rest of a path.
  add('/api/auth/verify/*', { operationId: 'verifyForPath', hide: true }, principal);
  add(
    '/api/auth/audiences/:audience/verify/*',
    { operationId: 'verifyForAudienceAndPath', hide: true },
    forPath,
  );
  done();
}

/**
 * The audience that the proxy has set. Caddy passes its client's query on if its `uri` has none, so that the client could
 * choose the audience. Therefore an audience that also stands in the client's query (X-Forwarded-Uri) does not count.
 * @returns null if it is repeated, or may be the client's.
 */
function audienceOfQuery({ query, headers }: FastifyRequest): string | null {
  const { audience } = query as { audience: unknown };
  const [, ...asked] = String(headers['x-forwarded-uri'] ?? '').split('?');
  const isClients = new URLSearchParams(asked.join('?')).has('audience');
  return typeof audience === 'string' && !isClients ? audience : null;
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
