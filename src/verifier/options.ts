/** What to do if the feed has been unreachable for longer than `maxStaleness`. */
export type WhenStale = 'accept' | 'introspect' | 'refuse';

export interface VerifierOptions {
  /** Latchkey's ISSUER, exactly as in its tokens. */
  issuer: string;
  /** Latchkey's AUDIENCE. */
  audience: string;
  /** This service's client credentials, for the feed and for introspection. */
  client: { id: string; secret: string };
  /** Latchkey's address, if it differs from the issuer: an address inside the cluster, for example. */
  url?: string;
  /** Seconds without contact to Latchkey for which the last known revocations are enough (default 120). */
  maxStaleness?: number;
  /**
   * What to do after that time, and before the first contact (default `introspect`). Known revoked tokens are always
   * refused.
   * - `accept`: accepts access tokens until they expire, and long-lived tokens that were found good before.
   * - `introspect`: asks Latchkey about each token; throws `unavailable` if it does not answer.
   * - `refuse`: throws `unavailable`.
   */
  whenStale?: WhenStale;
  /** Seconds by which this machine's clock may differ from Latchkey's (default 5, at most 30). */
  clockTolerance?: number;
  longLived?: {
    /** `false` refuses long-lived tokens (default `true`). */
    accept?: boolean;
    /** How many good tokens to remember (default 10,000). Above that, the least recently used is checked again. */
    cacheSize?: number;
  };
  /** Replaces the global `fetch`: for a proxy, a private CA or a client certificate. */
  fetch?: typeof globalThis.fetch;
  /** Called if the feed or the keys fail in the background: once per outage, and never with a secret. */
  onError?: (error: Error) => void;
}

export interface Settings {
  issuer: string;
  audience: string;
  client: { id: string; secret: string };
  url: string;
  maxStaleness: number;
  whenStale: WhenStale;
  clockTolerance: number;
  acceptLongLived: boolean;
  cacheSize: number;
  fetch: typeof globalThis.fetch;
  onError: (error: Error) => void;
}

/**
 * Seconds. A snapshot of revocations looks back a minute further than the lifetime of access tokens. The tolerance
 * counts twice, at the issue and at the expiry of a token, so it may be at most half of that minute.
 */
const MAX_TOLERANCE = 30;

/** Fills in the defaults. @throws TypeError that lists what is wrong. */
export function readOptions(options: VerifierOptions): Settings {
  // Services in JavaScript may pass anything.
  const url: unknown = options.url ?? options.issuer;
  const { issuer, audience, client, longLived = {} } = options;
  const settings: Settings = {
    issuer,
    audience,
    client,
    url: typeof url === 'string' ? url.replace(/\/+$/, '') : '',
    maxStaleness: options.maxStaleness ?? 120,
    whenStale: options.whenStale ?? 'introspect',
    clockTolerance: options.clockTolerance ?? 5,
    acceptLongLived: longLived.accept ?? true,
    cacheSize: longLived.cacheSize ?? 10_000,
    // Read the global at each call, so that a service may replace it later.
    fetch: options.fetch ?? ((...request) => globalThis.fetch(...request)),
    onError: options.onError ?? (() => undefined),
  };
  const problems = problemsOf(settings);
  if (problems.length > 0) throw new TypeError(`createVerifier: ${problems.join('; ')}`);
  return settings;
}

function problemsOf(settings: Settings): string[] {
  const { issuer, audience, client, url, maxStaleness, whenStale, clockTolerance, cacheSize } = settings;
  const isText = (value: unknown) => typeof value === 'string' && value !== '';
  const isNumber = (value: unknown) => typeof value === 'number';
  const { id, secret } = Object(client) as Record<string, unknown>;
  const checks: [isRight: boolean, problem: string][] = [
    [isHttpUrl(issuer), 'issuer must be an http(s) URL'],
    [isHttpUrl(url), 'url must be an http(s) URL'],
    [isText(audience), 'audience is missing'],
    [isText(id) && isText(secret), 'client needs an id and a secret'],
    [isNumber(maxStaleness) && maxStaleness >= 0, 'maxStaleness must be a number of seconds'],
    [
      ['accept', 'introspect', 'refuse'].includes(whenStale),
      'whenStale must be accept, introspect or refuse',
    ],
    [
      isNumber(clockTolerance) && clockTolerance >= 0 && clockTolerance <= MAX_TOLERANCE,
      `clockTolerance must be from 0 to ${MAX_TOLERANCE} seconds`,
    ],
    [Number.isSafeInteger(cacheSize) && cacheSize >= 0, 'longLived.cacheSize must be a whole number from 0'],
  ];
  return checks.filter(([isRight]) => !isRight).map(([, problem]) => problem);
}

function isHttpUrl(text: unknown): boolean {
  return typeof text === 'string' && /^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '');
}
