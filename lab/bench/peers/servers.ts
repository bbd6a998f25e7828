import type { Workload } from '../operations.ts';

/** What peers are compared in. */
export const PEER_OPERATIONS = ['verify', 'introspection', 'refresh'] as const;
export type PeerOperation = (typeof PEER_OPERATIONS)[number];

/** One way to ask a server for an operation. */
export interface Offer {
  /** Method and path, for the reader. */
  request: string;
  /** The signatures that it checks and makes. These are not counted but known. */
  signatures: string;
  /** Part of every right answer's body. Some refusals have the status 200. */
  expected: string;
  workload: Workload;
}

/** Latchkey or a peer, as a process under load. */
export interface BenchedServer {
  name: string;
  version: string;
  url: string;
  /** CPU time used so far by all threads, in seconds. */
  cpuSeconds(): number;
  /** Truncates the log: minutes of load fill a disk. */
  emptyLog(): void;
  stop(): Promise<void>;
  /** What its keys in Redis contain; null if it does not use Redis. */
  redisPrefix: string | null;
  /** Null if it does not use PostgreSQL. */
  databaseUrl: string | null;
  offers: Partial<Record<PeerOperation, Offer>>;
}

/** A server in one operation, and what it did in each round. */
export interface Entrant {
  server: BenchedServer;
  offer: Offer;
  rounds: PeerRound[];
}

/** One server under load for some time. CPU shares are of one core. */
export interface PeerRound {
  perSecond: number;
  /** CPU time of the server in microseconds a request, without that of Redis and PostgreSQL. */
  micros: number;
  serverCpu: number;
  generatorCpu: number;
}

export function entrantsIn(operation: PeerOperation, servers: readonly BenchedServer[]): Entrant[] {
  return servers.flatMap((server) => {
    const offer = server.offers[operation];
    return offer ? [{ server, offer, rounds: [] }] : [];
  });
}
