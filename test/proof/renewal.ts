import { readFileSync } from 'node:fs';
import * as real from '../../src/domain/tokens/lease.ts';
import type { Lease, Renewal, Watch } from '../../src/domain/tokens/lease.ts';

// Two replicas renew the tombstones of two servers, of which any may be the master that a replica uses. One end of a
// token is watched. It stands for every other, because no renewal depends on what it finds.

/** The explored rule: the functions of lease.ts, or a weakening of their text. */
export type LeaseRule = Pick<
  typeof real,
  'newWatch' | 'see' | 'waitOf' | 'moved' | 'released' | 'renewalOf' | 'renewed'
>;

export const realLeases: LeaseRule = real;

const FAULTS = [
  'route',
  'swap',
  'kill',
  'stop',
  'restart',
  'failover',
  'promotion',
  'half a minute',
] as const;

export interface RenewalWorld {
  /** How many faults happen before they end, and which. */
  faults: number;
  only?: readonly (typeof FAULTS)[number][];
  /** Between a look and the reading of what was settled, anything may happen; otherwise nothing does. */
  slow?: true;
  /** A weakening: one lease, on X, for both masters. */
  oneLease?: true;
  /** A weakening: the server ends the lease by its clock, and that of a promoted one is half a minute behind. */
  expiry?: true;
}

export interface Server {
  /** Its run_id and master_replid. */
  id: string;
  lease: Lease | null;
  hasTombstone: boolean;
  /** When the lease ends; only with `expiry`. */
  expires: number;
}

/** A renewal that has begun. */
export interface Pass {
  watch: Watch;
  renewal: Renewal;
  /** What its replica will know, once the tombstones are set. */
  after: Pick<Watch, 'fullAt' | 'tenure'> | null;
  /** Whether its replica uses the other server since. */
  isRerouted: boolean;
}

export interface Replica {
  name: string;
  /** The server that it uses. */
  route: 0 | 1;
  isRunning: boolean;
  /** null while it renews, and of a replica that has just started. */
  watch: Watch | null;
  pass: Pass | null;
  /** Once the faults have ended: whether it has had its turn in this step. */
  isDone: boolean;
}

type Pair<T> = readonly [T, T];

/** Times in milliseconds. */
export interface Situation {
  now: number;
  servers: Pair<Server>;
  replicas: Pair<Replica>;
  /** When the token's end was settled. */
  settled: number | null;
  /** How many may still happen. */
  faults: number;
  /** Steps since the faults have ended; null before. */
  calm: number | null;
}

export interface Event {
  what: string;
  after: Situation;
}

/** More than INTERVAL in lease.ts, so a replica looks at its master at least as often as here. */
export const STEP = 300;
/**
 * Steps after the last fault in which the tombstone comes back: two without a move, and that of the renewal. A replica
 * needs less than a second, because it looks every 250 ms, and again 600 ms after a move.
 */
export const BOUND = 3;
const SILENCE = 600;
const HALF_A_MINUTE = 30_000;
const BOTH = [0, 1] as const;
const NAMES = ['X', 'Y'] as const;

const otherThan = (index: 0 | 1) => (1 - index) as 0 | 1;

function change<T>([first, second]: Pair<T>, index: number, changes: Partial<T>): Pair<T> {
  return index === 0 ? [{ ...first, ...changes }, second] : [first, { ...second, ...changes }];
}

export function firstSituations({ faults }: RenewalWorld): Situation[] {
  const server = { lease: null, hasTombstone: false, expires: 0 };
  const replica = { isRunning: true, watch: null, pass: null, isDone: false };
  return BOTH.flatMap((a) =>
    BOTH.map((b): Situation => ({
      now: 0,
      servers: [
        { ...server, id: 'x' },
        { ...server, id: 'y' },
      ],
      replicas: [
        { ...replica, name: 'A', route: a },
        { ...replica, name: 'B', route: b },
      ],
      settled: null,
      faults,
      calm: null,
    })),
  );
}

/** Whether the tombstone is on every server from which a replica serves. */
export const isKnown = ({ replicas, servers }: Situation) =>
  replicas.every(({ isRunning, route }) => !isRunning || servers[route].hasTombstone);

