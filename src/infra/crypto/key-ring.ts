import {
  refreshSignerFirst,
  SETTLED,
  signerFirst,
  signerOf,
} from '../../domain/access-tokens/key-lifecycle.ts';
import type { KeyInUse, KeyNotes, KeyRegistry, KeyRing, KeySet } from '../../domain/access-tokens/ports.ts';
import { makeSharedLook } from '../../domain/limits/shared-look.ts';
import { AuthError } from '../../domain/errors.ts';
import { pause } from '../pause.ts';
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
  answering: Answering;
}

/** For how long the registry has answered; null if it does not. */
interface Answering {
  answered(): void;
  failed(): void;
  since(): number | null;
}

/** At most one unplanned reload per second: tokens with invented key ids must not keep the disk busy. */
const MIN_RELOAD_INTERVAL = 1000;

export interface SettledKeyRing extends KeyRing {
  /** Reads keys and secrets again, and reports them to the registry, once. An outage is reported to `onRegistry`. */
  settle(): Promise<void>;
  /**
   * The same, before the replica first serves, unless it lacks keys that other replicas sign with.
   * @returns those. @throws AuthError `unavailable`
   */
  register(): Promise<readonly KeyInUse[]>;
  /** Which keys other replicas sign with that this one does not have. @throws AuthError `unavailable` */
  missing(): Promise<readonly KeyInUse[]>;
}

/**
 * The keys in a folder and the refresh secrets. `settle` reads them again and asks the registry; call it at an interval:
 * Kubernetes swaps a mounted Secret by renaming links, and file watchers miss that. A key verifies as soon as it is
 * loaded. The registry decides when it signs (docs/adr/0015-signing-keys.md).
 * @throws KeyError if there is no usable key at the start.
 */
export function makeKeyRing(options: KeyRingOptions): SettledKeyRing {
  const { answering, onError, onRegistry } = options;
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
  /** Every key that this process has had: one that was taken away has leaked, or is no longer needed. */
  const seen = new Set(kidsOf(read));
  /** By the registry's last answer. */
  let inUse: readonly KeyInUse[] = [];
  let hasFailed = false;
  const registry = watched(options.registry, {
    answered() {
      answering.answered();
    },
    failed() {
      answering.failed();
      hasFailed = true;
    },
  });
  /** Whether other replicas may have yet to record what they sign with. */
  const isSettling = () => (answering.since() ?? 0) < SETTLED;
  const usage = makeSharedLook(
    async () => {
      inUse = await registry.inUse(isSettling());
    },
    {
      clock: { monotonic: () => performance.now() },
      sleep: pause,
    },
  );
  const missingNow = () => {
    const held = kidsOf(keys);
    return inUse.filter(({ kid }) => !held.includes(kid));
  };

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
    for (const kid of kidsOf(read)) seen.add(kid);
    const known = Object.values(problems)
      .flat()
      .map(({ message }) => message);
    problems = found;
    for (const problem of Object.values(found).flat()) if (!known.includes(problem.message)) onError(problem);
    await apply();
  }

  function notes(): KeyNotes {
    const loaded = read.signing.map(({ kid }) => kid);
    const [{ kid: refresh } = { kid: '' }] = read.refresh;
    return {
      loaded,
      appeared: loaded.filter((kid) => !reported.includes(kid)),
      vanished: reported.filter((kid) => !loaded.includes(kid)),
      signing: hasServed ? signerOf(keys).kid : null,
      refresh,
    };
  }

  async function noted({ loaded }: KeyNotes, answer: ReadonlySet<string>): Promise<void> {
    active = answer;
    reported = [...loaded];
    hasServed = true;
    await apply();
  }

  async function ask(): Promise<void> {
    try {
      const reports = notes();
      await noted(reports, await registry.note(reports));
      if (isRegistryDown) onRegistry(null);
      isRegistryDown = false;
    } catch (error) {
      if (!isRegistryDown) onRegistry(error as Error);
      isRegistryDown = true;
      hasServed = true;
      await apply();
    }
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
    async isInUse(kid) {
      const isKnown = () => missingNow().some((key) => key.kid === kid);
      if (seen.has(kid)) return false;
      if (isKnown()) return true;
      await usage.fresh();
      if (isKnown()) return true;
      // At the start, an earlier outage does not show. But then a replica has every key of the last record.
      if (hasFailed && isSettling()) throw new AuthError('unavailable');
      return false;
    },
    async settle() {
      await loadOnce();
      await askOnce();
    },
    async register() {
      await loadOnce();
      const reports = notes();
      const { missing, active: answer } = await registry.join(reports, kidsOf(keys), isSettling());
      if (missing.length === 0) await noted(reports, answer);
      return missing;
    },
    async missing() {
      await usage.look();
      return missingNow();
    },
    onChange(listener) {
      listeners.push(listener);
    },
  };
}

/** The same registry, which reports whether it answers. */
function watched(registry: KeyRegistry, { answered, failed }: Omit<Answering, 'since'>): KeyRegistry {
  const watch = async <Answer>(answer: Promise<Answer>) => {
    try {
      const found = await answer;
      answered();
      return found;
    } catch (error) {
      failed();
      throw error;
    }
  };
  return {
    note: (notes) => watch(registry.note(notes)),
    join: (...joining) => watch(registry.join(...joining)),
    inUse: (sinceLast) => watch(registry.inUse(sinceLast)),
  };
}

function inOrder({ signing, refresh }: KeySet, active: ReadonlySet<string> | null): KeySet {
  return { signing: signerFirst(signing, active), refresh: refreshSignerFirst(refresh, active) };
}

function kidsOf({ signing, refresh }: KeySet): string[] {
  return [...signing, ...refresh].map(({ kid }) => kid);
}

function fingerprint(keys: KeySet): string {
  return kidsOf(keys).join();
}
