import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { KeyRing, KeySet, SigningKey } from '../../domain/access-tokens/ports.ts';
import { KeyError, parseRefreshSecrets, parseSigningKey } from './keys.ts';

export interface KeyRingOptions {
  /** SIGNING_KEYS_DIR. */
  signingKeysDir: string;
  /** Reads the refresh secrets as they are now: a mounted file changes while the service runs. */
  readRefreshSecrets: () => string;
  /** Milliseconds between two looks. */
  interval: number;
  /** Told when keys that have appeared cannot be used; those in use stay. */
  onError: (error: Error) => void;
}

/** Not more than one unplanned look a second: tokens with made-up key ids must not keep the disk busy. */
const MIN_RELOAD_INTERVAL = 1000;

/**
 * The keys in a folder and the refresh secrets, looked at again and again: a mounted Kubernetes Secret is swapped by
 * renaming links, which file watchers miss.
 * @throws KeyError when there is no usable key at the start.
 */
export function makeKeyRing(options: KeyRingOptions): KeyRing & { close(): void } {
  const listeners: ((keys: KeySet) => Promise<void>)[] = [];
  let keys = readKeys(options);
  let print = fingerprint(keys);
  let lastLook = 0;
  let looking: Promise<void> = Promise.resolve();

  async function look(): Promise<void> {
    lastLook = performance.now();
    try {
      const next = readKeys(options);
      if (fingerprint(next) === print) return;
      for (const listener of listeners) await listener(next);
      keys = next;
      print = fingerprint(next);
    } catch (error) {
      options.onError(error as Error);
    }
  }

  const timer = setInterval(() => {
    looking = looking.then(look);
  }, options.interval).unref();

  return {
    current: () => keys,
    async reload() {
      if (performance.now() - lastLook >= MIN_RELOAD_INTERVAL) looking = looking.then(look);
      await looking;
      return keys;
    },
    onChange(listener) {
      listeners.push(listener);
    },
    close() {
      clearInterval(timer);
    },
  };
}

function readKeys({ signingKeysDir, readRefreshSecrets }: KeyRingOptions): KeySet {
  return { signing: readSigningKeys(signingKeysDir), refresh: parseRefreshSecrets(readRefreshSecrets()) };
}

/**
 * The keys of a folder. The one with the highest file name comes first: it signs, and all replicas agree on which it is.
 * @throws KeyError, and the file system's errors
 */
export function readSigningKeys(directory: string): SigningKey[] {
  const names = readdirSync(directory)
    .filter((name) => name.endsWith('.pem'))
    .sort()
    .reverse();
  if (names.length === 0) throw new KeyError('the folder holds no .pem file');
  return names.map((name) => {
    const path = join(directory, name);
    return parseSigningKey(readFileSync(path, 'utf8'), name, statSync(path).mtimeMs);
  });
}

function fingerprint({ signing, refresh }: KeySet): string {
  return [...signing, ...refresh].map(({ kid }) => kid).join();
}
