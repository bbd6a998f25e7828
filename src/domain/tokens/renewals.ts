import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { RenewalMark, RevocationFeed } from '../feed/ports.ts';
import {
  INTERVAL,
  moved,
  newWatch,
  released,
  renewalOf,
  renewed,
  see,
  waitOf,
  type FullRenewal,
  type Lease,
  type Watch,
} from './lease.ts';
import type { RenewalLeases, RevocationStore } from './ports.ts';
import type { RenewChanges } from './renew-changes.ts';
import { settledPages } from './revocations.ts';
import type { TokenStateStore } from './token-state-store.ts';

interface RenewalPorts {
  leases: RenewalLeases;
  /** A name that no other replica has, nor this one had before its start. */
  self: string;
  revocations: Pick<RevocationStore, 'settledSince'>;
  /** Without publishing: only who holds the master of the feed publishes. */
  tokenStates: Pick<TokenStateStore, 'revokeAll'>;
  feed: Pick<RevocationFeed, 'publish' | 'renewed' | 'askedRenewal'>;
  /** The feed's other half. */
  changes: Pick<RenewChanges, 'renewedOn'>;
  clock: Pick<Clock, 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  pause: (ms: number) => Promise<unknown>;
}

/** Milliseconds after which a renewal that has not ended counts as failed. */
const LONGEST = 10_000;
/** Of the time, full renewals on request take at most a tenth, and there is at most one a second. */
const REST = { factor: 10, least: 1000 };

/**
 * Sets the tombstones again that a failover may have lost, or that went to a demoted master, and publishes them again.
 * On each master one replica does that for all (lease.ts).
 */
