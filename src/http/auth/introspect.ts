import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { Introspect } from '../../domain/access-tokens/introspect.ts';
import { AuthError } from '../../domain/errors.ts';
import type { RegisteredServices } from '../../domain/services/authenticate.ts';
import type { ServiceIdentity } from '../../domain/services/registered-service.ts';
import { exampleOf } from '../openapi/example.ts';
import type { JsonObject } from '../openapi/json.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { formBody } from '../plugins/bodies.ts';
import type { Config } from '../../config/config.ts';
import type { TokenCodec } from '../token-codec.ts';
import { Id, Roles, TokenForm } from '../schemas.ts';

interface IntrospectRoute {
  introspect: Introspect;
  services: Pick<RegisteredServices, 'find' | 'admitAgain'>;
  codec: TokenCodec;
  config: Pick<Config, 'AUDIENCE'>;
}

const text = (description: string, example: string) => Type.String({ description, examples: [example] });
const date = (description: string, example: number) => Type.Integer({ description, examples: [example] });
const id = (description: string, example: number) => ({ ...Id, description, examples: [example] });
const EmailVerified = Type.Optional(
  Type.Literal(true, {
    description:
      'Present if the user’s e-mail address is proved now, whatever the token says; otherwise absent',
  }),
);

const ActiveToken = Type.Object(
  {
    active: Type.Literal(true, { description: 'The token is good' }),
    token_type: Type.Literal('Bearer'),
    token_use: Type.Union([Type.Literal('access'), Type.Literal('llt')], {
      description: 'An access token, or a long-lived one',
    }),
    iss: text('`ISSUER`', 'https://auth.example.com'),
    aud: text('`AUDIENCE`, or the audience that it was exchanged for', 'latchkey'),
    sub: text('The user’s id, as text because JWTs demand that', '7'),
    client_id: Type.Optional(
      text(
        '`latchkey`: users sign in to the service itself. Of an exchanged token, the service that asked for it, if one did. Absent in a long-lived token',
        'latchkey',
      ),
    ),
    act: Type.Optional(
      Type.Object(
        { sub: Type.String({ description: 'Its `client_id`', examples: ['lkc_n2Kx0pQ'] }) },
        {
          title: 'Actor',
          description: 'The service that asked for an exchanged token, if one did',
          additionalProperties: false,
        },
      ),
    ),
    username: text('The username', 'ada'),
    sid: id('The id of the session or the long-lived token', 7),
    gen: Type.Optional(id('The generation of the session’s pair; absent in a long-lived token', 1)),
    jti: text('The token’s own id', '7.1'),
    iat: date('When it was issued, in seconds since 1970', 1795000000),
    exp: Type.Optional(date('When it expires; absent in a long-lived token without expiry', 1795000900)),
    roles: { ...Roles, description: 'The user’s present roles, which may differ from those in the token' },
    email_verified: EmailVerified,
    auth_time: Type.Optional(
      date(
        'When the session was opened, in seconds since 1970; absent in a long-lived token, and in a token of 1.0.0',
        1795000000,
      ),
    ),
    acr: Type.Optional(
      Type.String({
        description:
          '`mfa` if the session was opened with a second factor, and `phr` with a passkey, which proves `mfa` too; otherwise absent',
        examples: ['mfa'],
      }),
    ),
    amr: Type.Optional(
      Type.Array(Type.String(), {
        description: 'With which proofs (RFC 8176), if `acr` is there',
        examples: [['pwd', 'otp', 'mfa']],
      }),
    ),
  },
  { title: 'ActiveToken', description: 'A good token, and its owner', additionalProperties: false },
);

const ActiveServiceToken = Type.Object(
  {
    active: Type.Literal(true, { description: 'The token is good' }),
    token_type: Type.Literal('Bearer'),
    token_use: Type.Literal('service', { description: 'A service’s own token' }),
    iss: text('`ISSUER`', 'https://auth.example.com'),
    aud: text('The audience that asks', 'orders'),
    sub: text('The service’s id, the same as `client_id`', 'lkc_n2Kx0pQ4Xc8rVbT1yZsW7A'),
    client_id: text('The service whose token it is', 'lkc_n2Kx0pQ4Xc8rVbT1yZsW7A'),
    client_version: Type.Integer({
      description: 'Rises each time that all tokens of the service are ended',
      examples: [1],
    }),
    jti: text('The token’s own id', 'Vq3yTn0c1mKfR8sXwLz2Ag'),
    iat: date('When it was issued, in seconds since 1970', 1795000000),
    exp: date('When it expires', 1795000300),
    roles: { ...Roles, description: 'The service’s present roles, which may differ from those in the token' },
  },
  {
    title: 'ActiveServiceToken',
    description: 'A good token of a service, which has no user and no session',
    additionalProperties: false,
  },
);

const ActiveLimitedToken = Type.Object(
  {
    active: Type.Literal(true, { description: 'The token is good' }),
    token_type: Type.Literal('Bearer'),
    token_use: Type.Literal('limited', { description: 'A limited token' }),
    iss: text('`ISSUER`', 'https://auth.example.com'),
    aud: text('`AUDIENCE` or the audience that asks, followed by `#limited`', 'latchkey#limited'),
    sub: text('The user’s id, as text because JWTs demand that', '7'),
    username: text('The username', 'ada'),
    sid: id('The id of the limited token', 7),
    jti: text('The token’s own id', '7'),
    scope: text('What the token is good for, separated by spaces', 'orders:read'),
    iat: date('When it was issued, in seconds since 1970', 1795000000),
    exp: date('When it expires', 1802776000),
    roles: { ...Roles, description: 'The user’s present roles. The token may do less than they say' },
    email_verified: EmailVerified,
  },
  {
    title: 'ActiveLimitedToken',
    description: 'A good limited token, for a service with the right `limited`, which checks its scopes',
    additionalProperties: false,
  },
);

