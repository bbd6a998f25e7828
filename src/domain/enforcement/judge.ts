import type { FeedPosition } from '../feed/ports.ts';
import { SEEN, type JudgedReader } from './ports.ts';

/**
 * `enforced`: it has confirmed a position that includes the end. `bounded`: it has not, but by `until` it refuses the
 * token, or asks. `pending`: that time is ahead, or the reader was seen a moment ago. `unknown`: it is silent, and
 * nothing but the token's expiry bounds it.
 */
export const STATES = ['enforced', 'bounded', 'pending', 'unknown'] as const;
export type EnforcementState = (typeof STATES)[number];

/** When what has ended was published, and until when its tokens could be good by their own claims. */
export interface Published {
  /** Milliseconds since 1970, by the later of the clocks. */
  at: number;
  /** Milliseconds since 1970; null for never. */
  expiresAt: number | null;
}

/** Positions of the feed, both of one epoch. */
export interface FeedSpan {
  /** Whoever has applied everything up to here knows all that had ended at the question. */
  from: number;
  /** The end of the feed, read after the readers: nobody can have applied more. */
  to: number;
  epoch: string;
}

export interface Judgement {
  state: EnforcementState;
  /** When it is bounded at the latest; null for never, and if it has confirmed. */
  until: number | null;
  /** What bounds it: its policy, or the expiry of the tokens. */
  by: 'policy' | 'expired' | null;
}

type Judged = Pick<JudgedReader, 'position' | 'maxStaleness' | 'whenStale' | 'seenAt'>;

/**
 * A reader may hear from a replica of a demoted master until that one's next full renewal, in milliseconds. One that
 * does not reach PostgreSQL never renews, so a policy does not bound who is cut off with it (docs/enforcement.md).
 */
const MARGIN = 30_000;

/**
 * Whether a reader refuses what has ended.
 * @param published null while a part is not published: then no position includes it.
 * @param span null while no position is known that includes it.
 * @param now by the earlier of PostgreSQL's clock and the replica's.
 */
export function judge(
  reader: Judged,
  published: Published | null,
  span: FeedSpan | null,
  now: number,
): Judgement {
  if (published && span && includes(span, reader.position))
    return { state: 'enforced', until: null, by: null };
  const policy = published && policyEnd(reader, published.at);
  const expiry = published?.expiresAt ?? null;
  const byPolicy = policy !== null && (expiry === null || policy <= expiry);
  const until = byPolicy ? policy : expiry;
  const by = until === null ? null : byPolicy ? 'policy' : 'expired';
  if (until !== null && now > until) return { state: 'bounded', until, by };
  const isPending = policy !== null || now - reader.seenAt <= SEEN;
  return { state: isPending ? 'pending' : 'unknown', until, by };
}

function includes({ epoch, from, to }: FeedSpan, position: FeedPosition | null): boolean {
  return position?.epoch === epoch && position.seq >= from && position.seq <= to;
}

/**
 * When a reader with a policy refuses or asks at the latest. It counts from the publication alone. When the reader was
 * last seen proves nothing: while PostgreSQL is away, heartbeats go on, and nobody can note who gets them.
 */
function policyEnd({ maxStaleness, whenStale }: Judged, publishedAt: number): number | null {
  if (maxStaleness === null || whenStale === null || whenStale === 'accept') return null;
  return publishedAt + maxStaleness * 1000 + MARGIN;
}
