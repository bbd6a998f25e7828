import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import type { KeyRing } from './domain/access-tokens/ports.ts';
import type { Clock } from './domain/clock.ts';
import type { Build } from './telemetry/build.ts';
import type { Observe } from './telemetry/observe.ts';
import type { UseCases } from './http/use-cases.ts';
import type { LoggedRequests, RequestGroup } from './telemetry/request-lines.ts';
import type { Tracer } from './telemetry/tracer.ts';
import type { Lifetimes } from './domain/tokens/claims.ts';
import { exchangeRoute } from './http/auth/exchange.ts';
import { introspectRoute } from './http/auth/introspect.ts';
import { logInRoute } from './http/auth/log-in.ts';
import { logOutRoute } from './http/auth/log-out.ts';
import { longLivedTokenRoutes } from './http/auth/long-lived-tokens.ts';
import { passwordResetRoute } from './http/auth/password-reset.ts';
import { refreshRoute } from './http/auth/refresh.ts';
import { revocationsRoute, type RevocationsRoute } from './http/auth/revocations.ts';
import { revokeRoute } from './http/auth/revoke.ts';
import { signUpRoute } from './http/auth/sign-up.ts';
import { verifyRoute } from './http/auth/verify.ts';
import { makeNetworkOf } from './http/caller/network.ts';
import {
  makeCallerFingerprint,
  makeCallerFingerprints,
  type HashCaller,
  type HashCallerEach,
} from './http/caller/fingerprint.ts';
import { makeHiddenCallers } from './http/caller/hidden-callers.ts';
import { makeRelayWarning } from './http/caller/relay.ts';
import { registerErrorHandler, sendError } from './http/error-handler.ts';
import { makeGuessOriginOf } from './http/caller/guess-origin.ts';
import { healthRoutes, type Readiness } from './http/ops/health.ts';
import { OneWriteResponse } from './http/one-write-response.ts';
import { SHOWN } from './http/openapi/shown.ts';
import { logLevelRoutes } from './http/ops/log-level.ts';
import { metricsRoute } from './http/ops/metrics.ts';
import { makeTokenPairResponse } from './http/token-pair-response.ts';
import authenticate from './http/plugins/authenticate.ts';
import { makeClientHooks } from './http/plugins/authenticate-client.ts';
import cors from './http/plugins/cors.ts';
import jsonBody from './http/plugins/json-body.ts';
import { makeTokenCodec } from './http/token-codec.ts';
import loadShedding, { type LoadSheddingOptions } from './http/plugins/load-shedding.ts';
import methodNotAllowed from './http/plugins/method-not-allowed.ts';
import openapi from './http/plugins/openapi.ts';
import tracing from './http/plugins/tracing.ts';
import rateLimit, { type Limit, type RateLimitOptions } from './http/plugins/rate-limit.ts';
import requestContext, { makeEndRequest, requestIdOf } from './http/plugins/request-context.ts';
import { makeChildLogger } from './http/plugins/request-log.ts';
import { answerClientError, answerExpectations } from './http/socket-errors.ts';
import { makeTrustedProxies } from './http/caller/trusted-proxies.ts';
import { makeRetrySpread } from './http/retry-spread.ts';
import { passwordRoute } from './http/user/password.ts';
import { profileRoute } from './http/user/profile.ts';
import { tokensRoutes } from './http/user/tokens.ts';
import { accountsRoutes } from './http/users/accounts.ts';
import { accountTokensRoutes } from './http/users/account-tokens.ts';
import { jwksRoute } from './http/well-known/jwks.ts';
import { metadataRoute } from './http/well-known/metadata.ts';

