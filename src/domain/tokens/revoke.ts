import type { TokenKey } from '../principal.ts';
import type { Clock } from '../clock.ts';
import { AuthError } from '../errors.ts';
import type { BoundedQueue, BoundedQueues } from '../limits/bounded.ts';
import type { LaneTurn } from '../limits/lanes.ts';
import type { TokenStateStore } from './token-state-store.ts';
import type { Revocation, RevocationStore, Revoked, TokenStore } from './ports.ts';
import type { TokenRecord } from './token-record.ts';

/** Called when a token has ended on record, before the fast store knows. Not called for a repeat. */
type OnRecorded = () => void;

interface RevokePorts {
  tokenStates: Pick<TokenStateStore, 'revoke'>;
  tokens: Pick<TokenStore, 'revoke' | 'revokeByCaller' | 'revokeMany'>;
  revocations: Pick<RevocationStore, 'settle'>;
  clock: Clock;
  /** Resolves once this tick of the event loop has read all its requests. */
  endOfTick: () => Promise<void>;
  /** Resolves after some milliseconds. */
  pause: (ms: number) => Promise<unknown>;
  boundedQueue: BoundedQueues;
  /** DATABASE_TIMEOUT: how long a request may wait for its commit to begin, in milliseconds. */
  patience: number;
}

interface Asked extends Revocation {
  /** In the lane of the account, if it has to wait for the row. */
  turn: LaneTurn;
  onRecorded: OnRecorded | undefined;
}

/** A request that is not answered. */
interface Waiting extends Asked {
  /** By Clock.monotonic. */
  since: number;
  /** Both once a commit has taken it. */
  resolve: (isKnown: boolean) => void;
  reject: (cause: unknown) => void;
  /** While it waits for a commit. */
  giveUp: () => void;
}

interface Recorded {
  each: Waiting;
  outcome: Revoked;
}

/** Requests that may be open: a few seconds of commits. */
const MAX_REVOCATIONS = 5000;
/** How many of them one account may have open, and how many one of its tokens: nobody fills the queue alone. */
const OF_ACCOUNT = 500;
export const OF_TOKEN = 100;
/** Seconds: what is open is answered before that, unless a store is slow. */
const RETRY_AFTER = 1;
/** Marks that may wait to be settled. */
const MAX_MARKS = 10_000;
/** The most rows of one commit. */
const BATCH = 500;
/** Milliseconds between two tries with a row that another transaction holds: most are held for less. */
const RETRY = 25;
/** Milliseconds after which such a request waits for the row itself. */
const RETRIED = 1000;

/**
 * Ends tokens for good: first in the record, so that no rebuild can bring them back, then in the fast store, so that
 * every replica refuses them from now on. A request succeeds only after both, and a repeat is safe. Requests that arrive
 * while a commit is under way share the next one, its call for their tombstones, and the entry in the feed. The marks in
 * the outbox go behind the answers; a sweep repeats what a killed replica had not settled. While the database hangs, each
 * commit takes until its timeout, so a request that waits for longer than one gives up: its client has to try again.
 *
 * An account and each of its tokens have only a share of the open requests, services excepted: a loop of one account must
 * not refuse the logouts of others, nor one of a stolen token those that the owner asks for with another.
 */
