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
   * Is this access token or long-lived token good, as far as is known here? Answers from memory, but for a long-lived
   * token that is new here, a key that is new, and where `whenStale` says to ask.
   * @throws VerifierError `invalid_token` (answer 401), `unavailable` (answer 503)
   */
  verify(token: string): Promise<VerifiedToken>;
  /**
   * Seconds for which a revocation may by now have gone unheard: since the feed last said that everything published was
   * sent. About one second at most while all is well; Infinity before the first snapshot of revocations.
   */
  staleness(): number;
  /**
   * Resolves once keys and revocations are known. Nobody has to wait for it: before that, `whenStale` decides. It stays
   * pending for as long as Latchkey is away.
   */
  ready(): Promise<void>;
  /** Ends the connection to Latchkey, which would keep the process alive. `verify` then goes on with what is known. */
  close(): Promise<void>;
}

/**
 * Starts to follow Latchkey at once, and never stops trying.
 * @throws TypeError where an option is wrong
 */
export function createVerifier(options: VerifierOptions): Verifier {
  return makeVerifier(options, SYSTEM_CLOCK);
}

/** The same, by a clock that a test moves. */
export function makeVerifier(options: VerifierOptions, clock: VerifierClock): Verifier {
  const settings = readOptions(options);
  const { maxStaleness, whenStale, onError } = settings;
  const latchkey = makeLatchkey(settings);
  const introspect = makeIntrospect(latchkey);
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
      revocations.learn(message);
      longLived.learn(message);
      if (revocations.staleness() < Infinity) for (const resolve of waiting.splice(0)) resolve();
    },
    onError: reportOnce(onError),
  });

  /** Whether what is known can tell of this token. What was revoked longer ago than is kept may be forgotten. */
  function isFresh({ tokenType, claims: { iat } }: VerifiedToken): boolean {
    const staleness = revocations.staleness();
    if (staleness === Infinity || staleness > maxStaleness) return false;
    return tokenType === 'llt' || clock.now() / 1000 - iat <= revocations.kept();
  }

  async function askIfNeeded(token: string, verified: VerifiedToken): Promise<void> {
    const isFreshNow = isFresh(verified);
    if (!isFreshNow && whenStale === 'refuse')
      throw new VerifierError('unavailable', 'nothing has been heard of Latchkey for too long');
    const mayTrust = isFreshNow || whenStale === 'accept';
    if (verified.tokenType === 'access') {
      if (!mayTrust) await introspect(token, verified);
    } else if (!mayTrust || !longLived.isKnown(verified)) {
      // Not even `accept` takes one unseen: who knows for how long it has been revoked.
      await longLived.ask(token, verified);
    }
  }

  function refuseRevoked(verified: VerifiedToken): void {
    if (revocations.includes(verified)) throw invalid('it has been revoked');
  }

  return {
    async verify(token) {
      const verified = await readJwt(token);
      refuseRevoked(verified);
      await askIfNeeded(token, verified);
      // Revoked while Latchkey was being asked.
      refuseRevoked(verified);
      return verified;
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
