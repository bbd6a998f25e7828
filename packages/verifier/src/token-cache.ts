import type { VerificationKey } from './key-set.ts';
import type { VerifiedToken } from './verified-token.ts';

/** A token whose signature and claims were found good, and the key that it is signed with. */
export interface ReadToken {
  verified: VerifiedToken;
  kid: string;
  key: VerificationKey;
}

/** Checked tokens, by their text: a hash of it as the key would cost more than all other steps of a look-up. */
export interface TokenCache {
  get(token: string): ReadToken | undefined;
  add(token: string, read: ReadToken): void;
  delete(token: string): void;
  /** Bytes in use, as `bytesOf` counts them. */
  bytes(): number;
}

interface Limits {
  size: number;
  bytes: number;
}

interface Entry extends ReadToken {
  token: string;
}

/** Evicts the least recently used tokens when either limit is reached. */
export function makeTokenCache({ size, bytes: most }: Limits): TokenCache {
  /** The least recently used first. */
  const entries = new Map<string, Entry>();
  let bytes = 0;

  function remove(token: string): void {
    if (entries.delete(token)) bytes -= bytesOf(token);
  }

  return {
    get(token) {
      const entry = entries.get(token);
      if (!entry) return undefined;
      entries.delete(entry.token);
      entries.set(entry.token, entry);
      return entry;
    },
    add(text, read) {
      const token = copyOf(text);
      // A good token is ASCII. Of any other text the copy might be a token that was never checked.
      if (token !== text || size === 0 || bytesOf(token) > most) return;
      remove(token);
      entries.set(token, { ...read, token });
      bytes += bytesOf(token);
      for (const oldest of entries.keys()) {
        if (entries.size <= size && bytes <= most) return;
        remove(oldest);
      }
    },
    delete: remove,
    bytes: () => bytes,
  };
}

/** More than the text and the claims that were read from it take, also with many roles (`npm run bench:verifier`). */
function bytesOf(token: string): number {
  return 4 * token.length;
}

/** A part of a string keeps all of it in memory, and the header around a token may be padded. */
function copyOf(token: string): string {
  return Buffer.from(token, 'latin1').toString('latin1');
}
