import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onRequestAsyncHookHandler,
} from 'fastify';
import Type from 'typebox';
import { AuthError } from '../../domain/errors.ts';
import type { ServicePrincipal } from '../../domain/principal.ts';
import { scopesIn } from '../../domain/scopes.ts';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { ALL_METHODS } from '../plugins/method-not-allowed.ts';
import { Id } from '../schemas.ts';

/** @param types of tokens that are good, besides a service's. */
const answersOf = (...types: string[]) => ({
  200: {
    description: 'The token is good. The headers name its user, or the service to which it belongs.',
    headers: {
      'X-Auth-User': idHeader('The user’s id; empty for a service'),
      'X-Auth-Username': header(
        'The username, in which `%` and characters outside ASCII are percent-encoded UTF-8; empty for a service',
        '^[!-~]*$',
        'ada',
      ),
      'X-Auth-Roles': header(
        'The present roles of the user or service, separated by commas; empty for none',
        '^([a-z0-9:_-]{1,64}(,[a-z0-9:_-]{1,64}){0,31})?$',
        'editor,billing:read',
      ),
      'X-Auth-Session': idHeader('The id of the session or long-lived token; empty for a service'),
      'X-Auth-Token-Type': header(
        `${types.map((type) => `\`${type}\``).join(', ')} or \`service\``,
        `^(${types.join('|')}|service)$`,
        'access',
      ),
      'X-Auth-Client': header(
        'The service that calls as itself, or that exchanged the user’s token; otherwise empty',
        '^(lkc_[A-Za-z0-9_-]{22})?$',
        'lkc_n2Kx0pQ4Xc8rVbT1yZsW7A',
      ),
    },
  },
});

const ANSWERS = answersOf('access', 'llt');
const ANSWERS_IN_SCOPE = answersOf('access', 'llt', 'limited');

const Audience = Type.String({ description: 'A registered audience', examples: ['orders'] });

const schema = operation({
  operationId: 'verify',
  summary: 'Ask whether a token is good right now, and whose it is.',
  description:
    'For proxies (`auth_request`, `forward_auth`) and services. It takes any method and ignores the body and any further path, so a proxy can pass its client’s request on unchanged. Without `audience`, access tokens and long-lived tokens are good here. With `audience`, only tokens for that audience are: exchanged ones, and services’ own.',
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
  summary: 'Ask whether a token is good for one audience, and whose it is.',
  description:
    'The same as verify with `audience`, for proxies such as Envoy that append their client’s path and query, which are ignored here.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: [],
  params: Type.Object({ audience: Audience }),
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS,
});

const Scopes = Type.String({
  description:
    '1 to 32 different names of `[a-z0-9:_-]{1,64}`, separated by commas. A limited token needs all of them',
  examples: ['orders:read'],
});

const scopesSchema = operation({
  operationId: 'verifyInScope',
  summary: 'Ask whether a token is good where these scopes are needed, and whose it is.',
  description:
    'The same as verify without `audience`, except that a limited token is good here too if it has all the scopes. A limited token with too few of them is answered 403. The scopes say nothing about what the user may do, so a service that needs a role checks `X-Auth-Roles` as well. The query and any further path are ignored. Scopes that do not have the right form are answered 404 for every token, so that a mistake in a proxy’s configuration shows at once.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: ['insufficient_scope', 'not_found'],
  params: Type.Object({ scopes: Scopes }),
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS_IN_SCOPE,
});

const audienceScopesSchema = operation({
  operationId: 'verifyInScopeForAudience',
  summary: 'Ask whether a token is good for one audience where these scopes are needed, and whose it is.',
  description:
    'The same as verify for an audience, except that a limited token for that audience is good here too if it has all the scopes.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: ['insufficient_scope', 'not_found'],
  params: Type.Object({ audience: Audience, scopes: Scopes }),
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS_IN_SCOPE,
});

/**
 * The hottest path. A proxy calls it with its client's own method, headers and perhaps body, so it answers without
 * reading a body.
 */
export function verifyRoute(app: FastifyInstance, _options: object, done: () => void): void {
  const { principal } = app.auth;
  const forQuery = app.auth.forAudience(audienceOfQuery);
  const forPath = app.auth.forAudience(({ params }) => (params as { audience: string }).audience);
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

  const inScope = app.auth.inScope(scopesOfPath);
  const inScopeForPath = app.auth.inScopeForAudience(
    scopesOfPath,
    ({ params }) => (params as { audience: string }).audience,
  );
  add('/api/auth/scopes/:scopes/verify', scopesSchema, inScope);
  add('/api/auth/audiences/:audience/scopes/:scopes/verify', audienceScopesSchema, inScopeForPath);
  add('/api/auth/scopes/:scopes/verify/*', { operationId: 'verifyInScopeForPath', hide: true }, inScope);
  add(
    '/api/auth/audiences/:audience/scopes/:scopes/verify/*',
    { operationId: 'verifyInScopeForAudienceAndPath', hide: true },
    inScopeForPath,
  );
  done();
}

/** @throws AuthError `not_found` */
function scopesOfPath({ params }: FastifyRequest): readonly string[] {
  const scopes = scopesIn((params as { scopes: string }).scopes, ',');
  if (!scopes) throw new AuthError('not_found');
  return scopes;
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

/** Every header is always sent: a proxy overwrites with it what its client sent. */
function answer(request: FastifyRequest, reply: FastifyReply): void {
  if (request.callingService) {
    answerService(request.callingService, reply);
    return;
  }
  const { user, tokenId, type } = principalOf(request);
  reply
    .header('x-auth-user', user.id)
    .header('x-auth-username', headerText(user.username))
    .header('x-auth-roles', user.roles.join(','))
    .header('x-auth-session', tokenId)
    .header('x-auth-token-type', type)
    .header('x-auth-client', request.actor)
    .send('');
}

function answerService({ serviceId, roles }: ServicePrincipal, reply: FastifyReply): void {
  reply
    .header('x-auth-user', '')
    .header('x-auth-username', '')
    .header('x-auth-roles', roles.join(','))
    .header('x-auth-session', '')
    .header('x-auth-token-type', 'service')
    .header('x-auth-client', serviceId)
    .send('');
}

function idHeader(description: string): JsonObject {
  const id = { ...Id, description: undefined, readOnly: undefined };
  return {
    description,
    required: true,
    schema: { anyOf: [id, { type: 'string', const: '' }], examples: [7] },
  };
}

function header(description: string, pattern: string, example: string): JsonObject {
  return { description, required: true, schema: { type: 'string', pattern, examples: [example] } };
}

/** Header values are ASCII: anything else, and the percent sign itself, is percent-encoded UTF-8 (RFC 3986). */
function headerText(text: string): string {
  return text.replace(/[^\x21-\x24\x26-\x7e]/gu, encodeURIComponent);
}
