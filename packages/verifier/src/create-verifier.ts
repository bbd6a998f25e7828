import { makeClockCheck, SYSTEM_CLOCK, type VerifierClock } from './clock.ts';
import { makeConfirm } from './confirm.ts';
import { checkDemand, refuseUnproven, type Demand } from './demand.ts';
import type { FeedMessage } from './feed-message.ts';
import { followFeed } from './feed.ts';
import { makeIntrospect, type Present } from './introspect.ts';
import { makeKeySet } from './key-set.ts';
import { makeLatchkey } from './latchkey.ts';
import { makeLongLivedTokens } from './long-lived-tokens.ts';
import { readOptions, type Settings, type VerifierOptions } from './options.ts';
import { makeReadJwt } from './read-jwt.ts';
import { makeReadiness } from './readiness.ts';
import { reportOnce } from './report-once.ts';
import { makeRevocations } from './revocations.ts';
import { readScope, refuseOutOfScope, type Scope } from './scope.ts';
import { makeServiceTokens } from './service-tokens.ts';
import { suspectOptions } from './suspect-options.ts';
import { makeReadCached, makeTokenCache } from './token-cache.ts';
import {
  LIMITED_TYP,
  type AnyToken,
  type LimitedToken,
  type TokenType,
  type UsersType,
  type VerifiedToken,
} from './verified-token.ts';
import { makeTellOfUsers } from './tell-of-users.ts';
import { makeUses, type UsesTimes } from './uses.ts';
import { invalid, unavailable, VerifierError, wrongType } from './verifier-error.ts';

export interface Verifier<Accepted extends TokenType = UsersType> {
  /** The types of the tokens that `verify` returns; it refuses others. */
  readonly accept: readonly Accepted[];
  /**
   * Checks a token. Answers from memory, except for the first check of a long-lived token, for a new key, for a service
   * token whose client the feed does not list as it is in the token, and if `whenStale` demands introspection.
   * @param options what is demanded of the login. Long-lived, limited and service tokens meet no demand.
   * @throws VerifierError `invalid_token`, `insufficient_user_authentication` (answer 401), `unavailable`
   * (answer 503), `insufficient_scope` for a limited token (answer 403); TypeError for what cannot be
   * demanded
   */
  verify(token: string, options?: Demand & { scope?: undefined }): Promise<VerifiedToken<Accepted>>;
  /**
   * Also takes a limited token that has this scope, or all of these; without the option every limited token is refused.
   * Scopes narrow what a user may do: check the user's roles as well, as for other tokens.
   * @throws TypeError also for a malformed scope
   */
  verify(token: string, options: Demand & { scope: Scope }): Promise<VerifiedToken<Accepted> | LimitedToken>;
  /**
   * How far this verifier may be behind, in seconds: since the feed last confirmed that it had sent all revocations.
   * Usually at most about one second; Infinity before the first snapshot.
   */
  staleness(): number;
  /** Number of tokens whose signature is not checked again (`tokenCache` limits it). For a metric. */
  cachedTokens(): number;
  /**
   * Resolves when keys and revocations have been loaded. Waiting for it is optional: until then, `verify` asks Latchkey
   * or throws `unavailable`. While Latchkey is down it waits, until the signal ends that.
   * @throws VerifierError `configuration` names a mistake, such as a wrong secret or a missing right; `not_ready` says
   * what is still missing when the signal aborts.
   */
  ready(options?: { signal?: AbortSignal | undefined }): Promise<void>;
  /**
   * Closes the connection to Latchkey, which would keep the process alive, and tells Latchkey that this process accepts
   * no more tokens: close it after your server. It waits for that at most a second. `verify` then uses the last data.
   */
  close(): Promise<void>;
}

/** No token: the answer only shows whether this client may introspect. */
const PROBE = 'ready';

/** The most keys that a reader can state. */
const MOST_KEYS = 16;
/** The longest `maxStaleness` that counts as a policy, in seconds. */
const LONGEST_STALENESS = 604_800;

/**
 * Connects to Latchkey at once, and reconnects until it is closed.
 * @throws TypeError if an option is missing, wrong or unknown
 */
export function createVerifier<Accepted extends TokenType = UsersType>(
  options: VerifierOptions<Accepted>,
): Verifier<Accepted> {
  return makeVerifier(options, SYSTEM_CLOCK);
}

