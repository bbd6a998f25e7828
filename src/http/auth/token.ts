import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import type { Exchange } from '../../domain/access-tokens/exchange.ts';
import type { ServiceTokens } from '../../domain/access-tokens/service-tokens.ts';
import type { CheckAssertion, RegisteredServices } from '../../domain/services/authenticate.ts';
import type { ServiceIdentity } from '../../domain/services/registered-service.ts';
import { AuthError } from '../../domain/errors.ts';
import type { ExchangedClaims, ServiceClaims } from '../../domain/tokens/claims.ts';
import { bearerTokenOf } from '../bearer.ts';
import { operation } from '../openapi/operation.ts';
import { serviceOf, type ServiceCredentials } from '../plugins/authenticate-service.ts';
import { formBody } from '../plugins/bodies.ts';
import type { TokenCodec } from '../token-codec.ts';

interface TokenRoute {
  exchange: Exchange;
  serviceTokens: Pick<ServiceTokens, 'issue'>;
  services: Pick<RegisteredServices, 'admitAgain'>;
  checkAssertion: CheckAssertion;
  credentials: ServiceCredentials;
  codec: TokenCodec;
}

export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
export const CLIENT_CREDENTIALS = 'client_credentials';
export const GRANTS = [TOKEN_EXCHANGE, CLIENT_CREDENTIALS] as const;
export const JWT_BEARER = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/** Open, as RFC 6749, section 3.2, demands: unknown parameters are ignored. */
const Form = Type.Object(
  {
    grant_type: Type.Enum([...GRANTS], {
      type: 'string',
      description: `\`${TOKEN_EXCHANGE}\` exchanges the \`subject_token\` of a user; \`${CLIENT_CREDENTIALS}\` gets a token of the service itself`,
      examples: [TOKEN_EXCHANGE],
    }),
    audience: Type.String({
      description: `A registered audience; with \`${CLIENT_CREDENTIALS}\` also \`ISSUER\``,
      examples: ['orders'],
    }),
    subject_token: Type.Optional(
      Type.String({
        description: 'The user’s access token; for an exchange only',
        writeOnly: true,
        examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
      }),
    ),
    subject_token_type: Type.Optional(
      Type.Literal(ACCESS_TOKEN, {
        description: `\`${ACCESS_TOKEN}\`; for an exchange only`,
        examples: [ACCESS_TOKEN],
      }),
    ),
    requested_token_type: Type.Optional(
      Type.Literal(ACCESS_TOKEN, {
        description: `If you send it, \`${ACCESS_TOKEN}\``,
        examples: [ACCESS_TOKEN],
      }),
    ),
    client_assertion_type: Type.Optional(
      Type.String({ description: `\`${JWT_BEARER}\`, with an assertion`, examples: [JWT_BEARER] }),
    ),
    client_assertion: Type.Optional(
      Type.String({
        description: 'A JWT of an issuer that vouches for the service, instead of its secret (RFC 7523)',
        writeOnly: true,
        examples: ['eyJhbGciOiJFUzI1NiIsImtpZCI6ImEifQ.eyJzdWIiOiJ3b3JrbG9hZCJ9.c2lnbmF0dXJl'],
      }),
    ),
    client_id: Type.Optional(
      Type.String({
        description: 'The service’s id; only with an assertion, and optional there',
        examples: ['lkc_n2Kx0pQ'],
      }),
    ),
  },
  {
    title: 'TokenRequest',
    description: 'A form, in which parameters that are not listed are ignored',
  },
);

const schema = operation({
  operationId: 'getToken',
  summary: 'Get a token that is good at one service only.',
  description: `**Token exchange** (RFC 8693) turns a user’s access token into one for a single audience, so that the service which receives it cannot use it elsewhere. The user’s own client may ask, and sends the subject token as its bearer token too, or a registered service with the right \`exchange\`. The new token ends with its session, after \`EXCHANGED_TOKEN_TTL\` (5 minutes), or with the subject token if that is earlier. A refresh does not end it, and Latchkey itself refuses it. An exchange counts as a use of the subject token.

**Client credentials** (RFC 6749, section 4.4) give a registered service with the right \`call:AUDIENCE\` a token of its own, with which it calls the service of that audience. It expires after \`SERVICE_TOKEN_TTL\` (5 minutes), and ends earlier if the calling service is disabled or deleted, loses the right, or has its tokens ended. With the audience \`ISSUER\`, which needs no right, the token is good at Latchkey wherever the id and the secret are. A service token cannot be exchanged for another one.`,
  tags: ['Registered services'],
  security: [{ serviceClient: [] }, { serviceToken: [] }, { bearerAuth: [] }],
  refuses: ['unsupported_grant_type', 'invalid_subject_token', 'invalid_target', 'unavailable'],
  consumes: ['application/x-www-form-urlencoded'],
  body: Form,
  response: {
    200: Type.Object(
      {
        access_token: Type.String({
          description: 'The token for the audience',
          readOnly: true,
          examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJhdWQiOiJvcmRlcnMifQ.c2lnbmF0dXJl'],
        }),
        issued_token_type: Type.Optional(
          Type.Literal(ACCESS_TOKEN, { description: 'Only after an exchange', examples: [ACCESS_TOKEN] }),
        ),
        token_type: Type.Literal('Bearer'),
        expires_in: Type.Integer({ description: 'Seconds until it expires', examples: [300] }),
      },
      { title: 'IssuedToken', description: 'A token for one audience', additionalProperties: false },
    ),
  },
});