export function makeRenewals(ports: RenewalPorts) {
  const { leases, self, revocations, tokenStates, feed, changes, clock, pause } = ports;
  const watches = new Map<string, Watch>();
  /** A master that hangs holds up no other one. */
  const running = new Map<string, { since: number; ended: Promise<void> }>();
  const failures = new Map<string, Error>();
  /** Masters whose last full renewal the feed has not heard of, with what it serves. */
  const untold = new Map<string, { mark: RenewalMark | null; startedAt: number }>();
  /** Before this time, nobody gets a full renewal for asking. */
  let restsUntil = -Infinity;
  /**
   * The last full renewal on each master whose lease this replica held when it looked last, also one that
   * goes on.
   */
  const fulls = new Map<string, FullRenewal>();

  function note(master: string, watch: Watch): Watch {
    watches.set(master, watch);
    return watch;
  }

  async function look(master: string): Promise<{ watch: Watch; server: string }> {
    const before = watches.get(master) ?? newWatch(clock.monotonic());
    const { server, lease } = await leases.look(master, self);
    return { server, watch: note(master, see(before, lease, self, clock.monotonic())) };
  }

  /** @returns null if somebody else has moved the lease. */
  async function move(master: string, watch: Watch, to: Lease): Promise<Watch | null> {
    const lease = await leases.move(master, watch.lease, to);
    const now = note(master, see(watch, lease, self, clock.monotonic()));
    return lease?.replica === self && lease.moves === to.moves ? now : null;
  }

  /** The lease, once this replica may move it; null if another one goes on with it. */
  async function holding(master: string): Promise<{ watch: Watch; server: string } | null> {
    let seen = await look(master);
    let wait = waitOf(seen.watch, self, clock.monotonic());
    if (wait >= INTERVAL) return null;
    if (wait > 0) {
      await pause(wait);
      seen = await look(master);
      wait = waitOf(seen.watch, self, clock.monotonic());
    }
    if (wait > 0) return null;
    const { watch } = seen;
    if (watch.lease?.replica === self) return seen;
    // At once, so that of several that wait only one begins.
    if (!(await move(master, watch, moved(watch.lease, self)))) return null;
    seen = await look(master);
    return seen.watch.lease?.replica === self ? seen : null;
  }

  /** @param isLast whether to renew in full, because this replica stops. */
  async function renew(master: string, isLast = false): Promise<void> {
    const held = await holding(master);
    if (!held) {
      fulls.delete(master);
      return;
    }
    const { server } = held;
    let watch: Watch | null = held.watch;
    // Before the record is read: the feed then says that whoever asked before is served.
    const mark = leases.hasFeed(master) ? await feed.askedRenewal() : null;
    // Changed users wait for a full one too, if the master was not to be seen for a moment.
    const isFullDue = isLast || (mark !== null && mayServe(master)) || !fulls.has(master);
    const renewal = renewalOf(isFullDue ? { ...watch, tenure: null } : watch, server, clock.monotonic());
    if (renewal.isFull) fulls.set(master, renewal);
    /** When the first page had been read. */
    let readAt = Infinity;
    try {
      for await (const { keys, isFull } of settledPages(revocations, renewal.startedAt - renewal.since)) {
        readAt = Math.min(readAt, clock.monotonic());
        await tokenStates.revokeAll(keys.filter(({ userId }) => leases.isThere(master, userId)));
        if (leases.hasFeed(master)) await feed.publish(keys);
        // A replica that has lost the lease still goes on to the newest ends, which come last: if PostgreSQL needs longer
        // for a page than the others wait, the next holder loses the lease on its first page too.
        if (isFull && watch) watch = await move(master, watch, moved(watch.lease, self));
      }
    } finally {
      if (renewal.isFull && leases.hasFeed(master)) restAfter(renewal.startedAt);
    }
    if (!watch) return;
    const after = renewed(watch, renewal, readAt);
    if (!leases.hasFeed(master)) untold.delete(master);
    else if (renewal.isFull) untold.set(master, { mark, startedAt: renewal.startedAt });
    if (after.tenure) await tell(master, server, after.fullAt, after.tenure.since);
    const done = await move(master, watch, moved(watch.lease, self, renewal.isFull ? server : undefined));
    if (done) note(master, { ...done, fullAt: after.fullAt, tenure: after.tenure });
  }

  /** Tells the feed of the last full renewal. Changed users may come later than the tombstones, and so does this. */
  async function tell(
    master: string,
    server: string,
    fullAt: number,
    tombstonesSince: number,
  ): Promise<void> {
    const full = untold.get(master);
    const users = changes.renewedOn(master, server);
    if (!full || !users) return;
    const isServed = users.until >= full.startedAt;
    const now = clock.monotonic();
    const since = Math.max(tombstonesSince, users.since);
    await feed.renewed(now - since, now - Math.min(fullAt, users.until), isServed ? full.mark : null);
    if (!isServed && full.mark) return;
    untold.delete(master);
    restAfter(full.startedAt);
  }

  function mayServe(master: string): boolean {
    return !untold.get(master)?.mark && clock.monotonic() >= restsUntil;
  }

  function restAfter(startedAt: number): void {
    const took = clock.monotonic() - startedAt;
    restsUntil = Math.max(restsUntil, startedAt + Math.max(REST.least, REST.factor * took));
  }

  async function ended(): Promise<void> {
    await Promise.all([...running.values()].map((each) => each.ended));
  }

  async function release(master: string): Promise<void> {
    const isHolder = () => watches.get(master)?.lease?.replica === self;
    // If the whole installation stops, the feed goes on after a start that comes within a minute of this renewal.
    if (isHolder() && leases.hasFeed(master)) await renew(master, true);
    const watch = watches.get(master);
    if (watch?.lease && isHolder()) await move(master, watch, released(watch.lease));
  }

  return {
    /**
     * Begins what is due.
     * @throws the failure of a master that has not worked since, or whose renewal does not end; `unavailable` without
     * masters
     */
    tick(): void {
      const masters = leases.masters();
      // What was known of them still counts once they are back.
      if (masters.length === 0) throw new AuthError('unavailable');
      for (const known of [watches, failures, untold, fulls])
        for (const master of known.keys()) if (!masters.includes(master)) known.delete(master);
      const now = clock.monotonic();
      for (const master of masters) {
        const begun = running.get(master);
        if (begun) {
          // Otherwise this task would count as working for as long as a renewal goes on.
          if (now - begun.since > LONGEST)
            failures.set(master, new Error(`no end of the renewal on ${master}`));
          continue;
        }
        const ended = renew(master)
          .then(
            () => failures.delete(master),
            (error: unknown) => failures.set(master, error as Error),
          )
          .then(() => void running.delete(master));
        running.set(master, { since: now, ended });
      }
      const [failure] = failures.values();
      if (failure !== undefined) throw failure;
    },

    /** Waits for what has begun. */
    ended,

    /**
     * The masters whose leases this replica holds as far as it knows, each with its last full renewal there.
     */
    held: (): ReadonlyMap<string, FullRenewal> => fulls,

    /** Leaves the masters to other replicas, once ticks have stopped. @throws AuthError `unavailable` */
    async release(): Promise<void> {
      await ended();
      await Promise.all(leases.masters().map(release));
    },
  };
}

export type Renewals = ReturnType<typeof makeRenewals>;
