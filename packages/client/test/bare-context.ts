import { setImmediate } from 'node:timers/promises';
import vm from 'node:vm';
import { buildSync } from 'esbuild';
import type * as library from '../src/main.ts';
import type { Host } from './run-vector.ts';

/** What a context has beside the language. */
type Globals = Readonly<Record<string, unknown>>;

const [bundle] = buildSync({
  entryPoints: [new URL('../src/main.js', import.meta.url).pathname],
  bundle: true,
  write: false,
  format: 'iife',
  globalName: 'latchkey',
}).outputFiles;

const OF_PAGES = ['window', 'self', 'document', 'location', 'localStorage', 'addEventListener'];

/**
 * The library in a context of its own.
 * @param random what `Math.random` returns
 * @returns also the globals of Node and of pages that it has read, which are not there, and those that it has added
 */
export function loadBare(globals: Globals, random = 0.5) {
  const context = vm.createContext({ ...globals });
  const language = vm.runInNewContext('Object.getOwnPropertyNames(globalThis)') as string[];
  const read: string[] = [];
  for (const name of [...Object.getOwnPropertyNames(globalThis), ...OF_PAGES]) {
    if (language.includes(name) || name in globals) continue;
    const get = () => void read.push(name);
    Object.defineProperty(context, name, { get, configurable: true });
  }
  const before = namesIn(context);
  vm.runInContext(`Math.random = () => ${random}; ${bundle?.text ?? ''}`, context);
  const added = namesIn(context).filter((name) => !before.includes(name) && name !== 'latchkey');
  return { main: context.latchkey as typeof library, read, added };
}

function namesIn(context: vm.Context): string[] {
  return vm.runInContext('Object.getOwnPropertyNames(globalThis)', context) as string[];
}

/** What React Native has, and a clock on which waits take no time. */
export function aBareHost(random: number) {
  let passed = 0;
  let clock = 1_795_000_000_000;
  let timers: { id: number; at: number; run: () => void }[] = [];
  let ids = 0;
  const now = () => clock + passed;
  const setTimeout = (run: () => void, ms: number) => {
    timers.push({ id: ++ids, at: passed + ms, run });
    return ids;
  };
  const { main } = loadBare(
    {
      fetch,
      AbortController,
      atob,
      Date: { now },
      setTimeout,
      clearTimeout(id: number) {
        timers = timers.filter((timer) => timer.id !== id);
      },
    },
    random,
  );

  const host: Host = {
    createClient: main.createClient,
    now,
    passed: () => passed,
    pass: async (seconds, set) => {
      await new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));
      clock += set * 1000;
    },
    // It has no `body`.
    respond: (status, headers, text) => ({
      status,
      headers: new Headers(headers),
      text: () => Promise.resolve(text),
    }),
    isAsynchronous: true,
  };

  return {
    host,
    /** Seconds. */
    passed: () => passed / 1000,
    /** Lets time pass until the work is done. */
    finish: async <Result>(work: Promise<Result>): Promise<Result> => {
      const isDone = work.then(
        () => true,
        () => true,
      );
      while (!(await Promise.race([isDone, setImmediate(false)]))) {
        timers.sort((one, other) => one.at - other.at);
        const next = timers.shift();
        if (!next) throw new Error('it waits for ever');
        passed = Math.max(passed, next.at);
        next.run();
      }
      return work;
    },
  };
}
