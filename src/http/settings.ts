import type { BlockList } from 'node:net';
import type { Lifetimes } from '../domain/tokens/claims.ts';
import type { LoggedRequests, RequestGroup } from '../telemetry/request-lines.ts';

/** A limit; null for none. */
export type Limit = { count: number; seconds: number } | null;

/** What routes and plugins read of the configuration (`src/composition/settings.ts`); each picks its own. */
export interface Settings {
  /** ISSUER. */
  issuer: string;
  /** AUDIENCE. */
  audience: string;
  lifetimes: Lifetimes;
  /** How long verifiers may keep our public keys, in seconds. */
  jwksMaxAge: number;
  /** REFRESH_RETRY_WINDOW in seconds; 0 if it is off. */
  retryWindow: number;
  /** RATE_LIMIT_LOGIN and RATE_LIMIT_SIGNUP; whether failed logins or signups of a network are counted. */
  limits: { logIn: Limit; signUp: Limit; isNetworkCounted: boolean };
  /** RATE_LIMIT_ALLOW: addresses without limits. */
  allow: BlockList;
  /** Proxies whose X-Forwarded-For counts; null for none. */
  trustProxy: string[] | null;
  /** CORS_ORIGINS: websites whose scripts may call the API; null for none. */
  corsOrigins: string[] | null;
  /** How long a request may take to arrive, in milliseconds. */
  requestTimeout: number;
  /** NODE_ENV is production: errors do not say why a token was refused. */
  production: boolean;
  /** Whether the reference is served at /docs. */
  docs: boolean;
  /** LOG_REQUESTS: which requests leave a line, by group of routes. */
  logged: Readonly<Record<RequestGroup, LoggedRequests>>;
}
