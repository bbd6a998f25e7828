import { hostName } from './environment.ts';
import { warn } from './runtime.ts';
import { TOKEN_TYPES, USERS_TYPES, type TokenType, type UsersType } from './verified-token.ts';
import type { UserEvent } from './feed-message.ts';
import type { VerifierError } from './verifier-error.ts';
import { VERSION } from './version.ts';

/** What to do if the feed has been unreachable for longer than `maxStaleness`. */
export type WhenStale = 'accept' | 'introspect' | 'refuse';

/** How this service authenticates at Latchkey. */
export type ClientOptions =
  | { id: string | undefined; secret: string | undefined; assertion?: undefined }
  | {
      /**
       * Returns a JWT of an issuer that the client trusts (`npx latchkey client trust`), such as the token that
       * Kubernetes projects into a pod. Called whenever a new one is needed, every few minutes. Its errors reach
       * `onError` by their code or name only.
       */
      assertion: () => string | Promise<string>;
      id?: undefined;
      secret?: undefined;
    };

/** `undefined` stands for a missing environment variable: the TypeError of `createVerifier` names the option. */
export interface VerifierOptions<Accepted extends TokenType = UsersType> {
  /** Latchkey's ISSUER, exactly as in its tokens. */
  issuer: string | undefined;
  /** Latchkey's AUDIENCE, or an audience of this service: the verifier takes tokens for exactly this one. */
  audience: string | undefined;
  /** How this service authenticates at Latchkey. */
  client: ClientOptions;
  /** The types of tokens to take (default `['access', 'llt']`). With `service`, look at `tokenType` of a good token. */
  accept?: readonly Accepted[] | undefined;
  /** Latchkey's address, if it differs from the issuer: an address inside the cluster, for example. */
  url?: string | undefined;
  /** Seconds without contact to Latchkey for which the last known revocations are enough (default 120). */
  maxStaleness?: number | undefined;
  /**
   * What to do after that time (default `introspect`). Known revoked tokens are always refused.
   * - `accept`: while Latchkey is down, accepts access tokens until they expire, service tokens of a known version too,
   *   and long-lived tokens that were found good before. Before the first contact, and if Latchkey refuses this client, it does as `introspect`.
   * - `introspect`: asks Latchkey about each token; throws `unavailable` if it does not answer.
   * - `refuse`: throws `unavailable`.
   */
  whenStale?: WhenStale | undefined;
  /** Seconds by which this machine's clock may differ from Latchkey's (default 5, at most 30). */
  clockTolerance?: number | undefined;
  /** Access and long-lived tokens whose signature was checked, so that the next check costs less. */
  tokenCache?:
    | {
        /** How many tokens to keep (default 10,000). 0 turns the cache off. */
        size?: number | undefined;
        /** How many bytes they may take (default 32 MiB). */
        bytes?: number | undefined;
      }
    | undefined;
  longLived?:
    | {
        /** How many good tokens to remember (default 10,000). Above that, the least recently used is checked again. */
        cacheSize?: number | undefined;
      }
    | undefined;
  /** What Latchkey shows of this process to those who ask which instances have enforced a revocation. */
  reader?:
    | {
        /** The name of this instance (default: `HOSTNAME` of the environment, if it has one). */
        instance?: string | undefined;
        /** The software that checks the tokens (default `@latchkey/verifier`). */
        software?: string | undefined;
        /** Its version (default: that of this package). */
        version?: string | undefined;
      }
    | undefined;
  /** Replaces the global `fetch`: for a proxy, a private CA or a client certificate. */
  fetch?: typeof globalThis.fetch | undefined;
  /**
   * Called once per outage if Latchkey cannot be reached or refuses this client, and never with a secret.
   * Called once for each of `audience`, `issuer` and `unknown_key` too, if a token is refused for it and none
   * was accepted before: then an option may be wrong. Called once for `clock` until this machine's clock
   * agrees with Latchkey's. Without it, each report is a warning of the process, or of the console where
   * there is none.
   */
  onError?: ((error: VerifierError) => void) | undefined;
  /**
   * Called when an account was created, disabled, enabled or deleted, or what services see of it has changed. It may be
   * called twice and late, so keep the greatest version of each user. The next call waits for the promise that it
   * returns. If it throws or rejects, `onError` hears of that, and the event is not repeated.
   */
  onUser?: ((event: UserEvent) => unknown) | undefined;
  /** Called when the feed is back after an outage. Without it and without `onError`, that is a warning too. */
  onRecovered?: (() => void) | undefined;
}

/**
 * The options of `createTokens`, which mean the same as those of `createVerifier`. It ignores those that only
 * `createVerifier` uses, so that one object serves both.
 */