/** Everything that can happen next. */
export function eventsOf(s: Situation, world: RenewalWorld, rule: LeaseRule): Event[] {
  const found = BOTH.flatMap((index) => {
    const { isRunning, isDone, pass } = s.replicas[index];
    if (!isRunning || isDone) return [];
    if (!pass) return [looks(s, index, world, rule)];
    return [
      pass.after ? moves(s, index, { ...pass, after: pass.after }, world, rule) : reads(s, index, pass, rule),
    ];
  });
  const add = (what: string, changes: Partial<Situation>) =>
    found.push({ what, after: { ...s, ...changes } });

  if (s.calm !== null) {
    const haveAllDone = s.replicas.every(({ isRunning, isDone }) => isDone || !isRunning);
    if (haveAllDone) add('a step passes', { ...later(s, STEP), calm: s.calm + 1 });
    return found;
  }
  add('a step passes', later(s, STEP));
  if (s.settled !== null) {
    add('the faults end', { calm: 0 });
    for (const index of BOTH)
      add(`the faults end, but ${s.replicas[index].name} hangs`, {
        calm: 0,
        replicas: change(s.replicas, index, { isRunning: false, watch: null, pass: null }),
      });
  } else if (s.replicas[0].route === 0)
    // By A and on X, because all begin alike.
    add('A ends the token, with its tombstone on X', {
      settled: s.now,
      servers: change(s.servers, 0, { hasTombstone: true }),
    });
  if (s.faults === 0) return found;
  for (const [kind, what, changes] of faultsOf(s, rule))
    if (world.only?.includes(kind) ?? true) add(`FAULT: ${what}`, { ...changes, faults: s.faults - 1 });
  return found;
}

function later({ now, replicas: [a, b] }: Situation, ms: number): Partial<Situation> {
  const replicas = [
    { ...a, isDone: false },
    { ...b, isDone: false },
  ] as const;
  return { now: now + ms, replicas };
}

type Fault = [kind: (typeof FAULTS)[number], what: string, changes: Partial<Situation>];

function faultsOf(s: Situation, rule: LeaseRule): Fault[] {
  const found = BOTH.flatMap((index) => faultsAt(s, index, rule));
  found.push(['half a minute', 'half a minute passes', later(s, HALF_A_MINUTE)]);
  const [a, b] = s.replicas.map(rerouted);
  if (a && b) found.push(['swap', 'a proxy swaps the servers', { replicas: [a, b] }]);
  return found;
}

function faultsAt({ servers, replicas }: Situation, index: 0 | 1, rule: LeaseRule): Fault[] {
  const { name, route, watch } = replicas[index];
  const other = servers[otherThan(index)];
  const id = `another ${index}`;
  const found: Fault[] = [
    [
      'restart',
      `${NAMES[index]} restarts, empty`,
      { servers: change(servers, index, { id, lease: null, hasTombstone: false }) },
    ],
    [
      'failover',
      `${NAMES[index]} fails over to a copy that lacks the tombstone`,
      {
        servers: change(servers, index, { id, hasTombstone: false, expires: behind(servers[index].expires) }),
      },
    ],
    [
      'promotion',
      `${NAMES[index]} copies ${NAMES[otherThan(index)]}, and is promoted after it has missed what follows`,
      {
        servers: change(servers, index, {
          ...other,
          id,
          expires: behind(other.expires),
        }),
      },
    ],
    ['kill', `${name} is killed and starts again`, killed(servers, replicas, index)],
  ];
  const held = servers[route].lease;
  if (held?.replica === name && held.moves === watch?.lease?.moves) {
    const left = change(servers, route, { lease: rule.released(held) });
    found.push(['stop', `${name} stops, and starts again`, killed(left, replicas, index)]);
  }
  const moved = rerouted(replicas[index]);
  if (moved)
    found.push(['route', `${name} uses ${NAMES[moved.route]}`, { replicas: change(replicas, index, moved) }]);
  return found;
}

/** The end of a lease on a server whose clock is behind. */
const behind = (expires: number) => expires && expires + HALF_A_MINUTE;

/** null for there and back within a renewal: its tombstones would go to another server than both its looks. */
function rerouted(replica: Replica): Replica | null {
  const { route, pass } = replica;
  if (pass?.isRerouted) return null;
  return { ...replica, route: otherThan(route), pass: pass && { ...pass, isRerouted: true } };
}

/** It starts with another name, so its old one is renamed. */
function killed(servers: Pair<Server>, replicas: Pair<Replica>, index: 0 | 1): Partial<Situation> {
  const { name } = replicas[index];
  const rename = (lease: Lease | null) => (lease?.replica === name ? { ...lease, replica: 'gone' } : lease);
  const renameIn = (watch: Watch) => ({ ...watch, lease: rename(watch.lease) });
  const [x, y] = servers;
  const { watch, pass } = replicas[otherThan(index)];
  return {
    servers: [
      { ...x, lease: rename(x.lease) },
      { ...y, lease: rename(y.lease) },
    ],
    replicas: change(change(replicas, index, { watch: null, pass: null }), otherThan(index), {
      watch: watch && renameIn(watch),
      pass: pass && { ...pass, watch: renameIn(pass.watch) },
    }),
  };
}

