import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';
import { completeDocument, type RouteSchema } from '../openapi/document.ts';
import { SECURITY_SCHEMES, SERVICE } from '../openapi/service.ts';

/** Everything that the page needs comes from here, and nothing may be added to it; nobody may put it into a frame. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Swagger UI's stylesheet holds its icons as data.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * The reference: the document at /docs/json, made of the schemas of all routes that are registered after this, and a page
 * at /docs on which they can be tried. Tokens that are given to the page stay in its memory.
 */
async function openapi(app: FastifyInstance): Promise<void> {
  const schemas = new Map<string, RouteSchema>();
  await app.register(swagger, {
    openapi: { ...SERVICE, components: { securitySchemes: SECURITY_SCHEMES } },
    convertConstToEnum: false,
    transform: ({ schema, url, route }) => {
      const { oauthErrors = false } = (route.config ?? {}) as { oauthErrors?: boolean };
      if (schema.operationId !== undefined)
        schemas.set(schema.operationId, { ...(schema as RouteSchema), oauthErrors });
      return { schema, url };
    },
    transformObject: (generated) => {
      if (!('openapiObject' in generated)) throw new Error('not an OpenAPI document');
      return completeDocument(generated.openapiObject, (operationId) => schemas.get(operationId));
    },
  });
  await app.register(page);
}

async function page(app: FastifyInstance): Promise<void> {
  app.addHook('onRequest', (_request, reply, next) => {
    reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
    next();
  });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: POLICY,
    theme: { title: 'Latchkey' },
    uiConfig: {
      layout: 'BaseLayout',
      docExpansion: 'list',
      tryItOutEnabled: true,
      displayRequestDuration: true,
      defaultModelsExpandDepth: 0,
      persistAuthorization: false,
    },
  });
}

export default fp(openapi, { name: 'openapi', dependencies: ['method-not-allowed'], fastify: '5.x' });
