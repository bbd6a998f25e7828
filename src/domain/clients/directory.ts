import type { Clock } from '../clock.ts';
import type { ClientStore } from './ports.ts';
import type { ServiceClient } from './service-client.ts';

interface DirectoryPorts {
  store: Pick<ClientStore, 'list'>;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  sleep: (ms: number) => Promise<unknown>;
}

/** Minimum time between loads that wrong credentials cause, in milliseconds. */
const MIN_INTERVAL = 1000;

/**
 * The registered services in memory, so that introspection does not query the database, and works while it is down.
 * They are reloaded every few seconds; until then a deleted client is still accepted.
 */
export function makeClientDirectory({ store, clock, sleep }: DirectoryPorts) {
  let clients: ReadonlyMap<string, ServiceClient> = new Map();
  let audiences: ReadonlySet<string> = new Set();
  let lastBegun = -MIN_INTERVAL;
  let next: Promise<void> | null = null;
  let loads = 0;
  let loaded = 0;

  /** @throws AuthError `unavailable`; the clients loaded before stay. */
  async function load(): Promise<void> {
    lastBegun = clock.monotonic();
    const number = ++loads;
    const found = await store.list();
    // A load that began later has finished first: its result is newer.
    if (number < loaded) return;
    loaded = number;
    clients = new Map(found.map((client) => [client.clientId, client]));
    audiences = new Set(found.flatMap(({ audience }) => audience ?? []));
  }

  async function waitForTurn(): Promise<void> {
    const wait = lastBegun + MIN_INTERVAL - clock.monotonic();
    if (wait > 0) await sleep(wait);
  }

  return {
    load,

    find: (clientId: string): ServiceClient | undefined => clients.get(clientId),

    /** Whether a client has this audience. */
    hasAudience: (audience: string): boolean => audiences.has(audience),

    /**
     * Resolves once every client is loaded that was on record at the call. Concurrent calls share one load, at most one
     * a second.
     * @throws AuthError `unavailable`
     */
    refresh(): Promise<void> {
      next ??= waitForTurn().then(() => {
        // Later calls may be about records that this load does not see: they need another one.
        next = null;
        return load();
      });
      return next;
    },
  };
}

export type ClientDirectory = ReturnType<typeof makeClientDirectory>;