// What follows is the renewal of renewals.ts, of one page.

function looks(s: Situation, index: 0 | 1, world: RenewalWorld, rule: LeaseRule): Event {
  const { now } = s;
  const { name, route, watch: before } = s.replicas[index];
  const place = world.oneLease ? 0 : route;
  const server = s.servers[place];
  let { servers } = s;
  let watch = rule.see(before ?? rule.newWatch(now), server.lease, name, now);
  const isEnded = world.expiry && watch.lease?.replica !== name ? now >= server.expires : null;
  if (!(isEnded ?? rule.waitOf(watch, name, now) === 0))
    return {
      what: `${name} looks at ${NAMES[route]}, and waits`,
      after: { ...s, replicas: change(s.replicas, index, { watch, isDone: s.calm !== null }) },
    };
  if (watch.lease?.replica !== name) {
    const lease = rule.moved(watch.lease, name);
    servers = change(servers, place, { lease, expires: world.expiry ? now + SILENCE : 0 });
    watch = rule.see(watch, lease, name, now);
  }
  const renewal = rule.renewalOf(watch, server.id, now);
  const pass: Pass = { watch, renewal, after: null, isRerouted: false };
  const looked: Event = {
    what: `${name} looks at ${NAMES[route]}, and begins a ${renewal.isFull ? 'full' : 'short'} renewal`,
    after: { ...s, servers, replicas: change(s.replicas, index, { watch: null, pass }) },
  };
  if (world.slow) return looked;
  const { what, after } = reads(looked.after, index, pass, rule);
  return { what: `${looked.what}; ${what}`, after };
}

/** The beginning of the period counts from the moment at which PostgreSQL gets the query. */
function reads(s: Situation, index: 0 | 1, pass: Pass, rule: LeaseRule): Event {
  const { name, route } = s.replicas[index];
  const { startedAt, since, isFull } = pass.renewal;
  const isFound =
    s.settled !== null &&
    (isFull || (s.now - startedAt < LATEST && s.settled >= s.now - (startedAt - since)));
  const { fullAt, tenure } = rule.renewed(pass.watch, pass.renewal, s.now);
  return {
    what: isFound
      ? `${name} reads the end, and sets its tombstone on ${NAMES[route]}`
      : `${name} reads nothing`,
    after: {
      ...s,
      servers: isFound ? change(s.servers, route, { hasTombstone: true }) : s.servers,
      replicas: change(s.replicas, index, { pass: { ...pass, after: { fullAt, tenure } } }),
    },
  };
}

/** A short renewal that reads later than this is taken to find nothing: the rule makes a full one follow. */
export const LATEST = 600;

/** The lease moves unless somebody has moved it (lease.lua). */
function moves(
  s: Situation,
  index: 0 | 1,
  { watch, renewal, after }: Pass & { after: object },
  world: RenewalWorld,
  rule: LeaseRule,
): Event {
  const { name, route } = s.replicas[index];
  const place = world.oneLease ? 0 : route;
  const found = s.servers[place].lease;
  const isOurs = found?.replica === name && found.moves === watch.lease?.moves;
  const lease = isOurs ? rule.moved(watch.lease, name, renewal.isFull ? renewal.server : undefined) : found;
  const seen = rule.see(watch, lease, name, s.now);
  return {
    what: `${name} ${isOurs ? 'moves the lease' : 'finds that it lost the lease'} on ${NAMES[route]}`,
    after: {
      ...s,
      servers: isOurs
        ? change(s.servers, place, { lease, expires: world.expiry ? s.now + SILENCE : 0 })
        : s.servers,
      replicas: change(s.replicas, index, {
        watch: isOurs ? { ...seen, ...after } : seen,
        pass: null,
        isDone: s.calm !== null,
      }),
    },
  };
}

const SOURCE = readFileSync(new URL('../../src/domain/tokens/lease.js', import.meta.url), 'utf8').replace(
  /^\/\/# sourceMappingURL.*/m,
  '',
);

/** The rule with pieces of its text replaced. */
export async function weakenedLeases(find: string, replace: string): Promise<LeaseRule> {
  if (SOURCE.split(find).length !== 2) throw new Error(`the text must hold this once: ${find}`);
  const text = SOURCE.replace(find, () => replace);
  return (await import(`data:text/javascript,${encodeURIComponent(text)}`)) as LeaseRule;
}
