import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import type { KeyRing } from './domain/access-tokens/ports.ts';
import type { Clock } from './domain/clock.ts';
import type { Observe } from './domain/metrics/observe.ts';
import type { Services } from './domain/services.ts';
import type { Tracer } from './domain/tracing/tracer.ts';
import type { Lifetimes } from './domain/tokens/token-record.ts';
import { introspectRoute } from './http/auth/introspect.ts';
import { logInRoute } from './http/auth/log-in.ts';
import { logOutRoute } from './http/auth/log-out.ts';
import { longLivedTokenRoutes } from './http/auth/long-lived-tokens.ts';
import { refreshRoute } from './http/auth/refresh.ts';
import { revocationsRoute, type RevocationsRoute } from './http/auth/revocations.ts';
import { revokeRoute } from './http/auth/revoke.ts';
import { signUpRoute } from './http/auth/sign-up.ts';
import { verifyRoute } from './http/auth/verify.ts';
import { makeClientOf, type HashClient } from './http/client.ts';
import { registerErrorHandler, sendError } from './http/error-handler.ts';
import { healthRoutes, type Readiness } from './http/ops/health.ts';
import { logLevelRoutes } from './http/ops/log-level.ts';
import { metricsRoute } from './http/ops/metrics.ts';
import { makePairBody } from './http/pair.ts';
import authenticate from './http/plugins/authenticate.ts';
import { makeClientHook } from './http/plugins/authenticate-client.ts';
import jsonBody from './http/plugins/json-body.ts';
import { makeTokenCodec } from './http/plugins/jwt.ts';
import loadShedding, { type LoadSheddingOptions } from './http/plugins/load-shedding.ts';
import methodNotAllowed from './http/plugins/method-not-allowed.ts';
import openapi from './http/plugins/openapi.ts';
import tracing from './http/plugins/tracing.ts';
import rateLimit, { type Limit, type RateLimitOptions } from './http/plugins/rate-limit.ts';
import requestContext, { endRequest, requestIdOf } from './http/plugins/request-context.ts';
import { answerClientError, answerExpectations } from './http/raw-errors.ts';
import { profileRoute } from './http/user/profile.ts';
import { tokensRoutes } from './http/user/tokens.ts';
import { jwksRoute } from './http/well-known/jwks.ts';
import { metadataRoute } from './http/well-known/metadata.ts';

export interface AppOptions {
  services: Services;
  keyRing: KeyRing;
  /** How long verifiers may keep our public keys, in seconds. */
  jwksMaxAge: number;
  issuer: string;
  audience: string;
  lifetimes: Lifetimes;
  hashClient: HashClient;
  rateLimit: Omit<RateLimitOptions, 'observe'>;
  limits: { logIn: Limit; signUp: Limit };
  loadShedding: Omit<LoadSheddingOptions, 'observe'>;
  fanOut: RevocationsRoute['fanOut'];
  /** Whose X-Forwarded-For counts; null for nobody's. */
  trustProxy: string[] | null;
  /** How long a request may take to arrive, in milliseconds. */
  requestTimeout: number;
  /** Whether the reference is served at /docs. */
  docs: boolean;
  isDraining: () => boolean;
  clock: Clock;
  logger: FastifyBaseLogger;
  observe: Observe;
  /** null where nobody asked for spans. */
  tracer: Tracer | null;
}

export interface OpsOptions {
  readiness: () => Promise<Readiness>;
  /** Prometheus's text format. */
  metrics: () => Promise<string>;
  /** Its level can be changed. */
  logger: Pick<FastifyBaseLogger, 'level' | 'warn'>;
}

const BODY_LIMIT = 16 * 1024;

/** The service, ready to listen: every plugin and route by name, in the order in which they apply. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { services, keyRing, lifetimes, clock, logger, observe } = options;
  const app = fastify({
    loggerInstance: logger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestIdOf,
    trustProxy: options.trustProxy ?? false,
    bodyLimit: BODY_LIMIT,
    requestTimeout: options.requestTimeout,
    // Node looks for requests that are late only this often, and by default every 30 s.
    // It also refuses a request without Host by itself, in a shape of its own; request-context.ts does so in ours.
    http: {
      connectionsCheckingInterval: 1000,
      requireHostHeader: false,
      // By default 60 s; where it is the longer of the two Node swaps them, and a body may take its time.
      headersTimeout: options.requestTimeout,
    },
    // However long an id is, it is refused as one: after authentication, and with 400.
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: 1024 * 1024 },
    // A HEAD on refresh would rotate the pair and throw it away.
    exposeHeadRoutes: false,
    // While draining we go on serving; Fastify would answer 503 in a shape of its own.
    return503OnClosing: false,
    // Closed bodies, and 5 is no string.
    ajv: { customOptions: { removeAdditional: false, coerceTypes: false, allErrors: true } },
    // What fails before there is a route passes no hook: it gets here what the hooks do.
    frameworkErrors: (error, request, reply) => {
      reply.header('x-request-id', request.id);
      if (options.isDraining()) reply.header('connection', 'close');
      observe.requestBegan();
      sendError(error, request, reply);
      endRequest(request, reply.statusCode, 0, observe);
    },
    clientErrorHandler: (error, socket) => {
      answerClientError(error, socket, { logger, observe });
    },
  });
  answerExpectations(app.server, { logger, observe });
  registerErrorHandler(app);

  await app.register(requestContext, { clock, isDraining: options.isDraining, observe });
  if (options.tracer) await app.register(tracing, { tracer: options.tracer });
  await app.register(jsonBody);
  await app.register(methodNotAllowed);
  await app.register(rateLimit, { ...options.rateLimit, observe });
  await app.register(loadShedding, { ...options.loadShedding, observe });

  const codec = await makeTokenCodec(keyRing, {
    issuer: options.issuer,
    audience: options.audience,
    observe,
  });
  await app.register(authenticate, {
    codec,
    verify: services.verify,
    client: makeClientHook(services.clients),
  });

  const pairBody = makePairBody(codec, lifetimes);
  const clientOf = makeClientOf(options.hashClient, (request) => {
    request.log.warn(
      'X-Forwarded-For from a peer that TRUST_PROXY does not list: the address of clients is unknown',
    );
  });
  if (options.docs) await app.register(openapi);
  await app.register(signUpRoute, { ...services, pairBody, clientOf, limit: options.limits.signUp });
  await app.register(logInRoute, { ...services, pairBody, clientOf, limit: options.limits.logIn });
  await app.register(refreshRoute, { ...services, pairBody, clientOf, codec });
  await app.register(logOutRoute, services);
  await app.register(longLivedTokenRoutes, { ...services, codec });
  await app.register(verifyRoute);
  await app.register(revocationsRoute, { fanOut: options.fanOut });
  await app.register(introspectRoute, { ...services, codec });
  await app.register(revokeRoute, { ...services, codec });
  await app.register(profileRoute, services);
  await app.register(tokensRoutes, services);
  await app.register(jwksRoute, { keyRing, maxAge: options.jwksMaxAge });
  await app.register(metadataRoute, { issuer: options.issuer, maxAge: options.jwksMaxAge });

  app.refuseOtherMethods();
  return app;
}

/** Health, metrics and the log's level on a port of their own, never routed to the outside. */
export async function buildOpsApp({ readiness, metrics, logger }: OpsOptions): Promise<FastifyInstance> {
  const app = fastify({ logger: false, return503OnClosing: false, exposeHeadRoutes: true });
  await app.register(healthRoutes, { readiness });
  await app.register(metricsRoute, { metrics });
  await app.register(logLevelRoutes, { logger });
  return app;
}
