import { importJWK, type CryptoKey, type JWK } from 'jose';
import type { VerifierClock } from './clock.ts';
import { VerifierError } from './verifier-error.ts';

/** Latchkey's; nothing else is ever believed, whatever a token's header says. */
export const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'];

export interface VerificationKey {
  algorithm: string;
  key: CryptoKey;
}

/** The keys that Latchkey publishes. Once they have been read they stay for as long as Latchkey is away. */
export interface KeySet {
  /** Looks again where the kid is unknown. @returns null when Latchkey has no such key. @throws VerifierError `unavailable` */
  find(kid: string): Promise<VerificationKey | null>;
  /** Resolves once they have been read. */
  ready(): Promise<void>;
  close(): void;
}

interface Parts {
  load: () => Promise<unknown>;
  clock: VerifierClock;
  onError: (error: Error | null) => void;
}

/** Milliseconds: between two looks; after one that failed; and between two for the sake of kids that nobody knows. */
const [EVERY, RETRY, COOLDOWN] = [300_000, 1000, 1000];

/** @param onError hears null when they have been read again. */
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
      if (hasFailed || !keys) throw new VerifierError('unavailable', 'the keys cannot be read');
      return null;
    },
    ready: () => (keys ? Promise.resolve() : new Promise((resolve) => waiting.push(resolve))),
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/** Keys of a kind that is none of ours, or cannot be read, are passed over: a later Latchkey may add one. @throws Error where none is left. */
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
  if (found.size === 0) throw new VerifierError('unavailable', 'the key set holds no key that can be used');
  return found;
}
