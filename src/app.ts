import fastify, { LogController, type FastifyBaseLogger, type FastifyInstance } from 'fastify';
import type { UseCases } from './composition/use-cases.ts';
import type { Config } from './config/config.ts';
import type { KeyRing } from './domain/access-tokens/ports.ts';
import type { Clock, Timers } from './domain/clock.ts';
import type { Standing } from './domain/standing.ts';
import type { Build } from './telemetry/build.ts';
import type { Observe } from './telemetry/observe.ts';
import type { Tracer } from './telemetry/tracer.ts';
import { emailVerificationRoute } from './http/auth/email-verification.ts';
import { enforcementRoute, type EnforcementRoute } from './http/auth/enforcement.ts';
import { introspectRoute } from './http/auth/introspect.ts';
import { logInRoute } from './http/auth/log-in.ts';
import { logOutRoute } from './http/auth/log-out.ts';
import { longLivedTokenRoutes } from './http/auth/long-lived-tokens.ts';
import { passwordResetRoute } from './http/auth/password-reset.ts';
import { readersRoutes, type ReadersRoute } from './http/auth/readers.ts';
import { refreshRoute } from './http/auth/refresh.ts';
import { revocationsRoute, type RevocationsRoute } from './http/auth/revocations.ts';
import { passkeyRoute } from './http/auth/passkey.ts';
import { secondFactorRoute } from './http/auth/second-factor.ts';
import { revokeRoute } from './http/auth/revoke.ts';
import { signUpRoute } from './http/auth/sign-up.ts';
import { tokenRoute } from './http/auth/token.ts';
import { usesRoute } from './http/auth/uses.ts';
import { verifyRoute } from './http/auth/verify.ts';
import { makeNetworkOf } from './http/caller/network.ts';
import {
  makeCallerFingerprint,
  makeCallerFingerprints,
  type CallerHashes,
} from './http/caller/fingerprint.ts';
import { makeHiddenCallers } from './http/caller/hidden-callers.ts';
import { makeRelayWarning } from './http/caller/relay.ts';
import { registerErrorHandler, sendError } from './http/error-handler.ts';
import { makeGuessOriginOf } from './http/caller/guess-origin.ts';
import {
  healthRoutes,
  logLevelRoutes,
  metricsRoute,
  refuseUnlessLocal,
  registerOpsErrors,
  type Readiness,
} from './http/ops.ts';
import { OneWriteResponse } from './http/one-write-response.ts';
import { SHOWN } from './http/openapi/shown.ts';
import { makeTokenPairResponse } from './http/token-pair-response.ts';
import authenticate from './http/plugins/authenticate.ts';
import { makeServiceCredentials, makeServiceHooks } from './http/plugins/authenticate-service.ts';
import budgets from './http/plugins/budgets.ts';
import cors from './http/plugins/cors.ts';
import { jsonBody } from './http/plugins/bodies.ts';
import { makeTokenCodec } from './http/token-codec.ts';
import standing from './http/plugins/standing.ts';
import loadShedding, { type LoadSheddingOptions } from './http/plugins/load-shedding.ts';
import methodNotAllowed from './http/plugins/method-not-allowed.ts';
import openapi from './http/plugins/openapi.ts';
import tracing from './http/plugins/tracing.ts';
import rateLimit, { type RateLimitOptions } from './http/plugins/rate-limit.ts';
import requestContext, { makeEndRequest, requestIdOf } from './http/plugins/request-context.ts';
import { makeChildLogger, makeRequestLog } from './http/plugins/request-log.ts';
import { answerClientError, answerExpectations } from './http/socket-errors.ts';
import { makeTrustedProxies } from './http/caller/address.ts';
import { makeRetrySpread } from './http/retry-spread.ts';
import { emailRoute } from './http/own-account/email.ts';
import { factorsRoutes } from './http/own-account/factors.ts';
import { ownPasskeyRoutes } from './http/own-account/passkey.ts';
import { passwordRoute } from './http/own-account/password.ts';
import { profileRoute } from './http/own-account/profile.ts';
import { tokensRoutes } from './http/own-account/tokens.ts';
import { totpRoutes } from './http/own-account/totp.ts';
import { accountFactorsRoutes } from './http/accounts/account-factors.ts';
import { accountsRoutes } from './http/accounts/accounts.ts';
import { accountTokensRoutes } from './http/accounts/account-tokens.ts';
import { invitationRoute } from './http/accounts/invitation.ts';
import { mailsRoutes } from './http/accounts/mails.ts';
import { jwksRoute } from './http/well-known/jwks.ts';
import { metadataRoute } from './http/well-known/metadata.ts';

export interface AppOptions {
  useCases: UseCases;
  keyRing: KeyRing;
  config: Config;
  callerHashes: CallerHashes;
  rateLimit: Omit<RateLimitOptions, 'config' | 'hashes'>;
  loadShedding: Omit<LoadSheddingOptions, 'observe'>;
  fanOut: RevocationsRoute['fanOut'];
  enforcing: ReadersRoute & EnforcementRoute;
  isDraining: () => boolean;
  standing: Standing;
  clock: Clock;
  timers: Timers;
  /** Verified tokens that it surely remembers. */
  rememberedTokens: number;
  /** From 0 to below 1: spreads retries. */
  random: () => number;
  logger: FastifyBaseLogger;
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
  logger: Pick<FastifyBaseLogger, 'level' | 'warn' | 'error'>;
}

const BODY_LIMIT = 16 * 1024;

