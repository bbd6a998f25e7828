import type { Clock } from '../clock.ts';
import { makeSharedLook } from '../limits/shared-look.ts';
import type { ServiceStore } from './ports.ts';
import type { ServiceTrust, PublicJwks } from './assertion.ts';
import type { RegisteredService } from './registered-service.ts';

interface DirectoryPorts {
  store: Pick<ServiceStore, 'list' | 'issuers'>;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  sleep: (ms: number) => Promise<unknown>;
}

/**
 * The registered services in memory, so that introspection does not query the database, and works while it is down.
 * They are reloaded every few seconds; until then a deleted service is still accepted.
 */
export function makeServiceDirectory({ store, clock, sleep }: DirectoryPorts) {
  let services: ReadonlyMap<string, RegisteredService> = new Map();
  let audiences: ReadonlySet<string | null> = new Set();
  let byTrust: ReadonlyMap<string, RegisteredService> = new Map();
  let issuers: ReadonlyMap<string, PublicJwks | null> = new Map();
  let versions: ServiceVersions = {};
  const listeners: ((versions: ServiceVersions) => void)[] = [];
  let loads = 0;
  let loaded = 0;

  /** @throws AuthError `unavailable`; the services loaded before stay. */
  async function load(): Promise<void> {
    const number = ++loads;
    const [found, foundIssuers] = await Promise.all([store.list(), store.issuers()]);
    // A load that began later has finished first: its result is newer.
    // Stryker disable next-line EqualityOperator: no two loads have the same number
    if (number < loaded) return;
    loaded = number;
    services = new Map(found.map((service) => [service.serviceId, service]));
    audiences = new Set(found.map(({ audience }) => audience));
    issuers = new Map(
      [...foundIssuers].map(([issuer, jwks]) => [issuer, sameOrNew(issuers.get(issuer), jwks)]),
    );
    byTrust = new Map(found.flatMap((service) => service.trusts.map((trust) => [keyOf(trust), service])));
    noteVersions(found);
  }

  function noteVersions(found: readonly RegisteredService[]): void {
    const enabled = found.filter(({ disabledAt }) => disabledAt === null);
    const present = Object.fromEntries(enabled.map(({ serviceId, version }) => [serviceId, version]));
    if (JSON.stringify(present) === JSON.stringify(versions)) return;
    versions = present;
    for (const listener of listeners) listener(versions);
  }

  // Wrong credentials cause a load, too.
  const shared = makeSharedLook(load, { clock, sleep });

  return {
    load: shared.look,

    find: (serviceId: string): RegisteredService | undefined => services.get(serviceId),

    /** The service that a workload may authenticate as. */
    findTrusting: (trust: ServiceTrust): RegisteredService | undefined => byTrust.get(keyOf(trust)),

    /** Every issuer that a service trusts, with the keys that an operator gave; null if they are fetched. */
    issuers: (): ReadonlyMap<string, PublicJwks | null> => issuers,

    /** The version of each service that is not disabled, by id. */
    versions: (): ServiceVersions => versions,

    /** Calls back after each change of `versions`. */
    onVersions(listener: (versions: ServiceVersions) => void): void {
      listeners.push(listener);
    },

    /** Whether a service has this audience. */
    hasAudience: (audience: string): boolean => audiences.has(audience),

    /** Resolves once every service is loaded that was on record at the call. @throws AuthError `unavailable` */
    refresh: shared.fresh,
  };
}

/** The object in use if it holds the same keys: it stands for what was read out of it. */
function sameOrNew(known: PublicJwks | null | undefined, found: PublicJwks | null): PublicJwks | null {
  return known && JSON.stringify(known) === JSON.stringify(found) ? known : found;
}

/** By service id. */
export type ServiceVersions = Readonly<Record<string, number>>;

/** No issuer holds a line break: it is a URL. */
function keyOf({ issuer, subject }: ServiceTrust): string {
  return `${issuer}\n${subject}`;
}

export type ServiceDirectory = ReturnType<typeof makeServiceDirectory>;
