/** A figure that others published, of a system that this bench does not start. */
export interface PublishedFigure {
  system: string;
  operation: string;
  /** Requests a second that one vCPU serves: as the source states it, or its rate divided by its containers' vCPUs. */
  perVcpu: number;
  /** What it was measured on. */
  hardware: string;
}

const KEYCLOAK_HARDWARE = 'OpenShift on AWS, c7g.2xlarge, 3 pods; Aurora PostgreSQL multi-AZ; Argon2';

export const PUBLISHED: readonly PublishedFigure[] = [
  {
    ...{ system: 'Keycloak', operation: 'login with a password', perVcpu: 15 },
    hardware: KEYCLOAK_HARDWARE,
  },
  { ...{ system: 'Keycloak', operation: 'refresh', perVcpu: 120 }, hardware: KEYCLOAK_HARDWARE },
  {
    ...{ system: 'Zitadel 4.17.1', operation: 'introspection', perVcpu: 2297 / 42 },
    hardware: '2,297/s by 7 containers of 6 vCPU; PostgreSQL 17 with 8 vCPU and 32 GiB',
  },
  {
    ...{ system: 'Zitadel 4.19.2', operation: 'introspection', perVcpu: 4810 / 42 },
    hardware: '4,810/s by 7 containers of 6 vCPU; PostgreSQL 17 with 8 vCPU and 64 GB, at 96% of its CPU',
  },
];

const KEYCLOAK_SOURCE = 'https://github.com/keycloak/keycloak/blob/23579db461fd971a0fa7fd1127ab1654c311cfb1';
const ZITADEL_SOURCE = 'https://github.com/zitadel/zitadel/blob/2b3c6d5627f772db351f1f6441007df97bcb4259';

/** Where the figures stand, and what their sources say about them. */
export const PUBLISHED_NOTES: readonly string[] = [
  'Keycloak, figures: https://www.keycloak.org/high-availability/single-cluster/concepts-memory-and-cpu-sizing',
  `Keycloak, hardware: ${KEYCLOAK_SOURCE}/docs/guides/high-availability/multi-cluster/concepts-memory-and-cpu-sizing.adoc (it says that x86 reached up to twice as many refreshes a core)`,
  'Zitadel 4.17.1: https://zitadel.com/docs/apis/benchmarks/v4.17.1/introspect',
  `Zitadel 4.19.2: ${ZITADEL_SOURCE}/apps/docs/content/apis/benchmarks/v4.19.2/introspect/index.mdx`,
  'A vCPU is one of the identity server; the database runs on others.',
];
