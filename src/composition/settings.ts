import type { Config } from '../config/config.ts';
import { jwksMaxAge } from '../domain/access-tokens/key-lifecycle.ts';
import type { Settings } from '../http/settings.ts';

/** The settings that routes and plugins read. */
export function settingsOf(config: Config): Settings {
  return {
    issuer: config.ISSUER,
    audience: config.AUDIENCE,
    lifetimes: {
      accessToken: config.ACCESS_TOKEN_TTL,
      refreshToken: config.REFRESH_TOKEN_TTL,
      session: config.SESSION_MAX_AGE,
    },
    jwksMaxAge: jwksMaxAge(config.KEY_PUBLISH_LEAD),
    retryWindow: config.REFRESH_RETRY_WINDOW,
    limits: {
      logIn: config.RATE_LIMIT_LOGIN,
      signUp: config.RATE_LIMIT_SIGNUP,
      isNetworkCounted: [
        config.RATE_LIMIT_NETWORK,
        config.RATE_LIMIT_SIGNUP_NETWORK,
        config.RATE_LIMIT_LLT_NETWORK,
      ].some((limit) => limit !== null),
    },
    allow: config.RATE_LIMIT_ALLOW,
    trustProxy: config.TRUST_PROXY,
    corsOrigins: config.CORS_ORIGINS,
    requestTimeout: config.REQUEST_TIMEOUT * 1000,
    production: config.production,
    docs: config.DOCS_ENABLED,
    logged: config.LOG_REQUESTS,
  };
}
