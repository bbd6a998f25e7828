import { SYSTEM_CLOCK, type VerifierClock } from './clock.ts';
import { makeConnection } from './connection.ts';
import { readTokensOptions, type TokensOptions } from './options.ts';
import { COMPACT } from './read-jwt.ts';
import { readIssued } from './service-credentials.ts';
import { invalid, unavailable } from './verifier-error.ts';

/** Tokens with which this service calls others. */
export interface Tokens {
  /**
   * A token of this service itself, for the service of that audience. This client needs the right `call:AUDIENCE`.
   * @throws VerifierError `unavailable` (answer 503)
   */
  serviceToken(audience: string): Promise<string>;
  /**
   * A token for the service of that audience, in place of the access token of a user who called this service. This
   * client needs the right `exchange`.
   * @throws VerifierError `invalid_token` if Latchkey refuses the user's token (answer 401), `unavailable` (answer 503)
   */
  exchange(token: string, audience: string): Promise<string>;
  /** Forgets all tokens, and renews none in the background. */
  close(): Promise<void>;
}

/** The most tokens to keep of each kind. Above that, the least recently used is asked for again. */
const SIZE = 10_000;

/** Milliseconds, or a part of a token's life, before its end: the service that gets it has to have time to check it. */
const [EARLY, PART] = [30_000, 1 / 4];

/** Characters. With 32 long roles, an access token has about half of that, and Latchkey reads no body above 16 KiB. */
const LONGEST = 8192;

/**
 * Sends nothing until a token is asked for.
 * @throws TypeError if an option is missing, wrong or unknown
 */
export function createTokens(options: TokensOptions): Tokens {
  return makeTokens(options, SYSTEM_CLOCK);
}

/** For tests, which pass a clock. */
export function makeTokens(options: TokensOptions, clock: VerifierClock): Tokens {
  // Whoever asks for a token hears of a failure, and the failed renewal of this client's own is only the first try.
  const onRenew = () => undefined;
  const connection = makeConnection({ settings: readTokensOptions(options), clock, onRenew });
  const ofService = keepTokens(clock);
  const ofUsers = keepTokens(clock);

  return {
    async serviceToken(audience) {
      requireAudience(audience);
      return ofService.get(audience, () => connection.ownToken(audience));
    },
    async exchange(token, audience) {
      requireAudience(audience);
      requireToken(token);
      return ofUsers.get(`${audience} ${token}`, () => connection.exchange(token, audience));
    },
    close() {
      connection.close();
      ofService.clear();
      ofUsers.clear();
      return Promise.resolve();
    },
  };
}

interface Kept {
  token: string;
  isFresh: () => boolean;
}

/** Keeps tokens while they are fresh. Concurrent calls for one key share a request, and failures are not kept. */
function keepTokens(clock: VerifierClock) {
  /** The least recently used first. */
  const kept = new Map<string, Kept>();
  const asking = new Map<string, Promise<string>>();
  let isClosed = false;

  async function ask(key: string, request: () => Promise<Record<string, unknown>>): Promise<string> {
    const age = startAge(clock);
    const { token, lifetime } = readIssued(await request());
    const fresh = lifetime - Math.min(EARLY, lifetime * PART);
    if (isClosed) return token;
    kept.set(key, { token, isFresh: () => age() < fresh });
    // Those that are no longer fresh gather where the least recently used are.
    for (const [oldest, { isFresh }] of kept) {
      if (kept.size <= SIZE && isFresh()) break;
      kept.delete(oldest);
    }
    return token;
  }

  return {
    get(key: string, request: () => Promise<Record<string, unknown>>): string | Promise<string> {
      const known = kept.get(key);
      kept.delete(key);
      if (known?.isFresh()) {
        kept.set(key, known);
        return known.token;
      }
      const answer = asking.get(key) ?? ask(key, request).finally(() => asking.delete(key));
      asking.set(key, answer);
      return answer;
    },
    clear() {
      isClosed = true;
      kept.clear();
    },
  };
}

/** @returns the milliseconds since this call, by the clock that shows more: one stands still in suspend, one may jump. */
function startAge(clock: VerifierClock): () => number {
  const [now, monotonic] = [clock.now(), clock.monotonic()];
  return () => Math.max(clock.now() - now, clock.monotonic() - monotonic);
}

/** Services in JavaScript may pass anything. */
function requireAudience(audience: unknown): void {
  if (typeof audience === 'string' && audience !== '') return;
  throw unavailable('configuration', 'no audience was given to ask a token for', { option: 'audience' });
}

/** What cannot be a token of Latchkey is refused without asking. */
function requireToken(token: unknown): void {
  if (token === undefined || token === '') throw invalid('missing', 'there is none');
  if (typeof token !== 'string' || token.length > LONGEST || !COMPACT.test(token))
    throw invalid('malformed', 'it is no JWT');
}