export interface AppOptions {
  useCases: UseCases;
  keyRing: KeyRing;
  /** How long verifiers may keep our public keys, in seconds. */
  jwksMaxAge: number;
  issuer: string;
  audience: string;
  lifetimes: Lifetimes;
  hashCaller: HashCaller;
  hashCallerEach: HashCallerEach;
  rateLimit: Omit<RateLimitOptions, 'observe'>;
  limits: { logIn: Limit; signUp: Limit; isNetworkCounted: boolean };
  loadShedding: Omit<LoadSheddingOptions, 'observe'>;
  fanOut: RevocationsRoute['fanOut'];
  /** Proxies whose X-Forwarded-For counts; null for none. */
  trustProxy: string[] | null;
  /** CORS_ORIGINS: websites whose scripts may call the API; null for none. */
  corsOrigins: string[] | null;
  /** How long a request may take to arrive, in milliseconds. */
  requestTimeout: number;
  /** Whether the reference is served at /docs. */
  docs: boolean;
  isDraining: () => boolean;
  clock: Clock;
  /** From 0 to below 1: spreads retries. */
  random: () => number;
  /** REFRESH_RETRY_WINDOW in seconds. */
  retryWindow: number;
  logger: FastifyBaseLogger;
  /** LOG_REQUESTS: which requests leave a line, by group of routes. */
  logged: Readonly<Record<RequestGroup, LoggedRequests>>;
  observe: Observe;
  /** null if tracing is off. */
  tracer: Tracer | null;
}

export interface OpsOptions {
  readiness: () => Promise<Readiness>;
  build: Build;
  /** Prometheus's text format. */
  metrics: () => Promise<string>;
  /** The log-level route changes its level. */
  logger: Pick<FastifyBaseLogger, 'level' | 'warn'>;
}

const BODY_LIMIT = 16 * 1024;

