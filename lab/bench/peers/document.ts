import { thisMachine } from '../../table.ts';
import { shortened, type BenchDocument, type Check } from '../document.ts';
import { limit, type LimitName } from '../settings.ts';
import { median, sampleOf, type Sample } from '../statistics.ts';
import { LATCHKEY } from './latchkey.ts';
import { PEER_OPERATIONS, type Entrant, type PeerOperation, type PeerRound } from './servers.ts';
import type { Work } from './work.ts';

/** A server in one operation. */
export interface PeerEntry {
  server: string;
  version: string;
  operation: PeerOperation;
  request: string;
  /** Of all rounds. */
  perSecond: Sample;
  micros: number;
  serverCpu: number;
  generatorCpu: number;
  signatures: string;
  /** Null in a smoke run, which does not count. */
  work: Work | null;
  /** Latchkey's requests a second to the server's, round by round; empty for Latchkey itself. */
  factors: number[];
  /** The server's CPU time a request to Latchkey's: other work on the machine disturbs it least. */
  cpuFactors: number[];
}

/** All figures of `--peers`: what `--json` prints and docs/benchmarks-peers.json holds. */
export interface PeersDocument extends Pick<BenchDocument, 'date' | 'machine' | 'settings' | 'limits'> {
  version: number;
  /** Processes that wanted a core during the minute before the run. */
  loadBefore: number;
  /** The stores' versions and settings. */
  stores: string;
  entries: PeerEntry[];
  /** Peers that did not run, and why. */
  missing: string[];
}

/** What a comparison has to reach: Latchkey's factor over one peer. */
const GOALS: Record<PeerOperation, { peer: string; setting: LimitName }> = {
  verify: { peer: 'better-auth', setting: 'BENCH_MIN_PEER_VERIFY' },
  introspection: { peer: 'oidc-provider', setting: 'BENCH_MIN_PEER_INTROSPECTION' },
  refresh: { peer: 'oidc-provider', setting: 'BENCH_MIN_PEER_REFRESH' },
};

/** Figures with another version are not read. */
const VERSION = 1;

type Facts = Pick<PeersDocument, 'settings' | 'loadBefore' | 'stores' | 'entries' | 'missing'>;

/** @param isJudged whether the figures are good enough to hold them against the goals. */
export function makePeersDocument(facts: Facts, isJudged: boolean): PeersDocument {
  const document: PeersDocument = {
    version: VERSION,
    date: new Date().toISOString(),
    machine: thisMachine(),
    limits: isJudged ? checksOf(facts.entries) : [],
    ...facts,
  };
  return JSON.parse(JSON.stringify(document, shortened)) as PeersDocument;
}

/** What the rounds of one operation come down to. @param works of the entrants, in their order. */
export function entriesOf(
  operation: PeerOperation,
  entrants: readonly Entrant[],
  works: readonly Work[] | null,
): PeerEntry[] {
  const own = entrants.find(({ server }) => server.name === LATCHKEY)?.rounds ?? [];
  return entrants.map(({ server, offer, rounds }, i) => {
    const of = (field: keyof PeerRound) => median(rounds.map((round) => round[field]));
    return {
      server: server.name,
      version: server.version,
      operation,
      request: offer.request,
      signatures: offer.signatures,
      work: works?.[i] ?? null,
      perSecond: sampleOf(rounds.map(({ perSecond }) => perSecond)),
      micros: of('micros'),
      serverCpu: of('serverCpu'),
      generatorCpu: of('generatorCpu'),
      ...(server.name === LATCHKEY ? { factors: [], cpuFactors: [] } : factorsBetween(own, rounds)),
    };
  });
}

function factorsBetween(own: readonly PeerRound[], theirs: readonly PeerRound[]) {
  const pairs = own.flatMap((our, i) => {
    const their = theirs[i];
    return their ? [{ our, their }] : [];
  });
  return {
    factors: pairs.map(({ our, their }) => our.perSecond / their.perSecond),
    cpuFactors: pairs.map(({ our, their }) => their.micros / our.micros),
  };
}

/** The goals of the operations that were measured. */
function checksOf(entries: readonly PeerEntry[]): Check[] {
  return PEER_OPERATIONS.flatMap((operation) => {
    const { peer, setting } = GOALS[operation];
    const entry = entries.find((each) => each.operation === operation && each.server === peer);
    if (!entry) return [];
    const value = median(entry.factors);
    const minimum = limit(setting);
    const what = `${operation}, times ${peer}’s ${entry.request}`;
    return [{ setting, what, value, limit: minimum, isMet: value >= minimum }];
  });
}

/** Reads committed figures. @returns null if they have another form than today's. */
export function readPeersDocument(text: string): PeersDocument | null {
  const document = JSON.parse(text) as PeersDocument;
  return document.version === VERSION ? document : null;
}
