import { importJWK, type CryptoKey, type JWK } from 'jose';
import type { VerifierClock } from './clock.ts';
import { VerifierError } from './verifier-error.ts';

/** The algorithms of Latchkey's keys. A token's header cannot choose another. */
export const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'];

export interface VerificationKey {
  algorithm: string;
  key: CryptoKey;
}

/** The keys that Latchkey publishes. Loaded keys stay in use while Latchkey is down. */
export interface KeySet {
  /** Reloads for an unknown kid. @returns null if Latchkey has no such key. @throws VerifierError `unavailable` */
  find(kid: string): Promise<VerificationKey | null>;
  /** Resolves when the keys have been loaded. */
  ready(): Promise<void>;
  close(): void;
}

interface Parts {
  load: () => Promise<unknown>;
  clock: VerifierClock;
  onError: (error: Error | null) => void;
}

/** Milliseconds between two reloads; after a failed one; and between two reloads for unknown kids. */
const [EVERY, RETRY, COOLDOWN] = [300_000, 1000, 1000];

/** @param onError called with null when the keys can be loaded again. */
export function makeKeySet({ load, clock, onError }: Parts): KeySet {
  let keys: ReadonlyMap<string, VerificationKey> | null = null;
  let loading: Promise<void> | null = null;
  let lookedAt = -Infinity;
  let hasFailed = false;
  let isClosed = false;
  let timer: NodeJS.Timeout | undefined;
  const waiting: (() => void)[] = [];

  async function look(): Promise<void> {
    clearTimeout(timer);
    try {
      keys = await readKeys(await load());
      hasFailed = false;
      onError(null);
    } catch (error) {
      hasFailed = true;
      onError(error as Error);
    }
    lookedAt = clock.monotonic();
    if (isClosed) return;
    const pause = hasFailed ? RETRY : EVERY;
    timer = setTimeout(() => void reload(), pause * (0.5 + Math.random() / 2)).unref();
  }

  function reload(): Promise<void> {
    return (loading ??= look().finally(() => {
      loading = null;
      if (keys) for (const resolve of waiting.splice(0)) resolve();
    }));
  }

  void reload();
  return {
    async find(kid) {
      const known = keys?.get(kid);
      if (known) return known;
      if (loading !== null || clock.monotonic() - lookedAt >= COOLDOWN) await reload();
      const found = keys?.get(kid);
      if (found) return found;
      if (hasFailed || !keys) throw new VerifierError('unavailable', 'the keys cannot be loaded');
      return null;
    },
    ready: () => (keys ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** Skips keys of unknown kinds: a later version of Latchkey may add one. @throws VerifierError if no key is usable. */
async function readKeys(jwks: unknown): Promise<ReadonlyMap<string, VerificationKey>> {
  const { keys } = Object(jwks) as { keys?: unknown };
  const found = new Map<string, VerificationKey>();
  for (const jwk of Array.isArray(keys) ? (keys as unknown[]) : []) {
    const { kid, alg, kty, use, ...rest } = Object(jwk) as JWK;
    const isOurs = kid !== undefined && alg !== undefined && ALGORITHMS.includes(alg);
    if (!isOurs || (use ?? 'sig') !== 'sig' || kty === 'oct' || 'd' in rest) continue;
    const key = await importJWK({ ...rest, kty } as JWK, alg).catch(() => null);
    if (key && !(key instanceof Uint8Array)) found.set(kid, { algorithm: alg, key });
  }
  if (found.size === 0) throw new VerifierError('unavailable', 'the key set contains no usable key');
  return found;
}
