import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import { jwksMaxAge } from '../../domain/access-tokens/key-lifecycle.ts';
import type { KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';
import { operation } from '../openapi/operation.ts';
import type { Config } from '../../config/config.ts';
import {
  IfNoneMatch,
  makePublicDocument,
  PUBLIC_ANSWERS,
  PUBLIC_CONFIG,
  sendPublicDocument,
} from './public-document.ts';

interface JwksRoute {
  keyRing: Pick<KeyRing, 'current'>;
  config: Pick<Config, 'KEY_PUBLISH_LEAD'>;
}

const text = (description: string) => Type.String({ description });
const ofCurve = (description: string) => Type.Optional(text(description));

/** The members of public keys. The serialiser drops all others, so no private member can leak. */
const JwkSchema = Type.Object(
  {
    kty: text('`EC`, `OKP` or `RSA`'),
    use: Type.Literal('sig'),
    alg: text('`ES256`, `EdDSA` or `RS256`'),
    kid: text('The `kid` in the header of its tokens'),
    crv: ofCurve('The curve; `EC` and `OKP`'),
    x: ofCurve('The point; `EC` and `OKP`'),
    y: ofCurve('The point; `EC`'),
    n: ofCurve('The modulus; `RSA`'),
    e: ofCurve('The exponent; `RSA`'),
  },
  { title: 'Jwk', description: 'A public key (RFC 7517)', additionalProperties: false },
);

const EXAMPLE_KEY = {
  kty: 'EC',
  use: 'sig',
  alg: 'ES256',
  kid: 'xkQo2V3cJk1bZ0bqJwq7l5r5o2m6ZyYw3q5z0m1n2pA',
  crv: 'P-256',
  x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
  y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
};

const schema = operation({
  operationId: 'getJwks',
  summary: 'Get the public keys with which anybody can verify tokens (RFC 7517).',
  description:
    'Lists every key that signs, is about to sign, or has signed tokens that may still be good. They verify access tokens, long-lived tokens and service tokens, but no refresh tokens.',
  tags: ['Discovery'],
  security: [],
  refuses: [],
  headers: IfNoneMatch,
  answers: PUBLIC_ANSWERS,
  response: {
    200: Type.Object(
      {
        keys: Type.Array(JwkSchema, {
          description: 'In no particular order',
          examples: [[EXAMPLE_KEY]],
        }),
      },
      { title: 'Jwks', description: 'The public keys', additionalProperties: false },
    ),
  },
});

/** Serves every loaded key, also those that do not sign yet: verifiers need them beforehand. */
export const jwksRoute: FastifyPluginCallbackTypebox<JwksRoute> = (app, { keyRing, config }, done) => {
  const maxAge = jwksMaxAge(config.KEY_PUBLISH_LEAD);
  let shown: { keys: KeySet; document: ReturnType<typeof documentOf> } | null = null;

  app.route({
    method: ['GET', 'HEAD'],
    url: '/.well-known/jwks.json',
    schema,
    config: PUBLIC_CONFIG,
    handler: (request, reply) => {
      const keys = keyRing.current();
      if (shown?.keys !== keys) shown = { keys, document: documentOf(keys) };
      sendPublicDocument(request, reply, shown.document, maxAge);
    },
  });
  done();
};

function documentOf({ signing }: KeySet) {
  const keys = signing.map(({ kid, algorithm, jwk }) => ({
    ...jwk,
    use: 'sig' as const,
    alg: algorithm,
    kid,
  }));
  return makePublicDocument({ keys });
}