export type TokensOptions = Pick<VerifierOptions, 'issuer' | 'client' | 'url' | 'fetch'> &
  Partial<VerifierOptions<TokenType>>;

/** Every option, and the members of those that have some. */
const OPTIONS: Record<keyof VerifierOptions, readonly string[] | null> = {
  issuer: null,
  audience: null,
  client: ['id', 'secret', 'assertion'],
  accept: null,
  url: null,
  maxStaleness: null,
  whenStale: null,
  clockTolerance: null,
  tokenCache: ['size', 'bytes'],
  longLived: ['cacheSize'],
  reader: ['instance', 'software', 'version'],
  fetch: null,
  onError: null,
  onUser: null,
  onRecovered: null,
};

/** What a request to Latchkey needs. */
export interface Connected {
  issuer: string;
  client: { id: string; secret: string } | { assertion: () => unknown };
  url: string;
  fetch: typeof globalThis.fetch;
}

export interface Settings extends Connected {
  audience: string;
  accept: readonly TokenType[];
  maxStaleness: number;
  whenStale: WhenStale;
  clockTolerance: number;
  tokenCache: { size: number; bytes: number };
  cacheSize: number;
  reader: { instance?: string; software: string; version: string };
  onError: (error: VerifierError) => void;
  onUser: (event: UserEvent) => unknown;
  onRecovered: () => void;
}

/**
 * Seconds. A snapshot of revocations looks back a minute further than the lifetime of access tokens. The tolerance
 * counts twice, at the issue and at the expiry of a token, so it may be at most half of that minute.
 */
const MAX_TOLERANCE = 30;

/** Seconds. */
export const CLOCK_TOLERANCE = 5;

/** Fills in the defaults. @throws TypeError that lists what is wrong. */
export function readOptions(options: VerifierOptions<TokenType>): Settings {
  refuseProblems('createVerifier', options, [...connectionChecks(options), ...verifierChecks(options)]);
  const { audience = '', longLived, tokenCache } = options;
  return {
    ...connected(options),
    audience,
    accept: [...(options.accept ?? USERS_TYPES)],
    maxStaleness: options.maxStaleness ?? 120,
    whenStale: options.whenStale ?? 'introspect',
    clockTolerance: options.clockTolerance ?? CLOCK_TOLERANCE,
    tokenCache: { size: tokenCache?.size ?? 10_000, bytes: tokenCache?.bytes ?? 32 * 2 ** 20 },
    cacheSize: longLived?.cacheSize ?? 10_000,
    reader: readReader(options.reader),
    onError: options.onError ?? warn,
    onUser: options.onUser ?? (() => undefined),
    onRecovered:
      options.onRecovered ??
      (() => {
        // A service that logs the outage elsewhere does not look at the console for its end.
        if (!options.onError) warn({ message: 'the revocation feed is back' });
      }),
  };
}

function readReader({ instance, software, version }: VerifierOptions['reader'] = {}): Settings['reader'] {
  // A host may have any name.
  const named =
    instance ??
    hostName()
      ?.replace(/[^\w.:-]/g, '-')
      .slice(0, 128);
  return {
    ...(named && { instance: named }),
    software: software ?? '@latchkey/verifier',
    version: version ?? VERSION,
  };
}

/** Fills in the defaults. @throws TypeError that lists what is wrong. */
export function readTokensOptions(options: TokensOptions): Connected {
  refuseProblems('createTokens', options, connectionChecks(options));
  return connected(options);
}

function connected({ issuer = '', client, url, fetch }: TokensOptions): Connected {
  return {
    issuer,
    client: client.assertion
      ? { assertion: client.assertion }
      : { id: client.id ?? '', secret: client.secret ?? '' },
    url: (url ?? issuer).replace(/\/+$/, ''),
    // Read the global at each call, so that a service may replace it later.
    fetch: fetch ?? ((...request) => globalThis.fetch(...request)),
  };
}

type Check = (value: unknown) => string | null;
type NamedCheck = [name: string, value: unknown, check: Check];

function refuseProblems(caller: string, options: object, checks: NamedCheck[]): void {
  const wrong = checks.flatMap(([name, value, check]) => {
    const problem = check(value);
    return problem === null ? [] : [`${name} ${problem}`];
  });
  const problems = [...wrong, ...unknownIn(options).map((name) => `${name} is no option`)];
  if (problems.length > 0) throw new TypeError(`${caller}: ${problems.join('; ')}`);
}

/** Names alone: a value may be a secret. */
function unknownIn(options: object): string[] {
  return Object.entries(Object(options) as object).flatMap(([name, value]) => {
    if (!Object.hasOwn(OPTIONS, name)) return [name];
    const members = OPTIONS[name as keyof VerifierOptions];
    const given = members === null ? [] : Object.keys(Object(value) as object);
    return given.filter((member) => !members?.includes(member)).map((member) => `${name}.${member}`);
  });
}

