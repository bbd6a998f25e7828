import type { Clock } from '../clock.ts';
import type { ClientStore } from './ports.ts';
import type { ClientTrust, PublicJwks } from './assertion.ts';
import type { ServiceClient } from './service-client.ts';

interface DirectoryPorts {
  store: Pick<ClientStore, 'list' | 'issuers'>;
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
  let audiences: ReadonlySet<string | null> = new Set();
  let byTrust: ReadonlyMap<string, ServiceClient> = new Map();
  let issuers: ReadonlyMap<string, PublicJwks | null> = new Map();
  let versions: ClientVersions = {};
  const listeners: ((versions: ClientVersions) => void)[] = [];
  let lastBegun = -MIN_INTERVAL;
  let next: Promise<void> | null = null;
  let loads = 0;
  let loaded = 0;

  /** @throws AuthError `unavailable`; the clients loaded before stay. */
  async function load(): Promise<void> {
    lastBegun = clock.monotonic();
    const number = ++loads;
    const [found, foundIssuers] = await Promise.all([store.list(), store.issuers()]);
    // A load that began later has finished first: its result is newer.
    // Stryker disable next-line EqualityOperator: no two loads have the same number
    if (number < loaded) return;
    loaded = number;
    clients = new Map(found.map((client) => [client.clientId, client]));
    audiences = new Set(found.map(({ audience }) => audience));
    issuers = new Map(
      [...foundIssuers].map(([issuer, jwks]) => [issuer, sameOrNew(issuers.get(issuer), jwks)]),
    );
    byTrust = new Map(found.flatMap((client) => client.trusts.map((trust) => [keyOf(trust), client])));
    noteVersions(found);
  }

  function noteVersions(found: readonly ServiceClient[]): void {
    const enabled = found.filter(({ disabledAt }) => disabledAt === null);
    const present = Object.fromEntries(enabled.map(({ clientId, version }) => [clientId, version]));
    if (JSON.stringify(present) === JSON.stringify(versions)) return;
    versions = present;
    for (const listener of listeners) listener(versions);
  }

  async function waitForTurn(): Promise<void> {
    const wait = lastBegun + MIN_INTERVAL - clock.monotonic();
    if (wait > 0) await sleep(wait);
  }

  return {
    load,

    find: (clientId: string): ServiceClient | undefined => clients.get(clientId),

    /** The client that a workload may authenticate as. */
    findTrusting: (trust: ClientTrust): ServiceClient | undefined => byTrust.get(keyOf(trust)),

    /** Every issuer that a client trusts, with the keys that an operator gave; null if they are fetched. */
    issuers: (): ReadonlyMap<string, PublicJwks | null> => issuers,

    /** The version of each client that is not disabled, by id. */
    versions: (): ClientVersions => versions,

    /** Calls back after each change of `versions`. */
    onVersions(listener: (versions: ClientVersions) => void): void {
      listeners.push(listener);
    },

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

/** The object in use if it holds the same keys: it stands for what was read out of it. */
function sameOrNew(known: PublicJwks | null | undefined, found: PublicJwks | null): PublicJwks | null {
  return known && JSON.stringify(known) === JSON.stringify(found) ? known : found;
}

/** By client id. */
export type ClientVersions = Readonly<Record<string, number>>;

/** No issuer holds a line break: it is a URL. */
function keyOf({ issuer, subject }: ClientTrust): string {
  return `${issuer}\n${subject}`;
}

export type ClientDirectory = ReturnType<typeof makeClientDirectory>;
