import { signerFirst, signerOf } from '../../domain/access-tokens/key-lifecycle.ts';
import type { KeyRegistry, KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';
import { keysOf, readFolder, readKeyFiles } from './key-files.ts';
import { parseRefreshSecrets } from './keys.ts';

export interface KeyRingOptions {
  /** SIGNING_KEYS_DIR. */
  signingKeysDir: string;
  /** Reads the current refresh secrets: a mounted file changes while the service runs. */
  readRefreshSecrets: () => string;
  /** The replicas' shared decision which keys may sign. */
  registry: KeyRegistry;
  /** Called once for each new key or secret that is unusable. The one that it would replace stays in use. */
  onError: (error: Error) => void;
  /** Called if the registry is unavailable, and with null when it is back. Meanwhile the signing key stays the same. */
  onRegistry: (error: Error | null) => void;
}

/** At most one unplanned reload per second: tokens with invented key ids must not keep the disk busy. */
const MIN_RELOAD_INTERVAL = 1000;

/**
 * The keys in a folder and the refresh secrets. `settle` reads them again and asks the registry; call it at an interval:
 * Kubernetes swaps a mounted Secret by renaming links, and file watchers miss that. A key verifies as soon as it is
 * loaded. The registry decides when it signs (docs/adr/0015-signing-keys.md).
 * @throws KeyError if there is no usable key at the start.
 */
export function makeKeyRing(options: KeyRingOptions): KeyRing & { settle(): Promise<void> } {
  const { registry, onError, onRegistry } = options;
  const listeners: ((keys: KeySet) => Promise<void>)[] = [];
  let files = readKeyFiles(options.signingKeysDir);
  let read: KeySet = { signing: keysOf(files), refresh: parseRefreshSecrets(options.readRefreshSecrets()) };
  /** The problems of the last reload. */
  let problems: Record<keyof KeySet, Error[]> = { signing: [], refresh: [] };
  /** The keys that may sign, by the registry's last answer. */
  let active: ReadonlySet<string> | null = null;
  /** The keys that we last reported to the registry. */
  let reported: string[] = [];
  let hasServed = false;
  let isRegistryDown = false;
  let keys = inOrder(read, active);
  let lastLoad = -Infinity;
  /** The last load: one runs after another. */
  let loading: Promise<void> = Promise.resolve();
  let applying: Promise<void> = Promise.resolve();
  let asking: Promise<void> | null = null;

  function apply(): Promise<void> {
    return (applying = applying.then(async () => {
      const next = inOrder(read, active);
      if (fingerprint(next) === fingerprint(keys)) return;
      try {
        for (const listener of listeners) await listener(next);
        keys = next;
      } catch (error) {
        onError(error as Error);
      }
    }));
  }

  async function load(): Promise<void> {
    lastLoad = performance.now();
    const found: typeof problems = { signing: [], refresh: [] };
    const attempt = (kind: keyof KeySet, step: () => void) => {
      try {
        step();
      } catch (error) {
        found[kind].push(error as Error);
      }
    };
    // A problem with one file must not stop the others from being added or removed.
    attempt('signing', () => {
      const folder = readFolder(options.signingKeysDir, files);
      found.signing.push(...folder.problems);
      read = { ...read, signing: keysOf(folder.files) };
      ({ files } = folder);
    });
    attempt('refresh', () => {
      read = { ...read, refresh: parseRefreshSecrets(options.readRefreshSecrets()) };
    });
    const known = Object.values(problems)
      .flat()
      .map(({ message }) => message);
    problems = found;
    for (const problem of Object.values(found).flat()) if (!known.includes(problem.message)) onError(problem);
    await apply();
  }

  async function ask(): Promise<void> {
    const loaded = read.signing.map(({ kid }) => kid);
    try {
      active = await registry.note({
        loaded,
        appeared: loaded.filter((kid) => !reported.includes(kid)),
        vanished: reported.filter((kid) => !loaded.includes(kid)),
        signing: hasServed ? signerOf(keys).kid : null,
      });
      reported = loaded;
      if (isRegistryDown) onRegistry(null);
      isRegistryDown = false;
    } catch (error) {
      if (!isRegistryDown) onRegistry(error as Error);
      isRegistryDown = true;
    }
    hasServed = true;
    await apply();
  }

  /** Asks the registry, never twice at once. No request waits for this: the database may hang. */
  const askOnce = () =>
    (asking ??= ask().finally(() => {
      asking = null;
    }));
  const loadOnce = () => (loading = loading.then(load));

  return {
    current: () => keys,
    async reload() {
      await (performance.now() - lastLoad >= MIN_RELOAD_INTERVAL ? loadOnce() : loading);
      return keys;
    },
    isIncomplete: (kind) => problems[kind].length > 0,
    /** Reloads keys and secrets and asks the registry, once. */
    async settle() {
      await loadOnce();
      await askOnce();
    },
    onChange(listener) {
      listeners.push(listener);
    },
  };
}

function inOrder({ signing, refresh }: KeySet, active: ReadonlySet<string> | null): KeySet {
  return { signing: signerFirst(signing, active), refresh };
}

function fingerprint({ signing, refresh }: KeySet): string {
  return [...signing, ...refresh].map(({ kid }) => kid).join();
}