/**
 * As `createVerifier`, for the test issuer and our own tests, which choose the clock and the time between
 * reports.
 */
export function makeVerifier<Accepted extends TokenType = UsersType>(
  options: VerifierOptions<Accepted>,
  clock: VerifierClock,
  times?: UsesTimes,
): Verifier<Accepted> {
  const settings = readOptions(options);
  const { maxStaleness, whenStale, clockTolerance, onError } = settings;
  const latchkey = makeLatchkey({
    settings,
    reader: { id: crypto.randomUUID(), about: () => aboutReader(settings, keys.ids()) },
    clock,
    onRenew: reportOnce(onError),
    onDate: makeClockCheck(clockTolerance, onError),
  });
  const readiness = makeReadiness();
  let changes = 0;
  let isRefused = false;
  let mayIntrospect = false;

  const reportIntrospection = reportOnce(onError);
  // Of its own: answers about other tokens say nothing about the right `limited`.
  const reportLimited = reportOnce(onError);
  const ask = async (token: string, isLimited = false) => {
    const report = isLimited ? reportLimited : reportIntrospection;
    try {
      const answer = await latchkey.introspect(token, isLimited);
      mayIntrospect = true;
      report(null);
      return answer;
    } catch (error) {
      // Callers hear of every failure. A mistake must be heard of even if they only pass it on as 503.
      if (isMistake(error)) report(error);
      throw error;
    }
  };
  const introspect = makeIntrospect({ introspect: ask }, () => changes);
  const revocations = makeRevocations(clock, clockTolerance);
  const reportFailedUses = reportOnce(onError);
  const uses = makeUses({
    report: (tokens) => latchkey.reportUses(tokens),
    size: settings.cacheSize,
    times,
    onReport(failure) {
      // Not reported by itself, because the feed reports outages.
      if (failure === null || isMistake(failure)) reportFailedUses(failure);
    },
  });
  const longLived = makeLongLivedTokens({ introspect, revocations, uses, size: settings.cacheSize });
  const services = makeServiceTokens({ introspect });

  const reportKeys = reportOnce(onError);
  const keys = makeKeySet({
    load: () => latchkey.keys(),
    clock,
    onLoad(failure) {
      if (failure) readiness.failed('keys', failure);
      else readiness.loaded('keys');
      reportKeys(failure);
    },
  });
  const cache = makeTokenCache(settings.tokenCache);
  const read = makeReadCached({
    keys,
    cache,
    clock,
    clockTolerance,
    read: suspectOptions(
      makeReadJwt({
        keys,
        settings,
        clock,
      }),
      reportOnce(onError),
    ),
  });

  const tellOfUsers = makeTellOfUsers(settings.onUser, reportOnce(onError));
  const reportFeed = reportOnce(onError, settings.onRecovered);
  const confirm = makeConfirm({
    confirm: (position, signal) => latchkey.confirm(position, signal),
    goodbye: (signal) => latchkey.goodbye(signal),
    clock,
  });
  const feed = followFeed({
    open: (lastEventId, signal) => latchkey.feed(lastEventId, signal),
    onConnect: () => {
      isRefused = false;
      confirm.connected();
      revocations.connected();
      services.connected();
    },
    onMessage(message) {
      if (isChange(message)) changes++;
      revocations.learn(message);
      longLived.learn(message);
      services.learn(message);
      tellOfUsers(message);
      if (revocations.staleness() < Infinity) readiness.loaded('feed');
    },
    onHeartbeat(position) {
      if (revocations.isComplete()) confirm.applied(position);
    },
    onError(failure) {
      if (failure) readiness.failed('feed', failure);
      if (isMistake(failure)) isRefused = true;
      reportFeed(failure);
    },
  });

  /** Whether our list of revocations can cover this token: older revocations have been dropped. */
  function isCovered({ tokenType, claims: { iat } }: AnyToken): boolean {
    return tokenType !== 'access' || clock.now() / 1000 - iat <= revocations.coveredAge();
  }

  /** Whether the token is good if no known revocation ends it. */
  function mayTrust(verified: AnyToken): boolean {
    const staleness = revocations.staleness();
    if (staleness === Infinity) return false;
    if (staleness <= maxStaleness) return isCovered(verified);
    // A refusal of this client is no outage: it does not pass, and the list of revocations only grows older.
    return whenStale === 'accept' && !isRefused;
  }

  /** @returns Latchkey's last answer, or what the token says. */
  async function askIfNeeded(token: string, verified: AnyToken): Promise<Present | Pick<Present, 'roles'>> {
    const isTrusted = mayTrust(verified);
    if (!isTrusted && whenStale === 'refuse') {
      const isFirst = revocations.staleness() === Infinity;
      throw isFirst
        ? unavailable('not_ready', 'the revocations have not been loaded yet')
        : unavailable('stale', 'the known revocations are too old, or do not reach back to this token');
    }
    if (verified.tokenType === 'service') {
      const isStale = revocations.staleness() > maxStaleness;
      const known = isTrusted ? services.known(verified, isStale) : null;
      return { roles: known ?? (await services.ask(token, verified)) };
    }
    if (verified.tokenType === 'access') {
      const { roles, emailVerified } = verified;
      return isTrusted ? { roles, emailVerified } : introspect(token, verified);
    }
    // Even with `accept`, ask at the first check: the token may have been revoked long ago.
    const known = isTrusted ? longLived.known(verified) : null;
    return known ?? longLived.ask(token, verified);
  }

  function refuseRevoked(verified: AnyToken): void {
    const isRevoked =
      verified.tokenType === 'service' ? services.hasEnded(verified) : revocations.includes(verified);
    if (isRevoked) throw invalid('revoked', 'it has been revoked');
  }

  /**
   * Where no scope is needed. It comes before Latchkey is asked, which a client without the right `limited`
   * would see as an outage; so a token that has ended may be refused like a good one.
   */
  function refuseLimited(verified: AnyToken): void {
    if (verified.tokenType === 'limited' && !settings.accept.includes('access'))
      throw wrongType(settings.accept, LIMITED_TYP);
    refuseOutOfScope(verified, null);
  }

  /** Long-lived and service tokens are introspected, and so are access tokens unless `whenStale` refuses them. */
  async function refuseMissingRight(): Promise<void> {
    const neverAsks = whenStale === 'refuse' && settings.accept.every((type) => type === 'access');
    if (mayIntrospect || neverAsks) return;
    await ask(PROBE).catch((error: unknown) => {
      // An outage passes, and does not keep a service from starting.
      if (isMistake(error)) throw error;
    });
  }

  return {
    // Without the option, both types have the same default.
    accept: settings.accept as readonly Accepted[],
    async verify(token: string, options: Demand & { scope?: Scope | undefined } = {}) {
      checkDemand(options);
      const { scope, acr, maxAge } = options;
      const needed = scope === undefined ? null : readScope(scope);
      const verified = await read(token);
      refuseRevoked(verified);
      if (needed === null) refuseLimited(verified);
      const present = await askIfNeeded(token, verified);
      // It may have been revoked while Latchkey answered.
      refuseRevoked(verified);
      refuseOutOfScope(verified, needed);
      refuseUnproven(verified, { acr, maxAge }, Math.floor(clock.now() / 1000) - clockTolerance);
      // Other types were refused.
      return { ...verified, ...present } as VerifiedToken<Accepted>;
    },
    staleness: () => revocations.staleness(),
    cachedTokens: () => cache.size(),
    async ready({ signal } = {}) {
      await readiness.wait(signal);
      await refuseMissingRight();
    },
    async close() {
      readiness.close();
      keys.close();
      uses.close();
      await feed.close();
      await confirm.close();
      latchkey.close();
    },
  };
}

/** What Latchkey shows of this reader, and by which it judges a silent one. */
function aboutReader(
  { reader, audience, maxStaleness, whenStale }: Settings,
  keys: readonly string[],
): object {
  const isPolicy = maxStaleness <= LONGEST_STALENESS;
  return {
    ...reader,
    audience,
    ...(isPolicy && { max_staleness: Math.ceil(maxStaleness), when_stale: whenStale }),
    keys: keys.slice(0, MOST_KEYS),
  };
}

/** Whether an answer from before may be wrong now. After a lost epoch, the snapshot stands for changes that were missed. */
function isChange(message: FeedMessage): boolean {
  if (message.type === 'snapshot') return message.isLast;
  if (message.type === 'user') return message.event.type === 'changed';
  return message.type === 'clients';
}

function isMistake(error: unknown): error is VerifierError {
  return error instanceof VerifierError && error.reason === 'configuration';
}
