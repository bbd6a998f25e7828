import type {
  FastifyInstance,
  FastifyReply,
  FastifyRequest,
  FastifySchema,
  onRequestAsyncHookHandler,
} from 'fastify';
import Type from 'typebox';
import { requireProof } from '../../domain/access-tokens/verify.ts';
import type { Clock } from '../../domain/clock.ts';
import { AuthError } from '../../domain/errors.ts';
import { ACRS, type Acr, type Demand, type ServicePrincipal } from '../../domain/principal.ts';
import { scopesIn } from '../../domain/scopes.ts';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { principalOf } from '../plugins/authenticate.ts';
import { authenticates } from '../plugins/budgets.ts';
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

const DEMANDS = {
  demand_acr: Type.Optional(
    Type.Enum([...ACRS], {
      type: 'string',
      description:
        'Only tokens of a session that was opened with a second factor are good here, and with `phr` only those of a session that was opened with a passkey. Any other value, an empty or repeated one, and any other name that begins with `demand_` refuse every token, so that no mistake in a proxy’s configuration lets more tokens pass',
      examples: ['mfa'],
    }),
  ),
  demand_max_age: Type.Optional(
    Type.String({
      description:
        'Only tokens of a session that was opened at most so many seconds ago are good here: a decimal from 1',
      pattern: '^[1-9][0-9]{0,9}$',
      examples: ['300'],
    }),
  ),
};
const Demands = Type.Object(DEMANDS);

const schema = operation({
  operationId: 'verify',
  summary: 'Ask whether a token is good right now, and whose it is.',
  description:
    'For proxies (`auth_request`, `forward_auth`) and services. It takes any method and ignores the body and any further path, so a proxy can pass its client’s request on unchanged. Without `audience`, access tokens and long-lived tokens are good here. With `audience`, only tokens for that audience are: exchanged ones, and services’ own. A limited token for the audience is answered 403 without a look at whether it has ended, since no scope is demanded. Long-lived tokens and services’ own say nothing of a login, so they meet no demand.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: ['insufficient_user_authentication'],
  querystring: Type.Object({ audience: Type.Optional(Audience), ...DEMANDS }),
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS,
});

const audienceSchema = operation({
  operationId: 'verifyForAudience',
  summary: 'Ask whether a token is good for one audience, and whose it is.',
  description:
    'The same as verify with `audience`, for proxies such as Envoy that append their client’s path and query, which are ignored here: a demand counts only if no further path follows.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: ['insufficient_user_authentication'],
  params: Type.Object({ audience: Audience }),
  querystring: Demands,
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
    'The same as verify without `audience`, except that a limited token is good here too if it has all the scopes. A limited token with too few of them is answered 403. The scopes say nothing about what the user may do, so a service that needs a role checks `X-Auth-Roles` as well. Any further path is ignored, and so is the query, except for what it demands of the login, which no limited token meets. Scopes that do not have the right form are answered 404 for every token, so that a mistake in a proxy’s configuration shows at once.',
  tags: ['Verification'],
  security: [{ bearerAuth: [] }],
  refuses: ['insufficient_scope', 'not_found', 'insufficient_user_authentication'],
  params: Type.Object({ scopes: Scopes }),
  querystring: Demands,
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
  refuses: ['insufficient_scope', 'not_found', 'insufficient_user_authentication'],
  params: Type.Object({ audience: Audience, scopes: Scopes }),
  querystring: Demands,
  isValidated: false,
  'x-any-path-below': true,
  answers: ANSWERS_IN_SCOPE,
});

interface VerifyRoute {
  clock: Pick<Clock, 'now' | 'isTrusted'>;
}

/**
 * The hottest path. A proxy calls it with its client's own method, headers and perhaps body, so it answers without
 * reading a body.
 */
export function verifyRoute(app: FastifyInstance, { clock }: VerifyRoute, done: () => void): void {
  const { principal } = app.auth;
  const forQuery = app.auth.forAudience(audienceOfQuery);
  const forPath = app.auth.forAudience(({ params }) => (params as { audience: string }).audience);
  const add = (url: string, schema: FastifySchema, authenticate: onRequestAsyncHookHandler) =>
    app.route({
      method: ALL_METHODS,
      url,
      schema,
      config: { group: 'verify' },
      onRequest: [authenticate, answerIfProven],
      handler: answerIfProven,
    });

  /** The demand comes last: a token that has ended is refused as such, and an outage is 503. */
  function answerIfProven(request: FastifyRequest, reply: FastifyReply): void {
    const demand = demandOf(request);
    if (demand) requireProof(request.callingService ? null : principalOf(request), demand, clock);
    answer(request, reply);
  }

  const byQuery = authenticates(function authenticate(request, reply) {
    const { audience } = request.query as { audience?: unknown };
    return (audience === undefined ? principal : forQuery).call(this, request, reply);
  });
  add('/api/auth/verify', schema, byQuery);
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

/**
 * What the proxy demands of the login. Unlike an audience, a demand of the client's own does no harm, because it can
 * only add to the proxy's. Below the path, the query is its client's and counts for nothing. A slash at the end is no
 * path: a proxy whose address ends in one would demand nothing without anyone noticing.
 * @returns null for nothing.
 * @throws AuthError `insufficient_user_authentication` if it is not understood
 */
function demandOf({ query, params }: FastifyRequest): Demand | null {
  const names = Object.keys(query as object).filter((name) => /^demand_/i.test(name));
  const { '*': rest = '' } = params as { '*'?: string };
  if (names.length === 0 || rest !== '') return null;
  const { demand_acr: acr = null, demand_max_age: maxAge = null } = query as Record<string, unknown>;
  const isUnderstood =
    names.every((name) => Object.hasOwn(DEMANDS, name)) &&
    (acr === null || isAcr(acr)) &&
    (maxAge === null || (typeof maxAge === 'string' && /^[1-9][0-9]{0,9}$/.test(maxAge)));
  if (!isUnderstood)
    throw new AuthError('insufficient_user_authentication', { demand: null, reason: 'demand' });
  return { acr: isAcr(acr) ? acr : null, maxAge: maxAge === null ? null : Number(maxAge) };
}

function isAcr(value: unknown): value is Acr {
  return (ACRS as readonly unknown[]).includes(value);
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
