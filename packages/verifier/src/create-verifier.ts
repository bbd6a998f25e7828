import { SYSTEM_CLOCK, type VerifierClock } from './clock.ts';
import { followFeed } from './feed.ts';
import { makeIntrospect } from './introspect.ts';
import { makeKeySet } from './key-set.ts';
import { makeLatchkey } from './latchkey.ts';
import { makeLongLivedTokens } from './long-lived-tokens.ts';
import { readOptions, type VerifierOptions } from './options.ts';
import { makeReadJwt } from './read-jwt.ts';
import { makeReadiness } from './readiness.ts';
import { reportOnce } from './report-once.ts';
import { makeRevocations } from './revocations.ts';
import { suspectOptions } from './suspect-options.ts';
import { makeReadCached, makeTokenCache } from './token-cache.ts';
import type { VerifiedToken } from './verified-token.ts';
import { invalid, unavailable, VerifierError } from './verifier-error.ts';

export interface Verifier {
  /**
   * Checks an access token or long-lived token. Answers from memory, except for the first check of a long-lived token,
   * for a new key, and if `whenStale` demands introspection.
   * @throws VerifierError `invalid_token` (answer 401), `unavailable` (answer 503)
   */
  verify(token: string): Promise<VerifiedToken>;
  /**
   * How far this verifier may be behind, in seconds: since the feed last confirmed that it had sent all revocations.
   * Usually at most about one second; Infinity before the first snapshot.
   */
  staleness(): number;
  /**
   * Resolves when keys and revocations have been loaded. Waiting for it is optional: until then, `verify` asks Latchkey
   * or throws `unavailable`. While Latchkey is down it waits, until the signal ends that.
   * @throws VerifierError `configuration` names a mistake, such as a wrong secret or a missing right; `not_ready` says
   * what is still missing when the signal aborts.
   */
  ready(options?: { signal?: AbortSignal | undefined }): Promise<void>;
  /** Closes the connection to Latchkey, which would keep the process alive. `verify` then uses the last data. */
  close(): Promise<void>;
}

/** No token: the answer only shows whether this client may introspect. */
const PROBE = 'ready';

/**
 * Connects to Latchkey at once, and reconnects until it is closed.
 * @throws TypeError if an option is missing or wrong
 */
export function createVerifier(options: VerifierOptions): Verifier {
  return makeVerifier(options, SYSTEM_CLOCK);
}

/** For tests, which pass a clock. */
export function makeVerifier(options: VerifierOptions, clock: VerifierClock): Verifier {
  const settings = readOptions(options);
  const { maxStaleness, whenStale, clockTolerance, onError } = settings;
  const latchkey = makeLatchkey(settings);
  const readiness = makeReadiness();
  let changes = 0;
  let isRefused = false;
  let mayIntrospect = false;

  const reportIntrospection = reportOnce(onError);
  const ask = async (token: string) => {
    try {
      const answer = await latchkey.introspect(token);
      mayIntrospect = true;
      reportIntrospection(null);
      return answer;
    } catch (error) {
      // Callers hear of every failure. A mistake must be heard of even if they only pass it on as 503.
      if (isMistake(error)) reportIntrospection(error);
      throw error;
    }
  };
  const introspect = makeIntrospect({ introspect: ask }, () => changes);
  const revocations = makeRevocations(clock, clockTolerance);
  const longLived = makeLongLivedTokens({ introspect, revocations, size: settings.cacheSize });

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
  const read = makeReadCached({
    ...{ keys, clock, clockTolerance },
    read: suspectOptions(makeReadJwt({ keys, settings, clock }), reportOnce(onError)),
    cache: makeTokenCache(settings.tokenCache),
  });

  const reportFeed = reportOnce(onError, settings.onRecovered);
  const feed = followFeed({
    open: (lastEventId, signal) => latchkey.feed(lastEventId, signal),
    onConnect: () => {
      isRefused = false;
      revocations.connected();
    },
    onMessage(message) {
      // After a lost epoch, the snapshot stands for changes that were missed.
      if (message.type === 'user_changed' || (message.type === 'snapshot' && message.isLast)) changes++;
      revocations.learn(message);
      longLived.learn(message);
      if (revocations.staleness() < Infinity) readiness.loaded('feed');
    },
    onError(failure) {
      if (failure) readiness.failed('feed', failure);
      if (isMistake(failure)) isRefused = true;
      reportFeed(failure);
    },
  });

  /** Whether our list of revocations can cover this token: older revocations have been dropped. */
  function isCovered({ tokenType, claims: { iat } }: VerifiedToken): boolean {
    return tokenType === 'llt' || clock.now() / 1000 - iat <= revocations.kept();
  }

  /** Whether the token is good if no known revocation ends it. */
  function mayTrust(verified: VerifiedToken): boolean {
    const staleness = revocations.staleness();
    if (staleness === Infinity) return false;
    if (staleness <= maxStaleness) return isCovered(verified);
    // A refusal of this client is no outage: it does not pass, and the list of revocations only grows older.
    return whenStale === 'accept' && !isRefused;
  }

  /** @returns the user's roles: Latchkey's last answer, or those in the token. */
  async function askIfNeeded(token: string, verified: VerifiedToken): Promise<readonly string[]> {
    const isTrusted = mayTrust(verified);
    if (!isTrusted && whenStale === 'refuse') {
      const isFirst = revocations.staleness() === Infinity;
      throw isFirst
        ? unavailable('not_ready', 'the revocations have not been loaded yet')
        : unavailable('stale', 'the known revocations are too old, or do not reach back to this token');
    }
    if (verified.tokenType === 'access') return isTrusted ? verified.roles : introspect(token, verified);
    // Even with `accept`, ask at the first check: the token may have been revoked long ago.
    const known = isTrusted ? longLived.known(verified) : null;
    return known ?? longLived.ask(token, verified);
  }

  function refuseRevoked(verified: VerifiedToken): void {
    if (revocations.includes(verified)) throw invalid('revoked', 'it has been revoked');
  }

  /** Long-lived tokens are introspected, and so are others unless `whenStale` refuses them. */
  async function refuseMissingRight(): Promise<void> {
    if (mayIntrospect || (whenStale === 'refuse' && !settings.acceptLongLived)) return;
    await ask(PROBE).catch((error: unknown) => {
      // An outage passes, and does not keep a service from starting.
      if (isMistake(error)) throw error;
    });
  }

  return {
    async verify(token) {
      const verified = await read(token);
      refuseRevoked(verified);
      const roles = await askIfNeeded(token, verified);
      // It may have been revoked while Latchkey answered.
      refuseRevoked(verified);
      return { ...verified, roles };
    },
    staleness: () => revocations.staleness(),
    async ready({ signal } = {}) {
      await readiness.wait(signal);
      await refuseMissingRight();
    },
    async close() {
      readiness.close();
      keys.close();
      await feed.close();
    },
  };
}

function isMistake(error: unknown): error is VerifierError {
  return error instanceof VerifierError && error.reason === 'configuration';
}
