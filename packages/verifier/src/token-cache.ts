import type { VerifierClock } from './clock.ts';
import type { KeySet, VerificationKey } from './key-set.ts';
import type { AnyToken } from './verified-token.ts';
import { invalid } from './verifier-error.ts';

/** A token whose signature and claims were found good, and the key that it is signed with. */
export interface ReadToken {
  verified: AnyToken;
  kid: string;
  key: VerificationKey;
}

/**
 * Checked tokens, by the text that is signed: a hash of it as the key would cost more than all other steps of a
 * look-up. The same text may be signed differently, and a signature may be spelled differently, but one token has one
 * entry.
 */
export interface TokenCache {
  /** Undefined also for a known text with another signature. */
  get(token: string): ReadToken | undefined;
  add(token: string, read: ReadToken): void;
  delete(token: string): void;
  /** Number of tokens. */
  size(): number;
  /** Bytes in use, as `bytesOf` counts them. */
  bytes(): number;
}

interface Limits {
  size: number;
  bytes: number;
}

interface Entry extends ReadToken {
  token: string;
  /** A part of `token`, so it takes no memory of its own. */
  signed: string;
}

/** Evicts the least recently used tokens when either limit is reached. */
export function makeTokenCache({ size, bytes: most }: Limits): TokenCache {
  /** The least recently used first. */
  const entries = new Map<string, Entry>();
  let bytes = 0;

  function remove({ signed, token }: Entry): void {
    if (entries.delete(signed)) bytes -= bytesOf(token);
  }

  function find(token: string): Entry | undefined {
    const entry = entries.get(signedPart(token));
    return entry?.token === token ? entry : undefined;
  }

  return {
    get(token) {
      const entry = find(token);
      if (!entry) return undefined;
      entries.delete(entry.signed);
      entries.set(entry.signed, entry);
      return entry;
    },
    add(text, read) {
      const token = copyOf(text);
      if (token === null || size === 0 || bytesOf(token) > most) return;
      const signed = signedPart(token);
      const former = entries.get(signed);
      if (former) remove(former);
      entries.set(signed, { ...read, token, signed });
      bytes += bytesOf(token);
      for (const oldest of entries.values()) {
        if (entries.size <= size && bytes <= most) return;
        remove(oldest);
      }
    },
    delete(token) {
      const entry = find(token);
      if (entry) remove(entry);
    },
    size: () => entries.size,
    bytes: () => bytes,
  };
}

interface Parts {
  /** Checks the signature and everything else. @throws VerifierError */
  read: (token: string) => Promise<ReadToken>;
  cache: TokenCache;
  keys: Pick<KeySet, 'loaded'>;
  clock: Pick<VerifierClock, 'now'>;
  clockTolerance: number;
}

/** Reads a token from the cache, where it saves the check of the signature. */
export function makeReadCached({ read, cache, keys, clock, clockTolerance }: Parts) {
  /** What can change after the first check, besides revocation: the time, and the published keys. */
  function isStillGood({ verified, kid, key }: ReadToken): boolean {
    const now = Math.floor(clock.now() / 1000);
    const { exp = Infinity, nbf = -Infinity } = verified.claims as { exp?: number; nbf?: number };
    return exp > now - clockTolerance && nbf <= now + clockTolerance && keys.loaded(kid) === key;
  }

  /** @throws VerifierError `invalid_token`, `unavailable` */
  return async function readCached(token: string): Promise<AnyToken> {
    // Services in JavaScript may pass anything.
    if (typeof token !== 'string') throw invalid('malformed', 'it is no text');
    const cached = cache.get(token);
    if (cached && isStillGood(cached)) return cached.verified;
    cache.delete(token);
    const checked = await read(token);
    cache.add(token, checked);
    return checked.verified;
  };
}

/** The text up to the signature. */
function signedPart(token: string): string {
  return token.slice(0, token.lastIndexOf('.'));
}

/** More than the text and the claims that were read from it take, also with many roles (`npm run bench:verifier`). */
function bytesOf(token: string): number {
  return 4 * token.length;
}

const [ENCODER, DECODER] = [new TextEncoder(), new TextDecoder()];

/**
 * A part of a string keeps all of it in memory, and the header around a token may be padded.
 * @returns null unless the text is ASCII, as a good token is: the copy might be a token that was never checked.
 */
function copyOf(text: string): string | null {
  const bytes = ENCODER.encode(text);
  return bytes.length === text.length ? DECODER.decode(bytes) : null;
}