const InactiveToken = Type.Object(
  {
    active: Type.Literal(false, {
      description: 'The token is not good, and the answer says nothing else about it',
    }),
  },
  { title: 'InactiveToken', description: 'A token that is not good', additionalProperties: false },
);

/** In the reference only: the route sends text, so a serializer would be made and never used. */
const ANSWER = {
  description: 'What the token is worth',
  headers: {
    'X-Latchkey-Audience': {
      description:
        'The audience whose tokens this service may ask about, its own or `AUDIENCE`, percent-encoded (`encodeURI`). Tokens for any other are inactive to it',
      required: true,
      schema: { type: 'string', pattern: '^[!-~]*$' },
      example: 'latchkey',
    },
    'X-Latchkey-Limited': {
      description:
        'Whether this service has the right `limited`. Without it, every limited token is inactive to the service',
      required: true,
      schema: { type: 'string', enum: ['true', 'false'] },
      example: 'false',
    },
  },
  content: {
    'application/json': {
      schema: {
        title: 'Introspection',
        type: 'object',
        oneOf: [ActiveToken, ActiveServiceToken, ActiveLimitedToken, InactiveToken],
      },
      examples: {
        active: { summary: 'A good token', value: exampleOf(ActiveToken as unknown as JsonObject) },
        service: {
          summary: 'A good token of a service',
          value: exampleOf(ActiveServiceToken as unknown as JsonObject),
        },
        limited: {
          summary: 'A good limited token',
          value: exampleOf(ActiveLimitedToken as unknown as JsonObject),
        },
        inactive: { summary: 'Any other token', value: { active: false } },
      },
    },
  },
};

const INACTIVE = JSON.stringify({ active: false });

const schema = operation({
  operationId: 'introspect',
  summary: 'Ask what a token that you received is worth (RFC 7662).',
  description:
    'A good access token or long-lived token is answered with its owner and claims, any other token only with `{"active":false}`; a refresh token is never active. To a service with an audience of its own, only tokens for that audience are active. A limited token is active only to a service with the right `limited`, which nobody has by default. The request counts as a use of the token, as any other does. It needs the right `introspect`.',
  tags: ['Registered services'],
  security: BY_SERVICE,
  refuses: [],
  consumes: ['application/x-www-form-urlencoded'],
  body: TokenForm,
  answers: { 200: ANSWER },
});

/**
 * What our claims say of the user, as of the time of issue. More members follow, and no string in JSON holds these texts,
 * since its quotes are escaped.
 */
const OF_USER = /"roles":\[[^\]]*\],|"email_verified":true,/g;

export const introspectRoute: FastifyPluginAsyncTypebox<IntrospectRoute> = async (
  app,
  { introspect, services, codec, config },
) => {
  await app.register(formBody);
  // AUDIENCE may be any text. A registered audience needs no encoding.
  const encodedOwn = encodeURI(config.AUDIENCE);
  const hasRight = ({ serviceId }: ServiceIdentity) =>
    services.find(serviceId)?.rights.includes('limited') === true;
  async function admits(service: ServiceIdentity): Promise<boolean> {
    try {
      await services.admitAgain(service, 'limited');
      return true;
    } catch (error) {
      if (error instanceof AuthError && error.code === 'right_missing') return false;
      throw error;
    }
  }
  const options = {
    schema,
    ...app.auth.service('introspect'),
    config: { oauthErrors: true, group: 'introspection' as const },
  };
  app.post('/api/auth/introspect', options, async (request, reply) => {
    const { token } = request.body;
    const service = serviceOf(request);
    const { audience } = service;
    // A refresh token is good for no resource, so it is inactive, like an unknown token.
    const found =
      audience === null
        ? await codec.verify(token, 'access', 'llt', 'limited')
        : await codec.verifyFor(token, audience, 'limited');
    const isLimited = typeof found === 'object' && found.type === 'limited';
    // A right that seems to be missing may be new, and only a limited token is worth the look. A service without the
    // right waits for one load of the registry, a second at most, with each limited token that somebody sends it. All
    // such requests share a load a second, as those with a wrong secret do, and no other request waits. Without the
    // look, verifiers would call the right missing for seconds after it was granted.
    const mayLimited = isLimited ? await admits(service) : hasRight(service);
    const principal = await introspect(isLimited && !mayLimited ? 'right' : found, request);
    // A resource server that expects tokens for another audience, or limited ones, would take `inactive` for the
    // tokens' fault.
    reply
      .header('x-latchkey-audience', audience ?? encodedOwn)
      .header('x-latchkey-limited', String(mayLimited))
      .type('application/json; charset=utf-8');
    if (typeof principal === 'string') {
      request.refusalReason = principal;
      return INACTIVE;
    }
    // The claims are JSON already, as we signed them. To parse them and write them again would cost more than the
    // check.
    const { username, roles, emailVerified } =
      principal.type === 'service'
        ? { ...principal, username: undefined, emailVerified: false }
        : principal.user;
    const added = {
      active: true,
      token_type: 'Bearer',
      token_use: principal.type,
      username,
      roles,
      email_verified: emailVerified ? true : undefined,
    };
    const claims = codec.payloadOf(token).replace(OF_USER, '');
    return `${claims.slice(0, -1)},${JSON.stringify(added).slice(1)}`;
  });
};
