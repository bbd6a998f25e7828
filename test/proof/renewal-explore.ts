import type { Lease, Watch } from '../../src/domain/tokens/lease.ts';
import {
  BOUND,
  eventsOf,
  firstSituations,
  isKnown,
  LATEST,
  type LeaseRule,
  type RenewalWorld,
  type Replica,
  type Server,
  type Situation,
} from './renewal.ts';

/**
 * Explores every history of a world, breadth first.
 * @returns a shortest history after which the tombstone is missing where a replica serves, one line per event; null if
 * there is none.
 */
export function exploreRenewal(
  world: RenewalWorld,
  rule: LeaseRule,
): { states: number; counterexample: string[] | null } {
  const seen = new Set<string>();
  const reached: { situation: Situation; from: number; what: string }[] = [];
  const reach = (given: Situation, from: number, what: string) => {
    const situation = normalize(given, world);
    // Without faults a tombstone stays.
    if (situation.calm !== null && isKnown(situation)) return;
    const key = keyOf(situation);
    if (seen.has(key)) return;
    seen.add(key);
    reached.push({ situation, from, what });
  };
  for (const first of firstSituations(world)) {
    const [a, b] = first.replicas;
    reach(first, -1, `A uses ${'XY'.charAt(a.route)}, B uses ${'XY'.charAt(b.route)}`);
  }
  for (const [index, { situation }] of reached.entries()) {
    if ((situation.calm ?? 0) > BOUND) {
      const counterexample: string[] = [];
      for (let at = reached[index]; at; at = reached[at.from]) counterexample.unshift(at.what);
      return { states: reached.length, counterexample };
    }
    for (const { what, after } of eventsOf(situation, world, rule)) reach(after, index, what);
  }
  return { states: reached.length, counterexample: null };
}

/** The present of every normalized situation. */
const NOW = 1_000_000;
/** What settled so long before a renewal or a look is older than any period or silence between two of them. */
const OLD = 900;
const OVERLAP = 750;
const SILENCE = 600;
const HALF_A_MINUTE = 30_000;

/** Of times, names and counters it keeps only what the rule can tell apart, so there are finitely many situations. */
function normalize(s: Situation, { slow }: RenewalWorld): Situation {
  const age = (time: number) => s.now - time;
  const [x, y] = s.servers;
  const idOf = (id: string) => (id === x.id ? 'x' : id === y.id ? 'y' : '-');
  const settled = s.settled === null ? null : NOW - Math.min(age(s.settled), slow ? OLD + LATEST : OLD);
  /** A time by which a renewal covers the end or does not; with delays, by how much. */
  const boundary = (time: number) => {
    if (s.settled === null || settled === null) return NOW;
    const after = time - s.settled;
    if (!slow) return after <= OVERLAP ? settled : settled + OLD;
    return settled + Math.min(Math.max(after, 0), OLD);
  };
  const startOf = (time: number) =>
    Math.max(NOW - Math.min(age(time), LATEST), s.settled === null ? 0 : boundary(time));
  const moves = [
    x.lease,
    y.lease,
    ...s.replicas.flatMap(({ watch, pass }) => [watch?.lease, pass?.watch.lease]),
  ]
    .map((lease) => lease?.moves ?? 0)
    .sort((one, other) => one - other);
  const ranks = [...new Set([0, ...moves])];

  const leaseOf = (lease: Lease | null): Lease | null =>
    lease && {
      replica: lease.replica,
      moves: ranks.indexOf(lease.moves),
      server: idOf(lease.server),
      full: 0,
    };
  const knownOf = ({ fullAt, tenure }: Pick<Watch, 'fullAt' | 'tenure'>) => ({
    fullAt: tenure && age(fullAt) >= HALF_A_MINUTE ? NOW - HALF_A_MINUTE : NOW,
    tenure: tenure && { since: 0, until: boundary(tenure.until), server: idOf(tenure.server) },
  });
  const watchOf = (watch: Watch, name: string): Watch => ({
    lease: leaseOf(watch.lease),
    lookedAt: NOW,
    // A holder does not wait.
    movedAt: watch.lease?.replica === name ? NOW : NOW - Math.min(age(watch.movedAt), SILENCE),
    ...knownOf(watch),
  });
  const serverOf = (server: Server): Server => ({
    ...server,
    id: idOf(server.id),
    lease: leaseOf(server.lease),
    expires: server.expires && NOW + Math.min(Math.max(server.expires - s.now, 0), HALF_A_MINUTE),
  });
  const replicaOf = (replica: Replica): Replica => {
    const { name, watch, pass } = replica;
    if (!pass) return { ...replica, watch: watch && watchOf(watch, name) };
    const { isFull, since, startedAt, server } = pass.renewal;
    return {
      ...replica,
      pass: {
        watch: watchOf(pass.watch, name),
        renewal: {
          isFull,
          since: pass.after || isFull ? 0 : boundary(since + OVERLAP) - OVERLAP,
          startedAt: pass.after ? 0 : startOf(startedAt),
          server: idOf(server),
        },
        after: pass.after && knownOf(pass.after),
        isRerouted: pass.isRerouted,
      },
    };
  };
  const [a, b] = s.replicas;
  return {
    ...s,
    now: NOW,
    settled,
    servers: [serverOf(x), serverOf(y)],
    replicas: [replicaOf(a), replicaOf(b)],
  };
}

/** Equal for equal situations. */
function keyOf({ servers, replicas, settled, faults, calm }: Situation): string {
  const codes: number[] = [];
  const add = (...parts: (string | number | boolean | null | undefined)[]) => {
    for (const part of parts) {
      if (typeof part === 'string') codes.push(part.charCodeAt(0));
      else if (typeof part !== 'number') codes.push(part ? 60_001 : part === false ? 60_002 : 60_003);
      // Times, as multiples of what divides them all.
      else codes.push(part > OLD ? 1000 + (part - NOW) / 150 : part);
    }
  };
  const addKnown = (known: Pick<Watch, 'fullAt' | 'tenure'> | null | undefined) => {
    add(known?.fullAt, known?.tenure?.until, known?.tenure?.server);
  };
  const addWatch = (watch: Watch | null | undefined) => {
    add(watch?.lease?.replica, watch?.lease?.moves, watch?.lease?.server, watch?.movedAt);
    addKnown(watch);
  };
  add(settled, faults, calm);
  for (const { id, lease, hasTombstone, expires } of servers)
    add(id, hasTombstone, expires, lease?.replica, lease?.moves, lease?.server);
  for (const { route, isRunning, isDone, watch, pass } of replicas) {
    add(route, isRunning, isDone);
    addWatch(pass ? pass.watch : watch);
    if (!pass) continue;
    const { isFull, since, startedAt, server } = pass.renewal;
    add(isFull, since, startedAt, server, pass.isRerouted, pass.after !== null);
    addKnown(pass.after);
  }
  return String.fromCharCode(...codes);
}
