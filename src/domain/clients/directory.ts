import type { Clock } from '../clock.ts';
import type { ClientStore } from './ports.ts';
import type { ServiceClient } from './service-client.ts';

interface DirectoryPorts {
  store: Pick<ClientStore, 'list'>;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after so many milliseconds. */
  sleep: (ms: number) => Promise<unknown>;
}

/** Milliseconds between two loads that somebody with wrong credentials has asked for. */
const MIN_INTERVAL = 1000;

/**
 * The registered services in memory, so that asking about a token asks the record nothing, and goes on while that is away.
 * It is loaded again every few seconds; until then a client that was deleted is still known.
 */
export function makeClientDirectory({ store, clock, sleep }: DirectoryPorts) {
  let clients: ReadonlyMap<string, ServiceClient> = new Map();
  let lastBegun = -MIN_INTERVAL;
  let next: Promise<void> | null = null;
  let loads = 0;
  let loaded = 0;

  /** @throws AuthError `unavailable`; what was known stays. */
  async function load(): Promise<void> {
    lastBegun = clock.monotonic();
    const number = ++loads;
    const found = await store.list();
    // One that began later may have ended sooner.
    if (number < loaded) return;
    loaded = number;
    clients = new Map(found.map((client) => [client.clientId, client]));
  }

  async function turn(): Promise<void> {
    const wait = lastBegun + MIN_INTERVAL - clock.monotonic();
    if (wait > 0) await sleep(wait);
  }

  return {
    load,

    find: (clientId: string): ServiceClient | undefined => clients.get(clientId),

    /**
     * Resolves once everything is known that was on record when this was called. One load a second at most: all who wait
     * share it.
     * @throws AuthError `unavailable`
     */
    refresh(): Promise<void> {
      next ??= turn().then(() => {
        // Whoever comes from now on may know of what this load does not see.
        next = null;
        return load();
      });
      return next;
    },
  };
}

export type ClientDirectory = ReturnType<typeof makeClientDirectory>;
