/** The lease of the replica that renews the tombstones of one master, as this master holds it. */
export interface Lease {
  /** '' once it has released the lease. */
  readonly replica: string;
  /** Goes on with each page and each renewal, and so shows that the replica is at work. */
  readonly moves: number;
  /** The server to which the last full renewal went. */
  readonly server: string;
  /** `moves` when that renewal was finished. */
  readonly full: number;
}

/** What a replica knows of one master. Times in milliseconds by the replica's monotonic clock. */
export interface Watch {
  /** As last seen; null if there was none. */
  readonly lease: Lease | null;
  readonly lookedAt: number;
  /** When the lease was first seen as it is. */
  readonly movedAt: number;
  /** A time before which the last known full renewal was not finished. */
  readonly fullAt: number;
  /** null if this replica does not hold the lease, or does not know what its holder has renewed. */
  readonly tenure: Tenure | null;
}

interface Tenure {
  /** From then on, everything has been renewed. */
  readonly since: number;
  /** Until then. */
  readonly until: number;
  /** There. A proxy may lead back to a server that holds our lease but lacks what went to the other meanwhile. */
  readonly server: string;
}

export interface Renewal {
  isFull: boolean;
  /** It covers what was settled from then on. */
  since: number;
  startedAt: number;
  /** The one that answered when it began. */
  server: string;
}

/** A renewal of the last minute or more. */
export type FullRenewal = Pick<Renewal, 'since' | 'server'>;

/** Milliseconds between two renewals. */
export const INTERVAL = 250;
/** Without a move for so long, the holder counts as gone. */
const SILENCE = 600;
/** A renewal reaches back behind the one before by so much: its own delay, and commits that became visible late. */
export const OVERLAP = 750;
/** How late a renewal may read without leaving a gap behind the one before. */
export const LATE = 375;
/** A failover may silently lose tombstones and users of this last period, which full renewals cover. */
export const RECENT = 60_000;
/** Milliseconds between two full renewals. */
const FULL_INTERVAL = 30_000;

/** Of a replica that has not looked yet. The last full renewal may be as old as any between two of them. */
export function newWatch(now: number): Watch {
  return { lease: null, lookedAt: now, movedAt: now, fullAt: now - FULL_INTERVAL, tenure: null };
}

export function see(watch: Watch, lease: Lease | null, self: string, now: number): Watch {
  const { lease: before, lookedAt } = watch;
  const hasMoved = lease?.replica !== before?.replica || lease?.moves !== before?.moves;
  // After a failover an older lease may stand there, which tells of no new renewal.
  const isRenewed = lease !== null && before !== null && lease.full > before.full;
  return {
    lease,
    lookedAt: now,
    movedAt: hasMoved ? now : watch.movedAt,
    fullAt: isRenewed ? lookedAt : watch.fullAt,
    tenure: lease?.replica === self ? watch.tenure : null,
  };
}

/** In how many milliseconds this replica may move the lease, if nobody else does until then. */
export function waitOf({ lease, movedAt }: Watch, self: string, now: number): number {
  const isFree = lease === null || lease.replica === '';
  return isFree || lease.replica === self ? 0 : Math.max(0, movedAt + SILENCE - now);
}

/** What a replica leaves that stops, so that another one need not wait. */
export const released = (lease: Lease): Lease => ({ ...lease, replica: '', moves: lease.moves + 1 });

/** The next lease of this replica. @param fullOn the server to which a full renewal went, if one is finished. */
export function moved(lease: Lease | null, self: string, fullOn?: string): Lease {
  const moves = (lease?.moves ?? 0) + 1;
  const { server, full } =
    fullOn === undefined ? (lease ?? { server: '', full: 0 }) : { server: fullOn, full: moves };
  return { replica: self, moves, server, full };
}

/** What the holder renews next. @param server the one that answers now. */
export function renewalOf({ lease, fullAt, tenure }: Watch, server: string, now: number): Renewal {
  if (tenure?.server === server && lease?.server === server && now - fullAt < FULL_INTERVAL)
    return { isFull: false, since: tenure.until - OVERLAP, startedAt: now, server };
  const since = Math.min(now - RECENT, fullAt - (RECENT - FULL_INTERVAL));
  return { isFull: true, since, startedAt: now, server };
}

/** After a renewal. @param readAt when its first page had been read. */
export function renewed(watch: Watch, { isFull, since, startedAt, server }: Renewal, readAt: number): Watch {
  const delay = readAt - startedAt;
  // A short one that read late may have left a gap, so the next is full: that reaches back further.
  if (!isFull && delay > LATE) return { ...watch, tenure: null };
  const isContinued = watch.tenure?.server === server;
  return {
    ...watch,
    fullAt: isFull ? startedAt : watch.fullAt,
    tenure: { since: isContinued ? watch.tenure.since : since + delay, until: startedAt, server },
  };
}
