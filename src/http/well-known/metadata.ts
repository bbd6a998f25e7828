import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import { TOKEN_EXCHANGE } from '../auth/exchange.ts';
import { operation } from '../openapi/operation.ts';
import type { Settings } from '../settings.ts';
import { IfNoneMatch, makePublicDocument, PUBLIC_ANSWERS, sendPublicDocument } from './public-document.ts';

interface MetadataRoute {
  settings: Pick<Settings, 'issuer' | 'jwksMaxAge'>;
}

const WELL_KNOWN = '/.well-known/oauth-authorization-server';

const uri = (description: string, example: string) =>
  Type.String({ description, format: 'uri', examples: [example] });
const list = (description: string, ...example: string[]) =>
  Type.Array(Type.String(), { description, examples: [example] });

const schema = operation({
  operationId: 'getMetadata',
  summary: 'The endpoints and their features (RFC 8414)',
  description:
    'For OAuth libraries. If `ISSUER` has a path, the same document is also at the path that RFC 8414, section 3.1, derives from it.',
  tags: ['Discovery'],
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
        token_endpoint: uri('RFC 8693: token exchange', 'https://auth.example.com/api/auth/exchange'),
        token_endpoint_auth_methods_supported: list('How services say who they are', 'client_secret_basic'),
        response_types_supported: list('`none`: there is no authorization endpoint', 'none'),
        grant_types_supported: list('Token exchange (RFC 8693)', TOKEN_EXCHANGE),
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
});

/**
 * RFC 8414's metadata. Latchkey has no authorization endpoint, and its token endpoint only exchanges tokens. Members
 * that begin with `latchkey_` are our own. An issuer with a path has its metadata at the well-known path *before* that
 * (section 3.1); it is served under both, since a proxy may strip the issuer's path.
 */
export const metadataRoute: FastifyPluginCallbackTypebox<MetadataRoute> = (app, { settings }, done) => {
  const { issuer, jwksMaxAge } = settings;
  const document = makePublicDocument(metadataOf(issuer));
  for (const [url, named] of metadataPaths(issuer)) {
    app.route({
      method: ['GET', 'HEAD'],
      url,
      schema: { ...schema, ...named },
      config: { group: 'documents' },
      handler: (request, reply) => {
        sendPublicDocument(request, reply, document, jwksMaxAge);
      },
    });
  }
  done();
};

/** The second path is hidden from the reference, which must not depend on the issuer. */
function metadataPaths(issuer: string): [path: string, named: { operationId?: string; hide?: boolean }][] {
  const path = new URL(issuer).pathname.replace(/\/$/, '');
  if (path === '') return [[WELL_KNOWN, {}]];
  return [
    [WELL_KNOWN, {}],
    [WELL_KNOWN + path, { operationId: 'getMetadataOfIssuer', hide: true }],
  ];
}

function metadataOf(issuer: string) {
  const base = issuer.replace(/\/$/, '');
  const methods = ['client_secret_basic'];
  return {
    issuer,
    jwks_uri: `${base}/.well-known/jwks.json`,
    introspection_endpoint: `${base}/api/auth/introspect`,
    introspection_endpoint_auth_methods_supported: methods,
    revocation_endpoint: `${base}/api/auth/revoke`,
    revocation_endpoint_auth_methods_supported: methods,
    token_endpoint: `${base}/api/auth/exchange`,
    token_endpoint_auth_methods_supported: methods,
    // RFC 8414 demands the member, and a list may not be empty (section 2 and 3.2).
    response_types_supported: ['none'],
    grant_types_supported: [TOKEN_EXCHANGE],
    latchkey_verify_endpoint: `${base}/api/auth/verify`,
    latchkey_revocations_endpoint: `${base}/api/auth/revocations`,
  };
}