export function makeRevokeTokens(ports: RevokePorts) {
  const { tokenStates, tokens, revocations, clock, endOfTick, pause, boundedQueue } = ports;
  /** Requests that a commit has taken: they are not answered yet, or come back to the line. */
  let begun = 0;
  const takePlaces = makePlaces();
  const line = boundedQueue<Waiting, Waiting>({
    queue: 'revocations',
    most: MAX_REVOCATIONS,
    patience: ports.patience,
    beside: () => begun,
    onDrop: ({ giveUp }) => {
      giveUp();
    },
  });
  let isCommitting = false;
  const unsettled = boundedQueue<number, number>({ queue: 'marks', most: MAX_MARKS, patience: null });
  let settling: Promise<void> | null = null;

  async function request(asked: Asked): Promise<boolean> {
    const leave = takePlaces(sharesOf(asked));
    try {
      return await answerOf(asked);
    } finally {
      leave();
    }
  }

  function answerOf(asked: Asked): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const answer =
        <Value>(tell: (value: Value) => void) =>
        (value: Value) => {
          begun--;
          tell(value);
        };
      enqueue({
        ...asked,
        since: clock.monotonic(),
        resolve: answer(resolve),
        reject: answer(reject),
        giveUp: () => {
          reject(new AuthError('unavailable'));
        },
      });
    });
  }

  function enqueue(each: Waiting): void {
    if (!line.set(each, each)) each.giveUp();
    else if (!isCommitting) void commitAll();
  }

  async function commitAll(): Promise<void> {
    isCommitting = true;
    await endOfTick();
    while (line.size() > 0) {
      const batch = takeBatch(line);
      begun += batch.length;
      await commit(batch);
    }
    isCommitting = false;
  }

  async function commit(batch: readonly Waiting[]): Promise<void> {
    try {
      const outcomes = await tokens.revokeMany(batch, clock.now());
      const recorded: Recorded[] = [];
      const locked: Waiting[] = [];
      batch.forEach((each, i) => {
        const outcome = outcomes[i] ?? null;
        if (outcome === null) each.resolve(false);
        else if (outcome instanceof AuthError) each.reject(outcome);
        else if (outcome !== 'locked') recorded.push({ each, outcome });
        else if (clock.monotonic() - each.since < RETRIED) locked.push(each);
        else void revokeAlone(each);
      });
      // The next commit need not wait for these.
      void complete(recorded);
      if (locked.length > 0)
        void pause(RETRY).then(() => {
          begun -= locked.length;
          locked.forEach(enqueue);
        });
    } catch (cause) {
      for (const { reject } of batch) reject(cause);
    }
  }

  /** A row that is held for long: no other request waits for it. */
  async function revokeAlone(each: Waiting): Promise<void> {
    const { key, caller, type, turn, resolve, reject } = each;
    try {
      const outcome = await (caller === null
        ? tokens.revoke(key.userId, key.tokenId, clock.now(), type, 'logout', turn)
        : tokens.revokeByCaller({ userId: key.userId, tokenId: caller }, key.tokenId, clock.now(), type));
      if (outcome === null) resolve(false);
      else await complete([{ each, outcome }]);
    } catch (cause) {
      reject(cause);
    }
  }

  /**
   * Second half of revocations that are on record. If it fails, the next sweep sets the tombstones again. A repeat of a
   * finished one sets none: an account in a loop must not fill the fast store with tombstones of all its ended tokens.
   */
  async function complete(recorded: readonly Recorded[]): Promise<void> {
    const ended = new Set<number>();
    const open = recorded.filter(({ outcome }) => outcome !== 'finished').map(({ each }) => each);
    try {
      for (const { each, outcome } of recorded) if (outcome === 'finished') each.resolve(true);
      for (const { each, outcome } of recorded) {
        if (outcome === 'now' && !ended.has(each.key.tokenId)) each.onRecorded?.();
        ended.add(each.key.tokenId);
      }
      if (open.length === 0) return;
      await tokenStates.revoke(...open.map(({ key }) => key));
    } catch (cause) {
      for (const { reject } of open) reject(cause);
      return;
    }
    for (const { resolve } of open) resolve(true);
    for (const { key } of open) unsettled.set(key.tokenId, key.tokenId);
    settling ??= settleAll();
  }

  async function settleAll(): Promise<void> {
    // What finishes in this tick is settled together.
    await endOfTick();
    while (unsettled.size() > 0) {
      // If it fails, the sweep settles them, as it does those that had no room.
      await revocations.settle(unsettled.takeAll()).catch(() => undefined);
    }
    settling = null;
  }

  return {
    /**
     * For owners who present this very token, and for registered services.
     * @param turn that of who ends the token in hand, by default.
     * @returns false when the user has no such token. @throws AuthError `rate_limited`, `unavailable`
     */
    revoke: (
      userId: number,
      tokenId: number,
      type?: TokenRecord['type'],
      onRecorded?: OnRecorded,
      turn: LaneTurn = { ending: tokenId },
    ) => request({ key: { userId, tokenId }, caller: null, type, turn, onRecorded }),

    /**
     * For an owner who presents another token, which must still be good at this moment.
     * @returns as `revoke`. @throws AuthError `invalid_token` (the caller's token has ended meanwhile), `rate_limited`,
     * `unavailable`
     */
    revokeByCaller: (
      caller: TokenKey,
      tokenId: number,
      type?: TokenRecord['type'],
      onRecorded?: OnRecorded,
    ) =>
      request({
        key: { userId: caller.userId, tokenId },
        caller: caller.tokenId,
        type,
        turn: { token: caller.tokenId },
        onRecorded,
      }),

    /** Resolves once no mark waits to be settled. */
    settled: async () => {
      await settling;
    },
  };
}

type RevokeTokens = ReturnType<typeof makeRevokeTokens>;
export type Revoke = RevokeTokens['revoke'];
export type RevokeByCaller = RevokeTokens['revokeByCaller'];

type Share = readonly [holder: string, most: number];

function sharesOf({ key: { userId }, turn }: Asked): Share[] {
  if (turn === 'service') return [];
  return [
    [String(userId), OF_ACCOUNT],
    [JSON.stringify([userId, turn]), OF_TOKEN],
  ];
}

/** Counts the open requests of each holder. */
function makePlaces() {
  const taken = new Map<string, number>();
  const add = (holder: string, count: number) => {
    const sum = (taken.get(holder) ?? 0) + count;
    if (sum > 0) taken.set(holder, sum);
    else taken.delete(holder);
  };

  /** @returns what gives the places back. @throws AuthError `rate_limited`, as a full lane does */
  return (shares: readonly Share[]): (() => void) => {
    if (shares.some(([holder, most]) => (taken.get(holder) ?? 0) >= most))
      throw new AuthError('rate_limited', { reason: 'lane', retryAfter: RETRY_AFTER });
    for (const [holder] of shares) add(holder, 1);
    return () => {
      for (const [holder] of shares) add(holder, -1);
    };
  };
}

/**
 * Takes the requests of the next commit. A request whose caller ends in this commit stays: in the one after it, its
 * caller is not good any more.
 */
function takeBatch(line: BoundedQueue<Waiting, Waiting>): Waiting[] {
  const ending = new Set<number | null>();
  const batch: Waiting[] = [];
  for (const [each] of line.entries()) {
    if (batch.length < BATCH && !ending.has(each.caller)) batch.push(each);
    ending.add(each.key.tokenId);
  }
  for (const each of batch) line.delete(each);
  return batch;
}
