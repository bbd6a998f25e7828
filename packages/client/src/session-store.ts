import { LatchkeyError } from './latchkey-error.ts';
import { readPair, writePair, type Pair, type User } from './pair.ts';
import { parseJson } from './server.ts';

/** Synchronous or not: `localStorage` and React Native’s AsyncStorage fit as they are. */
export interface TokenStorage {
  getItem: (key: string) => string | null | undefined | Promise<string | null | undefined>;
  setItem: (key: string, value: string) => unknown;
  removeItem: (key: string) => unknown;
}

export interface Session {
  /** The claim `sid`, as in the list of tokens. */
  readonly id: number;
  readonly user: Readonly<User>;
}

/** Milliseconds. */
const TIMEOUT = 10_000;

/** Known by identity: a write that has not answered may still happen, so memory must not take its place. */
const LATE = new Error('no answer within 10 s');

export type SessionStore = ReturnType<typeof makeSessionStore>;

/**
 * What storage holds counts: another tab may have changed it.
 * @param onError hears that memory takes the place of the storage
 */
export function makeSessionStore(
  given: TokenStorage | null | (() => TokenStorage | null | undefined),
  key: string,
  onError: (error: LatchkeyError) => void = (error) => {
    console.warn(error);
  },
) {
  let storage: TokenStorage | undefined;
  const listeners = new Set<() => void>();
  let session: Session | null | undefined;
  let shown: string | undefined;
  let queue: Promise<unknown> = Promise.resolve();

  function show(pair: Pair | null): void {
    const now = JSON.stringify(pair && [pair.session, pair.user]);
    if (now === shown) return;
    shown = now;
    session = pair && sessionOf(pair);
    // Later, so that a listener may call the client, and its error stays its own.
    for (const listener of listeners)
      void Promise.resolve().then(() => {
        if (listeners.has(listener)) listener();
      });
  }

  /** Calls `onError` later, so that an error which the page throws there is not taken for one of the storage. */
  function useMemory(cause?: unknown): TokenStorage {
    void Promise.resolve(failed('the session is in memory, so a reload signs out', cause)).then(onError);
    return (storage = inMemory());
  }

  function opened(): TokenStorage {
    try {
      return (storage ??= (typeof given === 'function' ? given() : given) ?? useMemory());
    } catch (cause) {
      return useMemory(cause);
    }
  }

  /**
   * @param held whether a pair is stored already. If the write fails, another tab could still send that pair,
   * which would look like theft beside a newer one in memory.
   */
  async function write(text: string, held: boolean): Promise<void> {
    try {
      await settled(opened().setItem(key, text));
    } catch (cause) {
      if (held || cause === LATE) throw cause;
      useMemory(cause).setItem(key, text);
    }
  }

  async function access(decide: (held: Pair | null) => Pair | null | undefined): Promise<Pair | null> {
    try {
      let pair = readPair(parseJson((await settled(opened().getItem(key))) ?? ''));
      const next = decide(pair);
      if (next === null) await settled(opened().removeItem(key));
      else if (next) await write(writePair(next), pair !== null);
      if (next !== undefined) pair = next;
      show(pair);
      return pair;
    } catch (cause) {
      throw failed('no session was read or stored', cause);
    }
  }

  /**
   * Reads, decides and writes. With a synchronous storage in one task, so that no other tab comes between; with
   * another storage one at a time.
   * @param decide the pair to store, null to remove it, undefined to leave it
   * @returns what storage holds then
   * @throws LatchkeyError `storage_failed`
   */
  function change(decide: (held: Pair | null) => Pair | null | undefined): Promise<Pair | null> {
    const changed = queue.then(() => access(decide));
    queue = changed.catch(() => null);
    return changed;
  }

  return {
    change,
    read: () => change(() => undefined),
    /** Undefined until storage was read. The same object until it changes. */
    session: () => session,
    /** @returns whether it is the first one */
    listen(listener: () => void): boolean {
      return listeners.add(listener).size === 1;
    },
    /** @returns whether none is left */
    unlisten(listener: () => void): boolean {
      return listeners.delete(listener) && listeners.size === 0;
    },
  };
}

function failed(effect: string, cause: unknown): LatchkeyError {
  return new LatchkeyError('storage_failed', `the storage failed: ${effect}`, { cause });
}

export function sessionOf({ session, user }: Pair): Session {
  return Object.freeze({ id: session, user });
}

export function inMemory(): TokenStorage {
  const items = new Map<string, string>();
  return {
    getItem: (key) => items.get(key),
    setItem: (key, value) => items.set(key, value),
    removeItem: (key) => items.delete(key),
  };
}

/** Rejects if a storage does not answer, so that it does not hold up every later call. */
function settled<Value>(value: Value | Promise<Value>): Value | Promise<Value> {
  if (!(value instanceof Promise)) return value;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(LATE);
    }, TIMEOUT);
  });
  return Promise.race([value, late]).finally(() => {
    clearTimeout(timer);
  });
}
