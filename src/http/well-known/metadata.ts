import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifySchema } from 'fastify';
import Type from 'typebox';
import { jwksMaxAge } from '../../domain/access-tokens/key-lifecycle.ts';
import type { KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';
import { ACRS } from '../../domain/principal.ts';
import { ASSERTION_ALGORITHMS } from '../../domain/services/assertion.ts';
import { GRANTS } from '../auth/token.ts';
import { operation } from '../openapi/operation.ts';
import type { Config } from '../../config/config.ts';
import {
  IfNoneMatch,
  makePublicDocument,
  PUBLIC_ANSWERS,
  PUBLIC_CONFIG,
  sendPublicDocument,
} from './public-document.ts';

interface MetadataRoute {
  keyRing: Pick<KeyRing, 'current'>;
  config: Pick<Config, 'ISSUER' | 'KEY_PUBLISH_LEAD'>;
}

const OAUTH = '/.well-known/oauth-authorization-server';
const OPENID = '/.well-known/openid-configuration';

const uri = (description: string, example: string) =>
  Type.String({ description, format: 'uri', examples: [example] });
const list = (description: string, ...example: string[]) =>
  Type.Array(Type.String(), { description, examples: [example] });

const common = {
  tags: ['Discovery'] as const,
  security: [],
  refuses: [],
  headers: IfNoneMatch,
  answers: PUBLIC_ANSWERS,
  response: {
    200: Type.Object(
      {
        issuer: uri('`ISSUER`', 'https://auth.example.com'),
        jwks_uri: uri('The public keys', 'https://auth.example.com/.well-known/jwks.json'),
        introspection_endpoint: uri('RFC 7662', 'https://auth.example.com/api/auth/introspect'),
        introspection_endpoint_auth_methods_supported: list(
          'How services say who they are',
          'client_secret_basic',
        ),
        revocation_endpoint: uri('RFC 7009', 'https://auth.example.com/api/auth/revoke'),
        revocation_endpoint_auth_methods_supported: list(
          'How services say who they are',
          'client_secret_basic',
        ),
        token_endpoint: uri('Tokens for an audience', 'https://auth.example.com/api/auth/token'),
        token_endpoint_auth_methods_supported: list(
          'How services say who they are',
          'client_secret_basic',
          'private_key_jwt',
        ),
        token_endpoint_auth_signing_alg_values_supported: list(
          'How a service’s assertion may be signed',
          'ES256',
          'RS256',
        ),
        response_types_supported: list('`none`: there is no authorization endpoint', 'none'),
        grant_types_supported: list('Token exchange (RFC 8693), and client credentials', ...GRANTS),
        subject_types_supported: list('`public`: a user has one id for all services', 'public'),
        id_token_signing_alg_values_supported: list('The algorithms of the public keys', 'ES256'),
        acr_values_supported: list(
          '`mfa`: the session was opened with a second factor; `phr`: with a passkey, which proves `mfa` too',
          ...ACRS,
        ),
        latchkey_verify_endpoint: uri(
          'Ours: is a token good right now? For proxies',
          'https://auth.example.com/api/auth/verify',
        ),
        latchkey_revocations_endpoint: uri(
          'Ours: the feed of revocations',
          'https://auth.example.com/api/auth/revocations',
        ),
      },
      { title: 'Metadata', description: 'The endpoints and their features', additionalProperties: false },
    ),
  },
};

const oauthSchema = operation({
  operationId: 'getMetadata',
  summary: 'Get all addresses and algorithms, for OAuth libraries (RFC 8414).',
  description:
    'If `ISSUER` has a path, Latchkey also serves this document at the path that RFC 8414, section 3.1, derives from it.',
  ...common,
});

const openIdSchema = operation({
  operationId: 'getOpenIdConfiguration',
  summary: 'Get the same document where OpenID Connect libraries look for it.',
  description:
    'For software that knows no other address. There is no authorization endpoint and no ID token. If `ISSUER` has a path, Latchkey also serves the document below that path.',
  ...common,
});

/**
 * The metadata of RFC 8414 and OpenID Connect Discovery. Latchkey has no authorization endpoint, and its token endpoint
 * issues tokens for audiences only. Members that begin with `latchkey_` are our own. An issuer with a path has RFC 8414's
 * metadata at the well-known path *before* that (section 3.1), and OpenID Connect's *below* it. Both are served without the
 * path too, since a proxy may strip it.
 */
export const metadataRoute: FastifyPluginCallbackTypebox<MetadataRoute> = (
  app,
  { keyRing, config },
  done,
) => {
  const { ISSUER: issuer } = config;
  const maxAge = jwksMaxAge(config.KEY_PUBLISH_LEAD);
  let shown: { keys: KeySet; document: ReturnType<typeof documentOf> } | null = null;

  function currentDocument() {
    const keys = keyRing.current();
    if (shown?.keys !== keys) shown = { keys, document: documentOf(issuer, keys) };
    return shown.document;
  }

  for (const [url, schema] of metadataPaths(issuer)) {
    app.route({
      method: ['GET', 'HEAD'],
      url,
      schema,
      config: PUBLIC_CONFIG,
      handler: (request, reply) => {
        sendPublicDocument(request, reply, currentDocument(), maxAge);
      },
    });
  }
  done();
};

/** The paths with the issuer's are hidden from the reference, which must not depend on the issuer. */
function metadataPaths(issuer: string): [path: string, schema: FastifySchema][] {
  const path = new URL(issuer).pathname.replace(/\/$/, '');
  const always: ReturnType<typeof metadataPaths> = [
    [OAUTH, oauthSchema],
    [OPENID, openIdSchema],
  ];
  if (path === '') return always;
  return [
    ...always,
    [OAUTH + path, { ...oauthSchema, operationId: 'getMetadataOfIssuer', hide: true }],
    [path + OPENID, { ...openIdSchema, operationId: 'getOpenIdConfigurationOfIssuer', hide: true }],
  ];
}

function documentOf(issuer: string, { signing }: KeySet) {
  const base = issuer.replace(/\/$/, '');
  const methods = ['client_secret_basic'];
  return makePublicDocument({
    issuer,
    jwks_uri: `${base}/.well-known/jwks.json`,
    introspection_endpoint: `${base}/api/auth/introspect`,
    introspection_endpoint_auth_methods_supported: methods,
    revocation_endpoint: `${base}/api/auth/revoke`,
    revocation_endpoint_auth_methods_supported: methods,
    token_endpoint: `${base}/api/auth/token`,
    token_endpoint_auth_methods_supported: [...methods, 'private_key_jwt'],
    token_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGORITHMS,
    // RFC 8414 demands the member, and a list may not be empty (section 2 and 3.2).
    response_types_supported: ['none'],
    grant_types_supported: GRANTS,
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [...new Set(signing.map(({ algorithm }) => algorithm))],
    acr_values_supported: ACRS,
    latchkey_verify_endpoint: `${base}/api/auth/verify`,
    latchkey_revocations_endpoint: `${base}/api/auth/revocations`,
  });
}