/** The service, ready to listen: every plugin and route by name, in the order in which they apply. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { keyRing, lifetimes, clock, logger, observe } = options;
  const { signUp, logIn, refresh, verify, logOut, endToken } = options.useCases;
  const { introspect, exchange, revokeToken } = options.useCases;
  const { createLongLived, profile, listTokens, logOutEverywhere, clients } = options.useCases;
  const { changePassword, changeProfile, resetPassword, createAccount, accounts } = options.useCases;
  const endRequest = makeEndRequest({ clock, observe, logged: options.logged });
  const app = fastify({
    loggerInstance: logger,
    childLoggerFactory: makeChildLogger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestIdOf,
    trustProxy: options.trustProxy ? makeTrustedProxies(options.trustProxy) : false,
    bodyLimit: BODY_LIMIT,
    requestTimeout: options.requestTimeout,
    // How often Node checks for requests past their timeout; its default is 30 s.
    // Node's own 400 for a missing Host has another format than ours: request-context.ts sends it instead.
    http: {
      ServerResponse: OneWriteResponse,
      connectionsCheckingInterval: 1000,
      requireHostHeader: false,
      // The default is 60 s. If it exceeds requestTimeout, Node swaps the two, and a body may take 60 s.
      headersTimeout: options.requestTimeout,
    },
    // An overlong id gets the same answer as any invalid id: 400, after authentication.
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: 1024 * 1024 },
    // HEAD on refresh would rotate the pair and discard it.
    exposeHeadRoutes: false,
    // A draining replica keeps serving; Fastify would answer 503 in its own format.
    return503OnClosing: false,
    // Refuse unknown properties instead of removing them, and do not convert types: 5 is not a string.
    ajv: {
      customOptions: { removeAdditional: false, coerceTypes: false, allErrors: true, keywords: [SHOWN] },
    },
    // An error before routing runs no hooks, so this handler does their work.
    frameworkErrors: (error, request, reply) => {
      reply.header('x-request-id', request.id);
      if (options.isDraining()) reply.header('connection', 'close');
      observe.requestBegan();
      sendError(error, request, reply);
      endRequest(request, reply.statusCode);
    },
    clientErrorHandler: (error, socket) => {
      answerClientError(error, socket, { logger, logged: options.logged.other, observe });
    },
  });
  answerExpectations(app.server, { logger, logged: options.logged.other, observe });
  const warnOfRelay = makeRelayWarning(clock);
  registerErrorHandler(app, {
    retrySpread: makeRetrySpread({ clock, random: options.random, retryWindow: options.retryWindow }),
    warnOfRelay,
  });

  await app.register(requestContext, { clock, isDraining: options.isDraining, observe, endRequest });
  if (options.tracer) await app.register(tracing, { tracer: options.tracer });
  if (options.corsOrigins) await app.register(cors, { origins: options.corsOrigins });
  await app.register(jsonBody);
  await app.register(methodNotAllowed);
  await app.register(rateLimit, { ...options.rateLimit, observe });
  await app.register(loadShedding, { ...options.loadShedding, observe });

  const codec = await makeTokenCodec(keyRing, {
    issuer: options.issuer,
    audience: options.audience,
    observe,
    clock,
  });
  await app.register(authenticate, {
    codec,
    verify,
    clock,
    client: makeClientHooks(clients),
  });

  const tokenPairResponse = makeTokenPairResponse(codec, lifetimes);
  const callerFingerprint = makeCallerFingerprint(options.hashCaller, warnOfRelay);
  const networkOf = options.limits.isNetworkCounted
    ? makeNetworkOf({
        allow: options.rateLimit.allow,
        warn: (request) => {
          request.log.warn(
            'private addresses log in: RATE_LIMIT_NETWORK and RATE_LIMIT_SIGNUP_NETWORK do not count them (docs/operating.md)',
          );
        },
      })
    : () => null;
  const guessOriginOf = makeGuessOriginOf({
    codec,
    callerFingerprints: makeCallerFingerprints(options.hashCallerEach),
    networkOf,
  });
  if (options.docs) await app.register(openapi);
  await app.register(signUpRoute, {
    signUp,
    tokenPairResponse,
    callerFingerprint,
    limit: options.limits.signUp,
    networkOf,
  });
  await app.register(logInRoute, {
    logIn,
    tokenPairResponse,
    callerFingerprint,
    guessOriginOf,
    noteLogin: makeHiddenCallers({ allow: options.rateLimit.allow, logger }),
    limit: options.limits.logIn,
  });
  await app.register(passwordResetRoute, { resetPassword, guessOriginOf, limit: options.limits.logIn });
  await app.register(refreshRoute, { refresh, tokenPairResponse, callerFingerprint, codec });
  await app.register(logOutRoute, { logOut, endToken });
  await app.register(longLivedTokenRoutes, { createLongLived, logOut, endToken, codec });
  await app.register(verifyRoute);
  await app.register(revocationsRoute, { fanOut: options.fanOut });
  await app.register(exchangeRoute, { exchange, codec });
  await app.register(introspectRoute, { introspect, codec, audience: options.audience });
  await app.register(revokeRoute, { revokeToken, codec });
  await app.register(profileRoute, {
    profile,
    changeProfile,
    guessOriginOf,
    limit: options.limits.logIn,
  });
  await app.register(passwordRoute, { changePassword, guessOriginOf, limit: options.limits.logIn });
  await app.register(tokensRoutes, { listTokens, logOutEverywhere });
  await app.register(accountsRoutes, { createAccount, accounts });
  await app.register(accountTokensRoutes, { accounts });
  await app.register(jwksRoute, { keyRing, maxAge: options.jwksMaxAge });
  await app.register(metadataRoute, { issuer: options.issuer, maxAge: options.jwksMaxAge });

  app.refuseOtherMethods();
  return app;
}

/** Health, metrics and log level, on a separate port that stays private. */
export async function buildOpsApp({
  readiness,
  build,
  metrics,
  logger,
}: OpsOptions): Promise<FastifyInstance> {
  const app = fastify({ logger: false, return503OnClosing: false, exposeHeadRoutes: true });
  await app.register(healthRoutes, { readiness, build });
  await app.register(metricsRoute, { metrics });
  await app.register(logLevelRoutes, { logger });
  return app;
}
