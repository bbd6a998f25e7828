import { importJWK, type CryptoKey, type JWK } from 'jose';
import type { VerifierClock } from './clock.ts';
import { setBackgroundTimeout, type Timer } from './runtime.ts';
import { unavailable, VerifierError } from './verifier-error.ts';

/** The algorithms of Latchkey's keys. A token's header cannot choose another. */
const ALGORITHMS = ['ES256', 'EdDSA', 'RS256'];

export interface VerificationKey {
  algorithm: string;
  key: CryptoKey;
}

/** The keys that Latchkey publishes. Loaded keys stay in use while Latchkey is down. */
export interface KeySet {
  /** Reloads for an unknown kid. @returns null if Latchkey has no such key. @throws VerifierError `unavailable` */
  find(kid: string): Promise<VerificationKey | null>;
  /** The loaded key, without a request. It stays the same object as long as Latchkey publishes the same key. */
  loaded(kid: string): VerificationKey | undefined;
  /** Of the loaded keys. */
  ids(): readonly string[];
  close(): void;
}

interface Parts {
  load: () => Promise<unknown>;
  clock: VerifierClock;
  /** Called with null after each load that works. */
  onLoad: (error: VerifierError | null) => void;
}

interface LoadedKey extends VerificationKey {
  /** What Latchkey published. */
  source: string;
}

type Keys = ReadonlyMap<string, LoadedKey>;

/** Milliseconds between two reloads; after a failed one; and between two reloads for unknown kids. */
const [EVERY, RETRY, COOLDOWN] = [300_000, 1000, 1000];

export function makeKeySet({ load, clock, onLoad }: Parts): KeySet {
  let keys: Keys | null = null;
  let loading: Promise<void> | null = null;
  let lookedAt = -Infinity;
  let failure: VerifierError | null = null;
  let isClosed = false;
  let timer: Timer | undefined;

  async function look(): Promise<void> {
    clearTimeout(timer);
    try {
      keys = await readKeys(await load(), keys);
      failure = null;
    } catch (error) {
      // The message of another error may contain data of the client.
      failure = error instanceof VerifierError ? error : unavailable('fault', (error as Error).name);
    }
    lookedAt = clock.monotonic();
    onLoad(failure);
    if (isClosed) return;
    const pause = failure ? RETRY : EVERY;
    timer = setBackgroundTimeout(() => void reload(), pause * (0.5 + Math.random() / 2));
  }

  function reload(): Promise<void> {
    return (loading ??= look().finally(() => {
      loading = null;
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
      if (failure || !keys) {
        const why = failure?.message ?? 'not loaded yet';
        const { reason = 'not_ready', option } = failure ?? {};
        throw new VerifierError('unavailable', reason, `no keys: ${why}`, { option });
      }
      return null;
    },
    loaded: (kid) => keys?.get(kid),
    ids: () => [...(keys?.keys() ?? [])],
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}

/**
 * Skips keys of unknown kinds: a later version of Latchkey may add one. Keeps the objects of keys that did not change.
 * @throws VerifierError if no key is usable.
 */
async function readKeys(jwks: unknown, known: Keys | null): Promise<Keys> {
  const { keys } = Object(jwks) as { keys?: unknown };
  const found = new Map<string, LoadedKey>();
  for (const jwk of Array.isArray(keys) ? (keys as unknown[]) : []) {
    const { kid, alg, kty, use, ...rest } = Object(jwk) as JWK;
    const isOurs = kid !== undefined && alg !== undefined && ALGORITHMS.includes(alg);
    if (!isOurs || (use ?? 'sig') !== 'sig' || kty === 'oct' || 'd' in rest) continue;
    const source = JSON.stringify(jwk);
    const same = known?.get(kid);
    if (same?.source === source) {
      found.set(kid, same);
      continue;
    }
    const key = await importJWK({ ...rest, kty } as JWK, alg).catch(() => null);
    if (key && !(key instanceof Uint8Array)) found.set(kid, { algorithm: alg, key, source });
  }
  if (found.size === 0) throw unavailable('unexpected_answer', 'the key set contains no usable key');
  return found;
}
