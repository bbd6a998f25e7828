import type { Clock } from '../clock.ts';
import { AuthError, ignoreOutage } from '../errors.ts';
import type { FeedPosition, RevocationFeed } from '../feed/ports.ts';
import { makeSharedLook } from '../limits/shared-look.ts';
import { judge, type EnforcementState, type FeedSpan, type Judgement, type Published } from './judge.ts';
import type { EndedTarget, FeedReaderStore, ReaderRecord, ReadersLook, Target } from './ports.ts';

interface EnforcementPorts {
  store: Pick<FeedReaderStore, 'ended' | 'look'>;
  /** With the epochs that readers know. */
  feed: Pick<RevocationFeed, 'fence' | 'end'>;
  clock: Pick<Clock, 'now' | 'monotonic'>;
  /** Resolves after `ms` milliseconds. */
  sleep: (ms: number) => Promise<unknown>;
  /** ACCESS_TOKEN_TTL in seconds. */
  accessTokenTtl: number;
}

export interface WaitingReader extends Judgement {
  reader: ReaderRecord;
}

/** Times in milliseconds since 1970. */
export interface EnforcementAnswer {
  /** null if the target is unknown or has not ended. */
  endedAt: number | null;
  /** null while a part is not published. */
  published: number | null;
  /** Published, and nobody is pending or unknown. */
  done: boolean;
  counts: Record<EnforcementState, number>;
  /** Those who are pending or unknown, the pending first; at most MOST_WAITING. */
  waiting: WaitingReader[];
}

export const MOST_WAITING = 100;
/** Questions that may be open on a replica. */
const MOST_OPEN = 1000;
/** Seconds after a publication until every access token of the session has expired, also by a clock that is behind. */
const EXPIRY_MARGIN = 65;

/** Which readers refuse what has ended. Who asks waits until all do, or for as long as it likes. */
export function makeEnforcement({ store, feed, clock, sleep, accessTokenTtl }: EnforcementPorts) {
  /** Tokens whose publication somebody waits for. */
  const followed = new Map<number, number>();
  let latest: (ReadersLook & { end: FeedPosition | null }) | null = null;
  const closing = new AbortController();
  let open = 0;

  // Whoever waits shares one read a second.
  const shared = makeSharedLook(
    async () => {
      const look = await store.look([...followed.keys()]);
      // After the readers: what they have confirmed is not beyond it.
      latest = { ...look, end: await feed.end().catch(orNull) };
    },
    { clock, sleep },
  );

  // [filled in with the flow: target, look, fence, judge, until done or the wait is over]
  async function ask(_target: Target, _wait: number): Promise<EnforcementAnswer> {
    throw new AuthError('unavailable');
  }

  return {
    /** @param wait seconds. @throws AuthError `unavailable` */
    ask,
    /** Whoever waits gets an answer at once, because this replica stops. */
    close(): void {
      closing.abort();
    },
  };
}

export type Enforcement = ReturnType<typeof makeEnforcement>;

function orNull(error: unknown): null {
  ignoreOutage(error);
  return null;
}
