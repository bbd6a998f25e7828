import { signerFirst, signerOf } from '../../domain/access-tokens/key-life.ts';
import type { KeyRegistry, KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';
import { keysOf, readFolder, readKeyFiles } from './key-files.ts';
import { parseRefreshSecrets } from './keys.ts';

export interface KeyRingOptions {
  /** SIGNING_KEYS_DIR. */
  signingKeysDir: string;
  /** Reads the refresh secrets as they are now: a mounted file changes while the service runs. */
  readRefreshSecrets: () => string;
  /** Which keys may sign is agreed upon there. */
  registry: KeyRegistry;
  /** Milliseconds between two looks. */
  interval: number;
  /** Told once of each key or secret that has appeared and cannot be used; what was in use in its place stays. */
  onError: (error: Error) => void;
  /** Told when the registry cannot be asked, and with null when it can again; the key that signs stays. */
  onRegistry: (error: Error | null) => void;
}

/** Not more than one unplanned look a second: tokens with made-up key ids must not keep the disk busy. */
const MIN_RELOAD_INTERVAL = 1000;

/**
 * The keys in a folder and the refresh secrets, looked at again and again: a mounted Kubernetes Secret is swapped by
 * renaming links, which file watchers miss. A key verifies as soon as it is there; when it signs, the registry says
 * (docs/adr/0014-published-before-signing.md).
 * @throws KeyError when there is no usable key at the start.
 */
export function makeKeyRing(options: KeyRingOptions): KeyRing & { settle(): Promise<void>; close(): void } {
  const { registry, onError, onRegistry } = options;
  const listeners: ((keys: KeySet) => Promise<void>)[] = [];
  let files = readKeyFiles(options.signingKeysDir);
  let read: KeySet = { signing: keysOf(files), refresh: parseRefreshSecrets(options.readRefreshSecrets()) };
  /** What was wrong at the last look. */
  let problems: Error[] = [];
  /** What may sign, as of the last time that the registry answered. */
  let active: ReadonlySet<string> | null = null;
  /** The keys that it has been told of. */
  let told: string[] = [];
  let hasServed = false;
  let isCutOff = false;
  let keys = inOrder(read, active);
  let lastLook = -Infinity;
  /** One thing after another. */
  let looking: Promise<void> = Promise.resolve();
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

  async function look(): Promise<void> {
    lastLook = performance.now();
    const found: Error[] = [];
    const attempt = (step: () => void) => {
      try {
        step();
      } catch (error) {
        found.push(error as Error);
      }
    };
    // What is wrong with one file keeps no other from being taken up, or away.
    attempt(() => {
      const folder = readFolder(options.signingKeysDir, files);
      found.push(...folder.problems);
      read = { ...read, signing: keysOf(folder.files) };
      ({ files } = folder);
    });
    attempt(() => {
      read = { ...read, refresh: parseRefreshSecrets(options.readRefreshSecrets()) };
    });
    const known = problems.map(({ message }) => message);
    problems = found;
    for (const problem of found) if (!known.includes(problem.message)) onError(problem);
    await apply();
  }

  async function ask(): Promise<void> {
    const loaded = read.signing.map(({ kid }) => kid);
    try {
      active = await registry.note({
        loaded,
        appeared: loaded.filter((kid) => !told.includes(kid)),
        vanished: told.filter((kid) => !loaded.includes(kid)),
        signing: hasServed ? signerOf(keys).kid : null,
      });
      told = loaded;
      if (isCutOff) onRegistry(null);
      isCutOff = false;
    } catch (error) {
      if (!isCutOff) onRegistry(error as Error);
      isCutOff = true;
    }
    hasServed = true;
    await apply();
  }

  /** Never twice at once, and never waited for by a request: the database may hang. */
  const askOnce = () =>
    (asking ??= ask().finally(() => {
      asking = null;
    }));
  const lookOnce = () => (looking = looking.then(look));

  const timer = setInterval(() => {
    void lookOnce().then(askOnce);
  }, options.interval).unref();

  return {
    current: () => keys,
    async reload() {
      await (performance.now() - lastLook >= MIN_RELOAD_INTERVAL ? lookOnce() : looking);
      return keys;
    },
    /** One look at everything. */
    async settle() {
      await lookOnce();
      await askOnce();
    },
    onChange(listener) {
      listeners.push(listener);
    },
    close() {
      clearInterval(timer);
    },
  };
}

function inOrder({ signing, refresh }: KeySet, active: ReadonlySet<string> | null): KeySet {
  return { signing: signerFirst(signing, active), refresh };
}

function fingerprint({ signing, refresh }: KeySet): string {
  return [...signing, ...refresh].map(({ kid }) => kid).join();
}