type TokenForm = Static<typeof Form>;

/** A user's own client may exchange no token but the one that it presents. */
const NOT_THE_BEARER = notAllowed('subject_token', 'must be the bearer token');

function notAllowed(parameter: string, message: string): AuthError {
  return new AuthError('validation_failed', {
    errors: [{ path: `/${parameter}`, code: 'not_allowed', message }],
  });
}

function missing(...parameters: string[]): AuthError {
  return new AuthError('validation_failed', {
    errors: parameters.map((name) => ({ path: `/${name}`, code: 'required', message: 'is required' })),
  });
}

/** What an exchange needs besides: a schema that depends on `grant_type` is beyond most tools that read the reference. */
function requireSubject(form: TokenForm): void {
  const absent = (['subject_token', 'subject_token_type'] as const).filter(
    (name) => form[name] === undefined,
  );
  if (absent.length > 0) throw missing(...absent);
}

function hasAssertion(form: Partial<TokenForm>): boolean {
  return form.client_assertion !== undefined || form.client_assertion_type !== undefined;
}

/** RFC 6749's token endpoint. */
export const tokenRoute: FastifyPluginAsyncTypebox<TokenRoute> = async (app, options) => {
  const { exchange, serviceTokens, services, checkAssertion, credentials, codec } = options;
  await app.register(formBody);

  /**
   * After the body, which may hold credentials too, and before it is validated: the parameters of other grants are not
   * ours.
   */
  async function authorize(request: FastifyRequest): Promise<void> {
    const form = (request.body ?? {}) as Partial<TokenForm>;
    const { grant_type: grant, client_id: id } = form;
    const service = await authenticate(request, form);
    if (service && id !== undefined && id !== service.serviceId)
      throw new AuthError('invalid_client', { reason: 'client_id', serviceId: service.serviceId });
    if (grant !== undefined && !GRANTS.includes(grant)) throw new AuthError('unsupported_grant_type');
    if (service && grant === TOKEN_EXCHANGE) await services.admitAgain(service, 'exchange');
    request.service = service;
  }

  /** RFC 6749, section 2.3: a request authenticates in one way only. @returns null for a user's own client. */
  async function authenticate(
    { headers }: FastifyRequest,
    form: Partial<TokenForm> & { client_secret?: string },
  ): Promise<ServiceIdentity | null> {
    if (form.client_secret !== undefined)
      throw notAllowed('client_secret', 'must not be in the form: send it by HTTP Basic');
    if (hasAssertion(form)) {
      if (headers.authorization !== undefined)
        throw notAllowed('client_assertion', 'must be the only credentials');
      return byAssertion(form);
    }
    const bearer = bearerTokenOf({ headers });
    return bearer === undefined
      ? credentials.bySecret(headers.authorization ?? '', null)
      : byBearer(bearer, form);
  }

  /** RFC 7523, section 2.2. */
  async function byAssertion(form: Partial<TokenForm>): Promise<ServiceIdentity> {
    const { client_assertion: assertion, client_assertion_type: type, client_id: id } = form;
    if (type === undefined) throw missing('client_assertion_type');
    if (type !== JWT_BEARER) throw notAllowed('client_assertion_type', `must be ${JWT_BEARER}`);
    if (assertion === undefined) throw missing('client_assertion');
    const identity = await checkAssertion(assertion, id);
    if (typeof identity === 'string') throw new AuthError('invalid_client', { reason: 'assertion' });
    return identity;
  }

  /** A bearer token is a service's own, or a user's: of these, the exchange takes the subject token itself. */
  async function byBearer(bearer: string, form: Partial<TokenForm>): Promise<ServiceIdentity | null> {
    const { grant_type: grant, subject_token: subject } = form;
    // No token begets its successor.
    if (grant === CLIENT_CREDENTIALS) throw new AuthError('invalid_client', { reason: 'malformed' });
    if (grant === TOKEN_EXCHANGE && bearer === subject) return null;
    try {
      return await credentials.byToken(bearer, null);
    } catch (error) {
      const isUsers = typeof (await codec.verify(bearer, 'access', 'llt')) === 'object';
      if (isUsers) return null;
      throw error;
    }
  }

  const budget = { none: 'the body authenticates a service or a session, and 256 bits cannot be guessed' };
  const config = { oauthErrors: true, group: 'refresh' as const, budget };
  app.post('/api/auth/token', { schema, config, preValidation: authorize }, async (request) => {
    const { grant_type: grant, subject_token: token = '', audience } = request.body;
    const { service } = request;
    if (grant === TOKEN_EXCHANGE) {
      requireSubject(request.body);
      if (!service && bearerTokenOf(request) !== token) throw NOT_THE_BEARER;
      const subject = await codec.verify(token, 'access');
      const serviceId = service?.serviceId ?? null;
      const claims = await exchange(subject, { audience, serviceId }, request);
      return { ...answer(claims), issued_token_type: ACCESS_TOKEN } as const;
    }
    return answer(await serviceTokens.issue(serviceOf(request), audience));
  });

  const answer = (claims: ExchangedClaims | ServiceClaims) =>
    ({
      access_token: codec.signFor(claims),
      token_type: 'Bearer',
      expires_in: claims.exp - claims.iat,
    }) as const;
};
