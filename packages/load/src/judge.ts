import { claimsOf, type Pair } from './pair.ts';

/** Broken promises. All must be 0. */
export interface Correctness {
  /** Refreshes that were answered 401 or 403 although the device had kept the rules of the protocol. */
  sign_outs: number;
  /** Ids that were issued twice: of users, sessions, and pairs (session and generation). */
  duplicate_ids: number;
  /** Ended tokens that were answered 200: logged out, or an access token older than the newest pair. */
  revoked_accepted: number;
  /** Good tokens that a verify refused: the newest access token of a session, long before its expiry. */
  good_refused: number;
  /** Answers about another user: a pair's `user`, a token's `sub`, or X-Auth-User of a verify. */
  wrong_user: number;
}

/** Compares what the devices see with what the contract promises. */
export interface Judge {
  /** A login or a signup has opened a session. @param username who logged in or signed up. */
  opened(device: string, username: string, pair: Pair): void;
  /** A new account. */
  signedUp(userId: number): void;
  /** A refresh was answered 200. @param presented the pair that the device held before. */
  refreshed(device: string, presented: Pair, pair: Pair): void;
  /** A verify was answered 200. @param given X-Auth-User; null if absent. */
  verified(device: string, userId: number, given: string | null): void;
  /** A refresh was refused. */
  signedOut(device: string, code: string): void;
  /** An ended token was presented again. */
  triedEnded(what: string, isAccepted: boolean): void;
  /** A verify has answered a token that is surely good. */
  triedGood(what: string, refusal: string | null): void;
  correctness(): Correctness;
  /** How much was judged: 0 broken promises of 0 would say nothing. */
  judged(): Judged;
  /** The usernames that were seen, by the user's id. */
  users(): ReadonlyMap<number, string>;
  /** The first broken promises. */
  findings(): readonly Finding[];
}

export interface Finding {
  /** When this process noticed it, RFC 3339: the service's log of that moment says more. */
  at: string;
  promise: keyof Correctness;
  /** In words, without tokens. */
  text: string;
}

/** One line. */
export function findingText({ at, promise, text }: Finding): string {
  return `${at} ${promise}: ${text}`;
}

export interface Judged {
  pairs_issued: number;
  refreshes: number;
  ended_tokens_tried: number;
  good_tokens_tried: number;
}

interface Issued {
  device: string;
  username: string;
  /** The newest generation, and the one that was presented for it. */
  latest: number;
  presented: number;
}

const MAX_FINDINGS = 50;

/** @param now milliseconds since 1970 */
export function makeJudge(now: () => number = Date.now): Judge {
  // One entry for each session: the service promises that generations of a session only grow.
  const sessions = new Map<number, Issued>();
  const created = new Set<number>();
  /** Names by id. A name has one id, and an id one name. */
  const names = new Map<number, string>();
  const ids = new Map<string, number>();
  const broken: Correctness = {
    sign_outs: 0,
    duplicate_ids: 0,
    revoked_accepted: 0,
    good_refused: 0,
    wrong_user: 0,
  };
  const judged: Judged = { pairs_issued: 0, refreshes: 0, ended_tokens_tried: 0, good_tokens_tried: 0 };
  const findings: Finding[] = [];
  const find = (promise: keyof Correctness, text: string) => {
    broken[promise]++;
    if (findings.length < MAX_FINDINGS) findings.push({ at: new Date(now()).toISOString(), promise, text });
  };

  /** An id of a token names its session and generation, so unique sessions and generations make it unique. */
  function idOf(pair: Pair): { session: number; generation: number } {
    const [access, refresh] = [claimsOf(pair.access_token), claimsOf(pair.refresh_token)];
    const [session, generation] = [Number(access.sid), Number(access.gen)];
    for (const { jti } of [access, refresh])
      if (jti !== `${session}.${generation}`)
        find('duplicate_ids', `a token of pair ${session}.${generation} has the id ${String(jti)}`);
    return { session, generation };
  }

  /** The name of a user whom the kit does not know stays out of the findings. */
  function checkOwner(device: string, username: string, pair: Pair): void {
    const { id, username: given } = pair.user;
    const subjects = [pair.access_token, pair.refresh_token].map((token) => claimsOf(token).sub);
    if (given !== username) find('wrong_user', `${device} of ${username} got a pair of user ${id}`);
    else if (subjects.some((each) => each !== String(id)))
      find('wrong_user', `a token of user ${id} for ${device} names user ${subjects.join(' and ')}`);
    else if ((names.get(id) ?? username) !== username || (ids.get(username) ?? id) !== id)
      find('wrong_user', `${device} of ${username} got user ${id}, who was another one before`);
    else {
      names.set(id, username);
      ids.set(username, id);
    }
  }

  return {
    opened(device, username, pair) {
      judged.pairs_issued++;
      const { session, generation } = idOf(pair);
      checkOwner(device, username, pair);
      const known = sessions.get(session);
      if (known)
        find('duplicate_ids', `session ${session} of ${known.device} was opened again for ${device}`);
      sessions.set(session, { device, username, latest: generation, presented: 0 });
    },
    signedUp(userId) {
      if (created.has(userId)) find('duplicate_ids', `user ${userId} was created twice`);
      created.add(userId);
    },
    refreshed(device, presented, pair) {
      judged.pairs_issued++;
      judged.refreshes++;
      const { session, generation } = idOf(pair);
      const held = generationOf(presented);
      const known = sessions.get(session);
      if (known?.device !== device) {
        find(
          'duplicate_ids',
          `session ${session} of ${known?.device ?? 'no device'} was issued to ${device}`,
        );
        return;
      }
      checkOwner(device, known.username, pair);
      // A retry may get the same pair again, for the same token only.
      if (generation === known.latest && held === known.presented) return;
      if (generation <= known.latest)
        find('duplicate_ids', `pair ${session}.${generation} was issued after ${session}.${known.latest}`);
      sessions.set(session, { ...known, latest: generation, presented: held });
    },
    verified(device, userId, given) {
      if (given !== String(userId))
        find(
          'wrong_user',
          `a verify for ${device} of user ${userId} named ${given === null ? 'no user' : `user ${given}`}`,
        );
    },
    signedOut(device, code) {
      judged.refreshes++;
      find('sign_outs', `${device} was signed out: ${code}`);
    },
    triedEnded(what, isAccepted) {
      judged.ended_tokens_tried++;
      if (isAccepted) find('revoked_accepted', `${what} was accepted`);
    },
    triedGood(what, refusal) {
      judged.good_tokens_tried++;
      if (refusal !== null) find('good_refused', `${what} was refused: ${refusal}`);
    },
    correctness: () => ({ ...broken }),
    judged: () => ({ ...judged }),
    users: () => names,
    findings: () => findings,
  };
}

export function generationOf(pair: Pair): number {
  return Number(claimsOf(pair.access_token).gen);
}