/** Services in JavaScript may pass anything. */
function connectionChecks(options: TokensOptions): NamedCheck[] {
  const { issuer, client, url, fetch } = Object(options) as Partial<TokensOptions>;
  return [
    ['issuer', issuer, required(isHttpUrl, HTTP_URL)],
    ...clientChecks(Object(client) as Record<string, unknown>),
    ['url', url, optional(isHttpUrl, HTTP_URL)],
    ['fetch', fetch, optional(isFunction, 'a function')],
  ];
}

function verifierChecks(options: VerifierOptions<TokenType>): NamedCheck[] {
  const { audience, accept, longLived, tokenCache, reader } = Object(options) as Partial<VerifierOptions>;
  const { maxStaleness, whenStale, clockTolerance, onError, onUser, onRecovered } = Object(
    options,
  ) as Partial<VerifierOptions>;
  const of = (group: unknown, name: string) => (Object(group) as Record<string, unknown>)[name];
  return [
    ['audience', audience, required(isText, 'a text')],
    ['accept', accept, optional(isListOfTypes, 'a list of access, llt and service')],
    ['maxStaleness', maxStaleness, optional(isNumberFrom(0), 'a number of seconds')],
    ['whenStale', whenStale, optional(isWhenStale, 'accept, introspect or refuse')],
    [
      'clockTolerance',
      clockTolerance,
      optional(isNumberFrom(0, MAX_TOLERANCE), `from 0 to ${MAX_TOLERANCE} seconds`),
    ],
    ['tokenCache.size', of(tokenCache, 'size'), optional(isCount, 'a whole number from 0')],
    ['tokenCache.bytes', of(tokenCache, 'bytes'), optional(isCount, 'a whole number from 0')],
    ['longLived.cacheSize', of(longLived, 'cacheSize'), optional(isCount, 'a whole number from 0')],
    ['reader.instance', of(reader, 'instance'), optional(isInstance, INSTANCE)],
    ['reader.software', of(reader, 'software'), optional(isSoftware, SOFTWARE)],
    ['reader.version', of(reader, 'version'), optional(isSoftware, SOFTWARE)],
    ['onError', onError, optional(isFunction, 'a function')],
    ['onUser', onUser, optional(isFunction, 'a function')],
    ['onRecovered', onRecovered, optional(isFunction, 'a function')],
  ];
}

function clientChecks({ id, secret, assertion }: Record<string, unknown>): NamedCheck[] {
  if (assertion === undefined)
    return [
      ['client.id', id, required(isText, 'a text')],
      ['client.secret', secret, required(isText, 'a text')],
    ];
  const isAlone: Test = () => id === undefined && secret === undefined;
  return [
    ['client.assertion', assertion, optional(isFunction, 'a function')],
    ['client', assertion, optional(isAlone, 'either id and secret, or assertion')],
  ];
}

type Test = (value: unknown) => boolean;

function required(isRight: Test, what: string): Check {
  return (value) => (value === undefined || value === '' ? 'is missing' : optional(isRight, what)(value));
}

function optional(isRight: Test, what: string): Check {
  return (value) => (value === undefined || isRight(value) ? null : `must be ${what}`);
}

const HTTP_URL = 'an http(s) URL without user, query and fragment';
const isText: Test = (value) => typeof value === 'string';
const isFunction: Test = (value) => typeof value === 'function';
const isCount: Test = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isListOfTypes: Test = (value) =>
  Array.isArray(value) && value.length > 0 && value.every((each) => TOKEN_TYPES.includes(each as TokenType));
const INSTANCE = 'a text of 1 to 128 of A-Z, a-z, 0-9 and ._:-';
const isInstance: Test = (value) => typeof value === 'string' && /^[\w.:-]{1,128}$/.test(value);
const SOFTWARE = 'a text of 1 to 64 visible ASCII characters';
const isSoftware: Test = (value) => typeof value === 'string' && /^[!-~]{1,64}$/.test(value);
const isWhenStale: Test = (value) => ['accept', 'introspect', 'refuse'].includes(value as string);

function isNumberFrom(least: number, most = Infinity): Test {
  return (value) => typeof value === 'number' && value >= least && value <= most;
}

/** Later, paths are appended to the text, and `fetch` takes no URL that holds a user. */
function isHttpUrl(text: unknown): boolean {
  if (typeof text !== 'string' || /[?#\s]/.test(text) || !URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return /^https?:$/.test(protocol) && username === '' && password === '';
}