/** The service, ready to listen: every plugin and route by name, in the order in which they apply. */
export async function buildApp(options: AppOptions): Promise<FastifyInstance> {
  const { config, keyRing, callerHashes, clock, timers, logger, observe, useCases } = options;
  const requestTimeout = config.REQUEST_TIMEOUT * 1000;
  const requestLog = makeRequestLog({ logger, logged: config.LOG_REQUESTS, clock, timers });
  const endRequest = makeEndRequest({ clock, observe, requestLog });
  const app = fastify({
    loggerInstance: logger,
    childLoggerFactory: makeChildLogger,
    logController: new LogController({ disableRequestLogging: true }),
    genReqId: requestIdOf,
    trustProxy: config.TRUST_PROXY ? makeTrustedProxies(config.TRUST_PROXY) : false,
    bodyLimit: BODY_LIMIT,
    requestTimeout,
    // How often Node checks for requests past their timeout; its default is 30 s.
    // Node's own 400 for a missing Host has another format than ours: request-context.ts sends it instead.
    http: {
      ServerResponse: OneWriteResponse,
      connectionsCheckingInterval: 1000,
      requireHostHeader: false,
      // The default is 60 s. If it exceeds requestTimeout, Node swaps the two, and a body may take 60 s.
      headersTimeout: requestTimeout,
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
      sendError(error, request, reply, { requestLog });
      endRequest(request, reply.statusCode);
    },
    clientErrorHandler: (error, socket) => {
      answerClientError(error, socket, { requestLog, observe });
    },
  });
  answerExpectations(app.server, { requestLog, observe });
  app.addHook('onClose', () => {
    requestLog.close();
  });
  const warnOfRelay = makeRelayWarning(clock);
  registerErrorHandler(app, {
    showsReasons: !config.production,
    retrySpread: makeRetrySpread({ clock, random: options.random, retryWindow: config.REFRESH_RETRY_WINDOW }),
    warnOfRelay,
    docs: config.DOCS_ENABLED,
    requestLog,
  });

  await app.register(requestContext, { clock, isDraining: options.isDraining, observe, endRequest });
  if (options.tracer) await app.register(tracing, { tracer: options.tracer });
  await app.register(jsonBody);
  await app.register(methodNotAllowed, { clock });
  await app.register(rateLimit, { ...options.rateLimit, config, hashes: callerHashes });
  await app.register(loadShedding, { ...options.loadShedding, observe });
  await app.register(budgets);
  // Its hook goes before those of limits and authentication.
  await app.register(standing, { standing: options.standing });
  // After the budgets: its hook goes before theirs, so that scripts can read their refusals too.
  if (config.CORS_ORIGINS) await app.register(cors, { origins: config.CORS_ORIGINS });

  const codec = await makeTokenCodec(keyRing, options);
  const credentials = makeServiceCredentials({ services: useCases.services, codec, issuer: config.ISSUER });
  await app.register(authenticate, {
    ...useCases,
    codec,
    clock,
    service: makeServiceHooks(credentials, useCases.services),
  });

  const networkOf = makeNetworkOf(config);
  const callerFingerprints = makeCallerFingerprints(callerHashes);
  const deps = {
    ...useCases,
    config,
    keyRing,
    clock,
    codec,
    credentials,
    fanOut: options.fanOut,
    ...options.enforcing,
    tokenPairResponse: makeTokenPairResponse(codec, config),
    callerFingerprint: makeCallerFingerprint(callerHashes, warnOfRelay),
    networkOf,
    guessOriginOf: makeGuessOriginOf({ codec, callerFingerprints, networkOf }),
    noteLogin: makeHiddenCallers(config.RATE_LIMIT_ALLOW),
  };
  if (config.DOCS_ENABLED) await app.register(openapi);
  await app.register(signUpRoute, deps);
  await app.register(logInRoute, deps);
  await app.register(secondFactorRoute, deps);
  await app.register(passwordResetRoute, deps);
  await app.register(emailVerificationRoute, deps);
  await app.register(refreshRoute, deps);
  await app.register(logOutRoute, deps);
  await app.register(longLivedTokenRoutes, deps);
  await app.register(passkeyRoute, deps);
  await app.register(verifyRoute, deps);
  await app.register(revocationsRoute, deps);
  await app.register(readersRoutes, deps);
  await app.register(enforcementRoute, deps);
  await app.register(tokenRoute, deps);
  await app.register(introspectRoute, deps);
  await app.register(revokeRoute, deps);
  await app.register(usesRoute, deps);
  await app.register(profileRoute, deps);
  await app.register(passwordRoute, deps);
  await app.register(emailRoute, deps);
  await app.register(factorsRoutes, deps);
  await app.register(totpRoutes, deps);
  await app.register(ownPasskeyRoutes, deps);
  await app.register(tokensRoutes, deps);
  await app.register(accountsRoutes, deps);
  await app.register(accountTokensRoutes, deps);
  await app.register(accountFactorsRoutes, deps);
  await app.register(invitationRoute, deps);
  await app.register(mailsRoutes, deps);
  await app.register(jwksRoute, deps);
  await app.register(metadataRoute, deps);

  app.refuseOtherMethods();
  return app;
}

/** Health, metrics and log level, on a separate port that stays private. */
export async function buildOpsApp(options: OpsOptions): Promise<FastifyInstance> {
  const app = fastify({
    logger: false,
    genReqId: requestIdOf,
    return503OnClosing: false,
    exposeHeadRoutes: true,
  });
  registerOpsErrors(app, options.logger);
  app.addHook('onRequest', refuseUnlessLocal);
  await app.register(healthRoutes, options);
  await app.register(metricsRoute, options);
  await app.register(logLevelRoutes, options);
  return app;
}
