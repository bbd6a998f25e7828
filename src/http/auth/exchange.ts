import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import type { FastifyReply, FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { Exchange } from '../../domain/access-tokens/exchange.ts';
import { AuthError } from '../../domain/errors.ts';
import { operation } from '../openapi/operation.ts';
import { bearerTokenOf } from '../plugins/authenticate.ts';
import formBody from '../plugins/form-body.ts';
import type { TokenCodec } from '../token-codec.ts';

interface ExchangeRoute {
  exchange: Exchange;
  codec: TokenCodec;
}

export const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/** Open, as RFC 6749, section 3.2, demands: unknown parameters are ignored. */
const Form = Type.Object(
  {
    grant_type: Type.String({ description: `\`${TOKEN_EXCHANGE}\``, examples: [TOKEN_EXCHANGE] }),
    subject_token: Type.String({
      description: 'The user’s access token',
      writeOnly: true,
      examples: ['eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJzdWIiOiI3In0.c2lnbmF0dXJl'],
    }),
    subject_token_type: Type.Literal(ACCESS_TOKEN, {
      description: `\`${ACCESS_TOKEN}\``,
      examples: [ACCESS_TOKEN],
    }),
    audience: Type.String({ description: 'A registered audience', examples: ['orders'] }),
    requested_token_type: Type.Optional(
      Type.Literal(ACCESS_TOKEN, { description: `\`${ACCESS_TOKEN}\`, if at all`, examples: [ACCESS_TOKEN] }),
    ),
  },
  { title: 'ExchangeForm', description: 'A form; parameters that are not listed are ignored' },
);

const schema = operation({
  operationId: 'exchange',
  summary: 'A token for one audience, in exchange for an access token (RFC 8693)',
  description:
    'For the user’s own client, which sends the subject token as its bearer token too, or for a registered service with the right `exchange`. The new token is good at the service of that audience only: not here, and not elsewhere. It ends with its session, at its own expiry (`EXCHANGED_TOKEN_TTL`) or at that of the subject token. A refresh does not end it. An exchange counts as a use of the subject token.',
  tags: ['Registered services'],
  security: [{ serviceClient: [] }, { bearerAuth: [] }],
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
        issued_token_type: Type.Literal(ACCESS_TOKEN),
        token_type: Type.Literal('Bearer'),
        expires_in: Type.Integer({ description: 'Seconds until it expires', examples: [300] }),
      },
      { title: 'ExchangedToken', description: 'A token for one audience', additionalProperties: false },
    ),
  },
});

/**
 * The caller is a service (Basic), or holds the subject token (Bearer). A request has one Authorization header, so it
 * is never both.
 */
export const exchangeRoute: FastifyPluginAsyncTypebox<ExchangeRoute> = async (app, { exchange, codec }) => {
  await app.register(formBody);
  const { onRequest, preValidation } = app.auth.clientOrBearer('exchange');
  const options = {
    schema,
    config: { oauthErrors: true, group: 'refresh' as const },
    onRequest,
    preValidation: [preValidation, checkGrantType],
  };
  app.post('/api/auth/exchange', options, async (request) => {
    const { subject_token: token, audience } = request.body;
    const bearer = bearerTokenOf(request);
    if (bearer !== undefined && bearer !== token) {
      const errors = [{ path: '/subject_token', message: 'must be the bearer token' }];
      throw new AuthError('validation_failed', { errors });
    }
    const subject = await codec.verify(token, 'access');
    const clientId = request.serviceClient?.clientId ?? null;
    const claims = await exchange(subject, { audience, clientId }, request);
    return {
      access_token: codec.signExchanged(claims),
      issued_token_type: ACCESS_TOKEN,
      token_type: 'Bearer',
      expires_in: claims.exp - claims.iat,
    } as const;
  });
};

/** Before the other parameters: those of other grants are not ours. A missing `grant_type` is left to the schema. */
function checkGrantType({ body }: FastifyRequest, _reply: FastifyReply, done: (error?: Error) => void): void {
  const { grant_type: type } = (body ?? {}) as { grant_type?: string };
  const isOther = type !== undefined && type !== TOKEN_EXCHANGE;
  done(isOther ? new AuthError('unsupported_grant_type') : undefined);
}
