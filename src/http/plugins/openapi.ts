import swagger from '@fastify/swagger';
import swaggerUi from '@fastify/swagger-ui';
import type { FastifyInstance } from 'fastify';
import fp from 'fastify-plugin';
import { completeDocument, type RouteSchema } from '../openapi/document.ts';
import { COLLAPSED_STYLE, collapseErrors, usePairs, WITHOUT_SCRIPT } from '../openapi/page.ts';
import { asShown } from '../openapi/shown.ts';
import { SECURITY_SCHEMES, SERVICE } from '../openapi/description.ts';

/** The page loads everything from this service, runs no injected script, and cannot be framed. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  // Swagger UI's stylesheet embeds its icons as data URLs.
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

/**
 * Serves the reference: the document at /docs/json, built from the schemas of all routes registered after this plugin,
 * and a page at /docs to try them. The page keeps tokens in memory only.
 */
async function openapi(app: FastifyInstance): Promise<void> {
  const schemas = new Map<string, RouteSchema>();
  await app.register(swagger, {
    openapi: { ...SERVICE, components: { securitySchemes: SECURITY_SCHEMES } },
    convertConstToEnum: false,
    transform: ({ schema, url, route }) => {
      const { oauthErrors = false } = (route.config ?? {}) as { oauthErrors?: boolean };
      const shown = asShown(schema) as typeof schema;
      if (shown.operationId !== undefined)
        schemas.set(shown.operationId, { ...(shown as RouteSchema), oauthErrors });
      return { schema: shown, url };
    },
    transformObject: (generated) => {
      if (!('openapiObject' in generated)) throw new Error('not an OpenAPI document');
      return completeDocument(generated.openapiObject, (operationId) => schemas.get(operationId));
    },
  });
  await app.register(page);
}

async function page(app: FastifyInstance): Promise<void> {
  app.addHook('onRoute', (route) => {
    route.config = { ...route.config, budget: { none: 'it sends files and a text that is ready in memory' } };
  });
  app.addHook('onRequest', (_request, reply, next) => {
    reply.headers({ 'x-content-type-options': 'nosniff', 'referrer-policy': 'no-referrer' });
    next();
  });
  app.addHook('onSend', (_request, reply, payload, next) => {
    const isPage =
      typeof payload === 'string' && String(reply.getHeader('content-type')).startsWith('text/html');
    next(null, isPage ? payload.replace('<body>', `<body>${WITHOUT_SCRIPT}`) : payload);
  });
  await app.register(swaggerUi, {
    routePrefix: '/docs',
    staticCSP: POLICY,
    theme: { title: 'Latchkey', css: [{ filename: 'collapsed-errors.css', content: COLLAPSED_STYLE }] },
    uiConfig: {
      layout: 'BaseLayout',
      // The introduction links to operations.
      deepLinking: true,
      docExpansion: 'list',
      // By tag or path.
      filter: true,
      plugins: [collapseErrors, usePairs],
      tryItOutEnabled: true,
      displayRequestDuration: true,
      defaultModelsExpandDepth: 0,
      persistAuthorization: false,
    },
  });
}

export default fp(openapi, { name: 'openapi', dependencies: ['method-not-allowed'], fastify: '5.x' });
