import type { Random } from '../../test/support/random.ts';
import type { Reply, Session } from './rules.ts';
import type { Timeline } from './timeline.ts';

export interface Network {
  name: string;
  /** The share of answers that never arrive. */
  lost: number;
  tabs: number;
  /** The share of refreshes in which a page's server sends PAGE requests at once, all with the same token. */
  pages: number;
  /** Seconds that a client waits for an answer. */
  timeout: number;
  /** The share of each hour in which the service takes 3 s to answer. */
  slow: number;
}

export const ACCESS_TOKEN_TTL = 900;
const PAGE = 8;

export interface OwnersSession {
  session: Session;
  /** The pair that the tabs share, and when it was stored. */
  held: number;
  storedAt: number;
  refreshes: number;
  onTheft: () => void;
}

/** A tab: uses the access token regularly, refreshes if it is refused or old, and retries until it has a pair. */
export function openTab(owner: OwnersSession, network: Network, timeline: Timeline, random: Random): void {
  const isFresh = () => timeline.now() - owner.storedAt < ACCESS_TOKEN_TTL;

  const use = () => {
    if (isFresh() && owner.session.access(owner.held)) rest();
    else {
      send(tryAgain);
      if (network.pages === 0 || !random.chance(network.pages)) return;
      // Their answers arrive too, but only the first request decides when to go on.
      for (let more = 1; more < PAGE; more++) send(() => undefined);
    }
  };
  const rest = () => {
    timeline.after(random.between(20, 120), use);
  };
  const tryAgain = (seconds: number) => {
    timeline.after(seconds, use);
  };

  const send = (goOn: (seconds: number) => void) => {
    const { session, held: token } = owner;
    let isWaiting = true;
    const isSlow = timeline.now() % 3600 < network.slow;
    const inside = isSlow ? 3 : 0.005;
    const elapsed = inside * random.between(0, 1);
    timeline.after(random.between(0.01, 0.2) + elapsed, () => {
      if (session !== owner.session) return;
      const reply = session.refresh({ token, now: timeline.now(), elapsed, caller: 'home' });
      if (reply === 'theft') {
        owner.onTheft();
        return;
      }
      if (random.chance(network.lost)) return;
      timeline.after(inside - elapsed + random.between(0.01, 0.2), () => {
        if (isWaiting) receive(reply);
        isWaiting = false;
      });
    });
    timeline.after(network.timeout, () => {
      if (isWaiting) goOn(random.spread(0.005, 7200));
      isWaiting = false;
    });

    function receive(reply: Exclude<Reply, 'theft'>): void {
      if (session !== owner.session || 'retryAfter' in reply) {
        goOn('retryAfter' in reply ? reply.retryAfter : 0);
        return;
      }
      if (reply.pair > owner.held) {
        owner.held = reply.pair;
        owner.storedAt = timeline.now();
        owner.refreshes++;
      }
      goOn(random.between(0, 1));
    }
  };
  rest();
}
