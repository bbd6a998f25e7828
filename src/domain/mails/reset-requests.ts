import type { Sourced } from '../audit/source.ts';
import type { Clock } from '../clock.ts';
import { AuthError, isOutage } from '../errors.ts';
import { fieldError, parseLoginName, parseTry, type LoginName } from '../identifiers.ts';
import type { BoundedQueue, BoundedQueues } from '../limits/bounded.ts';
import type { Budget } from '../limits/budget.ts';
import type { Turn } from '../passwords/bulkhead.ts';
import { makeFifo, makeRoundRobin } from '../limits/fair-queue.ts';
import type { MailStore } from './wanted-mail.ts';

/** Requests that wait for their look-up. */
const MAX_RESET_REQUESTS = 1000;

/** For how long one is kept while the database is away, in milliseconds: its user has asked again by then. */
const PATIENCE = 300_000;

/** Seconds: the next look-up begins within this time. */
const RETRY_AFTER = 1;

/** The most characters of a name, as at login. */
const NAME_MAX_LENGTH = 254;

interface ResetRequest {
  name: LoginName;
  turn: Turn;
  /** By Clock.monotonic. */
  since: number;
}

/** Who asks. */
export interface ResetAsker {
  turn: Turn;
  /** The /24 or /48 whose requests are counted together; null if they are not counted. */
  network: string | null;
  from: Sourced;
}

interface ResetRequestPorts {
  mails: Pick<MailStore, 'check' | 'wantReset'>;
  /** RATE_LIMIT_NETWORK, for requests of a network. */
  budget: Budget;
  boundedQueue: BoundedQueues;
  clock: Pick<Clock, 'monotonic'>;
}

export type ResetRequests = ReturnType<typeof makeResetRequests>;

/**
 * Requests for a password reset, which tell nobody whether there is an account. They are answered before the name is
 * looked up, and the look-up runs in a task of its own, so that not even the load of the replica follows a request.
 *
 * Look-ups take turns by network and address, and the network with most requests gives way in a full queue, so that no
 * network keeps the others' out.
 */
export function makeResetRequests({ mails, budget, boundedQueue, clock }: ResetRequestPorts) {
  /**
   * By network and the name's canonical form: how fast a queue of one name empties would tell of its account, and a
   * stranger's request must not take the place of the owner's.
   */
  const waiting: BoundedQueue<string, ResetRequest> = boundedQueue({
    queue: 'reset_requests',
    most: MAX_RESET_REQUESTS,
    patience: PATIENCE,
    makeRoom: ({ turn }) => {
      const loser = loserTo(turn);
      return loser !== undefined && waiting.drop(keyOf(loser));
    },
    onDrop: (request) => {
      turns.remove(request.turn, request);
    },
  });
  const turns = makeRoundRobin(() => makeRoundRobin(() => makeFifo<ResetRequest>()));

  /** Undefined if the new request is of the network with most. */
  function loserTo(turn: Turn): ResetRequest | undefined {
    const loser = turns.loserTo(turn);
    return loser?.turn[0] === turn[0] ? undefined : loser;
  }

  /** @returns false if there is no room for it. */
  function enqueue(request: ResetRequest): boolean {
    const { turn, since } = request;
    if (!waiting.set(keyOf(request), request, since)) return false;
    turns.add(turn, request);
    return true;
  }

  return {
    /**
     * Takes the name of any text that a login takes. A killed replica forgets it.
     * @throws AuthError `validation_failed`, `rate_limited`, `overloaded`, `unavailable`
     */
    add: async (username: string, { turn, network, from }: ResetAsker): Promise<void> => {
      const tried = parseTry(username, NAME_MAX_LENGTH);
      if (!tried.ok) throw new AuthError('validation_failed', { errors: [fieldError('/username', tried)] });
      await budget({ network }, from, async () => {
        await mails.check();
        const name = parseLoginName(username);
        const request = name && { name, turn, since: clock.monotonic() };
        // A full queue refuses a name that waits, and one that no account can have, as it does all others.
        const hasRoom =
          request && !waiting.get(keyOf(request))
            ? enqueue(request)
            : !waiting.isFull() || loserTo(turn) !== undefined;
        if (!hasRoom) throw new AuthError('overloaded', { retryAfter: RETRY_AFTER });
      });
    },

    /**
     * Looks up what waits. A name is kept while the database is away.
     * @param most names: how fast a long queue empties would tell how many of them have accounts.
     * @throws AuthError `unavailable`
     */
    work: async (most = MAX_RESET_REQUESTS): Promise<void> => {
      // What arrives meanwhile waits for the next call.
      for (let left = Math.min(most, waiting.size()); left > 0; left--) {
        const request = turns.takeNext();
        if (!request) return;
        waiting.delete(keyOf(request));
        try {
          await mails.wantReset(request.name);
        } catch (error) {
          // At the end of its line: neither a bug nor a locked row of one name may hold up the others. Its network may
          // have asked for the name again meanwhile.
          if (isOutage(error) && !waiting.get(keyOf(request))) enqueue(request);
          throw error;
        }
      }
    },

    /** How many requests wait. */
    size: () => waiting.size(),
  };
}

function keyOf({ name, turn: [network] }: ResetRequest): string {
  return JSON.stringify([network, name]);
}
