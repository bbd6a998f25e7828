import { isRefusal, signedOut } from './latchkey-error.ts';
import { isFresh, readPair, type Pair } from './pair.ts';
import { insist, makePace } from './retries.ts';
import { unexpected, type Server } from './server.ts';
import type { SessionStore } from './session-store.ts';

async function refreshedPair(server: Server, { refresh }: Pair): Promise<Pair> {
  // Otherwise Chromium’s cache lets the tabs ask one after the other, each waiting for the answer to the last.
  return pairOf(await server.send('GET', '/api/auth/refresh', { token: refresh, cache: 'no-store' }));
}

/** @throws LatchkeyError `unexpected_answer` if it is none */
export function pairOf(answer: unknown): Pair {
  const pair = readPair(answer);
  if (!pair) throw unexpected('no pair of tokens');
  return pair;
}

export type Renewal = ReturnType<typeof makeRenewal>;

/** Refreshes on demand, one at a time for all calls. */
export function makeRenewal(store: SessionStore, server: Server) {
  const pace = makePace();
  let flight: Promise<void> | null = null;

  /** Sends what storage holds now, not what a call has read earlier: another tab may have refreshed meanwhile. */
  async function refresh(): Promise<void> {
    const sent = await present();
    try {
      const next = await refreshedPair(server, sent);
      const held = await store.change((now) => (now && isNewer(next, now) ? next : undefined));
      // A cache has answered.
      if (held?.refresh === sent.refresh) throw unexpected('a pair that is not newer');
    } catch (error) {
      if (!isRefusal(error)) throw error;
      const left = await store.change((held) => (held?.refresh === sent.refresh ? null : undefined));
      if (!left) throw error;
    }
  }

  /** @throws LatchkeyError `signed_out` */
  async function present(): Promise<Pair> {
    const pair = await store.read();
    if (!pair) throw signedOut();
    return pair;
  }

  /**
   * A pair other than the call’s that has a fresh token. Another user’s is none: a call goes out as the user who began it.
   * @throws LatchkeyError
   */
  function another(begun: Pair, signal?: AbortSignal | null): Promise<Pair> {
    async function ours(): Promise<Pair> {
      const pair = await present();
      if (pair.user.id !== begun.user.id) throw signedOut();
      return pair;
    }
    async function attempt(): Promise<Pair> {
      for (let refreshes = 0; ; refreshes++) {
        const pair = await ours();
        if (pair.access !== begun.access && (isFresh(pair) || refreshes > 1)) return pair;
        if (!flight) pace.check();
        await (flight ??= pace.run(refresh).finally(() => (flight = null)));
      }
    }
    return insist(pace, attempt, signal);
  }

  return {
    present,
    another,
    /** A newer pair of a session that storage no longer holds. @throws LatchkeyError */
    newer(pair: Pair): Promise<Pair> {
      pace.check();
      return pace.run(() => refreshedPair(server, pair));
    },
    /** @throws LatchkeyError */
    async fresh(signal?: AbortSignal | null): Promise<Pair> {
      const pair = await present();
      return isFresh(pair) ? pair : another(pair, signal);
    },
  };
}

/** Only then a pair may replace the other: else a logout, a login or another tab was first. */
function isNewer(pair: Pair, held: Pair): boolean {
  return pair.session === held.session && pair.generation > held.generation;
}
