/** What to do where the feed has been out of reach for longer than `maxStaleness`. */
export type WhenStale = 'accept' | 'introspect' | 'refuse';

export interface VerifierOptions {
  /** Latchkey's ISSUER, as it stands in its tokens. */
  issuer: string;
  /** Latchkey's AUDIENCE. */
  audience: string;
  /** This service's own client: it opens the feed and asks introspection. */
  client: { id: string; secret: string };
  /** Where Latchkey is reached, if not at its issuer: an address inside the cluster, for example. */
  url?: string;
  /** Seconds for which what is known counts without a word from Latchkey (120). */
  maxStaleness?: number;
  /**
   * What then (`introspect`), and before the first word. Revoked tokens that are known stay refused in each case.
   * - `accept`: access tokens go on until they expire; long-lived tokens go on if they were found good before.
   * - `introspect`: Latchkey is asked about each token; where it does not answer, `unavailable`.
   * - `refuse`: `unavailable`.
   */
  whenStale?: WhenStale;
  /** Seconds by which this machine's clock may differ from Latchkey's (5, at most 30). */
  clockTolerance?: number;
  longLived?: {
    /** `false` refuses long-lived tokens (`true`). */
    accept?: boolean;
    /** How many that were found good are kept; one more, and the one unused for longest is asked about again (10,000). */
    cacheSize?: number;
  };
  /** Instead of the global one: for a proxy, a private CA, a client certificate. */
  fetch?: typeof globalThis.fetch;
  /** Hears of what fails in the background: the feed, the keys. Once until it has worked again, and never a secret. */
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
 * Seconds. A snapshot of revocations looks back a minute further than access tokens live, which is twice as long: clocks
 * may differ so that a token is taken for younger than it is, and be good for longer.
 */
const MAX_TOLERANCE = 30;

/** Fills in the defaults. @throws TypeError that lists what is wrong. */
export function readOptions(options: VerifierOptions): Settings {
  // A service need not be written in TypeScript.
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
    // Looked up at each call, so that a service may still replace the global one.
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
    [isHttpUrl(issuer), 'issuer is not an http(s) URL'],
    [isHttpUrl(url), 'url is not an http(s) URL'],
    [isText(audience), 'audience is missing'],
    [isText(id) && isText(secret), 'client needs an id and a secret'],
    [isNumber(maxStaleness) && maxStaleness >= 0, 'maxStaleness is not a number of seconds'],
    [
      ['accept', 'introspect', 'refuse'].includes(whenStale),
      'whenStale is none of accept, introspect, refuse',
    ],
    [
      isNumber(clockTolerance) && clockTolerance >= 0 && clockTolerance <= MAX_TOLERANCE,
      `clockTolerance is not from 0 to ${MAX_TOLERANCE} seconds`,
    ],
    [Number.isSafeInteger(cacheSize) && cacheSize >= 0, 'longLived.cacheSize is not a count'],
  ];
  return checks.filter(([isRight]) => !isRight).map(([, problem]) => problem);
}

function isHttpUrl(text: unknown): boolean {
  return typeof text === 'string' && /^https?:$/.test(URL.canParse(text) ? new URL(text).protocol : '');
}
