import { SYSTEM_CLOCK, type VerifierClock } from './clock.ts';
import { followFeed } from './feed.ts';
import { makeIntrospect } from './introspect.ts';
import { makeKeySet } from './key-set.ts';
import { makeLatchkey } from './latchkey.ts';
import { makeLongLivedTokens } from './long-lived-tokens.ts';
import { readOptions, type VerifierOptions } from './options.ts';
import { invalid, makeReadJwt } from './read-jwt.ts';
import { reportOnce } from './report-once.ts';
import { makeRevocations } from './revocations.ts';
import type { VerifiedToken } from './verified-token.ts';
import { VerifierError } from './verifier-error.ts';

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
   * Resolves when keys and revocations have been loaded. Waiting for it is optional: until then, `whenStale` decides.
   * It stays pending as long as Latchkey is down.
   */
  ready(): Promise<void>;
  /** Closes the connection to Latchkey, which would keep the process alive. `verify` then uses the last data. */
  close(): Promise<void>;
}

/**
 * Connects to Latchkey at once, and reconnects until it is closed.
 * @throws TypeError if an option is wrong
 */
export function createVerifier(options: VerifierOptions): Verifier {
  return makeVerifier(options, SYSTEM_CLOCK);
}

/** For tests, which pass a clock. */
export function makeVerifier(options: VerifierOptions, clock: VerifierClock): Verifier {
  const settings = readOptions(options);
  const { maxStaleness, whenStale, onError } = settings;
  const latchkey = makeLatchkey(settings);
  let changes = 0;
  const introspect = makeIntrospect(latchkey, () => changes);
  const revocations = makeRevocations(clock, settings.clockTolerance);
  const longLived = makeLongLivedTokens({ introspect, revocations, size: settings.cacheSize });
  const keys = makeKeySet({ load: () => latchkey.keys(), clock, onError: reportOnce(onError) });
  const readJwt = makeReadJwt({ keys, settings, clock });
  const waiting: (() => void)[] = [];

  const feed = followFeed({
    open: (lastEventId, signal) => latchkey.feed(lastEventId, signal),
    onConnect: () => {
      revocations.connected();
    },
    onMessage(message) {
      // After a lost epoch, the snapshot stands for changes that were missed.
      if (message.type === 'user_changed' || (message.type === 'snapshot' && message.isLast)) changes++;
      revocations.learn(message);
      longLived.learn(message);
      if (revocations.staleness() < Infinity) for (const resolve of waiting.splice(0)) resolve();
    },
    onError: reportOnce(onError),
  });

  /** Whether our list of revocations can cover this token: older revocations have been dropped. */
  function isFresh({ tokenType, claims: { iat } }: VerifiedToken): boolean {
    const staleness = revocations.staleness();
    if (staleness === Infinity || staleness > maxStaleness) return false;
    return tokenType === 'llt' || clock.now() / 1000 - iat <= revocations.kept();
  }

  /** @returns the user's roles: Latchkey's last answer, or those in the token. */
  async function askIfNeeded(token: string, verified: VerifiedToken): Promise<readonly string[]> {
    const isFreshNow = isFresh(verified);
    if (!isFreshNow && whenStale === 'refuse')
      throw new VerifierError('unavailable', 'Latchkey has been unreachable for too long');
    const mayTrust = isFreshNow || whenStale === 'accept';
    if (verified.tokenType === 'access') return mayTrust ? verified.roles : introspect(token, verified);
    // Even with `accept`, ask at the first check: the token may have been revoked long ago.
    const known = mayTrust ? longLived.known(verified) : null;
    return known ?? longLived.ask(token, verified);
  }

  function refuseRevoked(verified: VerifiedToken): void {
    if (revocations.includes(verified)) throw invalid('it has been revoked');
  }

  return {
    async verify(token) {
      const verified = await readJwt(token);
      refuseRevoked(verified);
      const roles = await askIfNeeded(token, verified);
      // It may have been revoked while Latchkey answered.
      refuseRevoked(verified);
      return { ...verified, roles };
    },
    staleness: () => revocations.staleness(),
    async ready() {
      await keys.ready();
      if (revocations.staleness() === Infinity) await new Promise<void>((resolve) => waiting.push(resolve));
    },
    async close() {
      keys.close();
      await feed.close();
    },
  };
}
