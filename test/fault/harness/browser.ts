import { setTimeout as sleep } from 'node:timers/promises';
import { anAccount, claimsOf, type Pair } from '../../support/client.ts';
import type { Call } from '../../../packages/load/src/exchange.ts';
import type { Answer, Balancer } from './balancer.ts';
import { makeLongLivedUse } from './long-lived-use.ts';
import type { RevokedWatch } from './revoked-watch.ts';
import type { Tally } from './tally.ts';

/** One user's client: tabs that share a storage and follow the protocol (docs/api.md, "Rules for clients"). */
export interface Browser {
  run(): Promise<void>;
  stop(): void;
  /** Number of successful refreshes and logins. */
  renewals(): number;
}

export interface BrowserParts {
  balancer: Balancer;
  watch: RevokedWatch;
  tally: Tally;
  name: string;
  tabs: number;
  /** Waits for Retry-After; other browsers retry at once. */
  isPatient: boolean;
  /** How many of the usual logouts and signups it makes, 0 to 1: each costs a hash. */
  hashing?: number | undefined;
}

/** A session as stored. */
interface Session {
  pair: Pair;
  /** A tab has asked for its end, and the other tabs know. */
  isEnding: boolean;
  isRevoked: boolean;
  /** Its access token was refused: time to refresh. */
  isStale: boolean;
  /** Refreshes in flight, from any tab. */
  refreshing: number;
  /** No refresh was sent or in flight since this pair was stored, so it is the newest ever issued. */
  isNewest: boolean;
}

/** Retries until the answer is other than "try again"; null if the browser was closed before. */
export type Insist = (call: () => Call) => Promise<(Answer & { tries: number }) | null>;

/** The pause between two requests, and before a retry of an impatient client; milliseconds. */
const PAUSE = { min: 50, max: 150 };

export function makeBrowser({
  balancer,
  watch,
  tally,
  name,
  tabs,
  isPatient,
  hashing = 1,
}: BrowserParts): Browser {
  const account = anAccount();
  const longLived = makeLongLivedUse({ insist, watch, tally, device: name });
  let session: Session | null = null;
  let signingIn: Promise<void> | null = null;
  let isStopped = false;
  let renewals = 0;

  async function insist(call: () => Call): ReturnType<Insist> {
    for (let tries = 1; !isStopped; tries++) {
      if (tries > 1) tally.retries++;
      const answer = await balancer.send({ ...call(), userAgent: name });
      if (answer.status !== 0 && answer.status !== 429 && answer.status < 500) return { ...answer, tries };
      const wait = isPatient ? answer.retryAfter * 1000 : 0;
      await pause(wait);
    }
    return null;
  }

  async function signUp(): Promise<Pair | null> {
    const newcomer = session ? anAccount() : account;
    const answer = await insist(() => ({ method: 'POST', path: '/api/auth/signup', body: newcomer }));
    if (answer?.status === 200) return answer.body as Pair;
    if (!answer) return null;
    // An earlier try succeeded and its answer was lost: the account exists.
    if (answer.status !== 400 || answer.tries === 1) problem(`a signup was answered ${answer.status}`);
    return logIn(newcomer);
  }

  async function logIn({ username, password }: { username: string; password: string }): Promise<Pair | null> {
    const answer = await insist(() => ({ method: 'POST', path: '/api/auth', body: { username, password } }));
    if (answer?.status === 200) return answer.body as Pair;
    if (answer) problem(`a right password was answered ${answer.status}`);
    return null;
  }

  async function signIn(how: () => Promise<Pair | null>): Promise<void> {
    const pair = await how();
    if (!pair) return;
    session = { pair, isEnding: false, isRevoked: false, isStale: false, refreshing: 0, isNewest: true };
    renewals++;
  }

  async function refresh(mine: Session): Promise<void> {
    mine.refreshing++;
    mine.isNewest = false;
    // Reads the storage at each try: another tab may have stored a newer pair meanwhile.
    const answer = await insist(() => ({
      method: 'GET',
      path: '/api/auth/refresh',
      token: mine.pair.refresh_token,
    }));
    mine.refreshing--;
    if (answer?.status === 200) keep(mine, answer.body as Pair);
    else if (answer && isRefused(answer) && !mine.isEnding) {
      signedOut(answer, 'the refresh');
      if (session === mine) session = null;
    }
  }

  function keep(mine: Session, pair: Pair): void {
    renewals++;
    if (mine.isRevoked) watch.add(pair.access_token, pair.refresh_token);
    if (generationOf(pair) <= generationOf(mine.pair)) return;
    mine.pair = pair;
    mine.isStale = false;
    mine.isNewest = mine.refreshing === 0;
  }

  /** Uses the access token. */
  async function use(mine: Session, path: string): Promise<void> {
    const { pair } = mine;
    const answer = await insist(() => ({ method: 'GET', path, token: pair.access_token }));
    if (!answer || !isRefused(answer) || mine.pair !== pair) return;
    if (mine.isNewest && !mine.isEnding) signedOut(answer, path);
    // The answer to a refresh may have been lost; then this token has ended, and the next refresh decides.
    mine.isStale = true;
  }

  function signedOut(answer: Answer, where: string): void {
    tally.signOuts++;
    problem(`signed out by ${answer.status} ${codeOf(answer)} at ${where}`);
  }

  async function logOut(mine: Session): Promise<void> {
    mine.isEnding = true;
    const { pair } = mine;
    const answer = await insist(() => ({ method: 'DELETE', path: '/api/auth', token: pair.access_token }));
    if (!answer) return;
    if (answer.status !== 200) problem(`a logout was answered ${answer.status}`);
    else {
      mine.isRevoked = true;
      watch.add(mine.pair.access_token, mine.pair.refresh_token);
    }
    if (session === mine) session = null;
  }

  async function step(): Promise<void> {
    if (!session) {
      await (signingIn ??= signIn(() => logIn(account)).finally(() => (signingIn = null)));
      return;
    }
    const dice = Math.random();
    if (session.isEnding) return;
    if (session.isStale) await refresh(session);
    else if (dice < 0.08 && Math.random() >= hashing) await use(session, '/api/auth/verify');
    else if (dice < 0.06) await logOut(session);
    else if (dice < 0.08) await signUp();
    else if (dice < 0.38) await refresh(session);
    else if (dice < 0.42) session.isStale ||= !(await longLived.create(session.pair.access_token));
    else if (dice < 0.45) await longLived.remove();
    else if (dice < 0.52) await longLived.use();
    else if (dice < 0.55) await use(session, '/api/user');
    else await use(session, '/api/auth/verify');
  }

  async function tab(): Promise<void> {
    while (!isStopped) {
      await step();
      await pause(0);
    }
  }

  function problem(text: string): void {
    tally.problems.push(text);
  }

  return {
    async run() {
      await signIn(signUp);
      await Promise.all(Array.from({ length: tabs }, tab));
    },
    stop() {
      isStopped = true;
    },
    renewals: () => renewals,
  };
}

function pause(atLeast: number): Promise<void> {
  return sleep(Math.max(atLeast, PAUSE.min + Math.random() * (PAUSE.max - PAUSE.min)));
}

function isRefused({ status }: Answer): boolean {
  return status === 401 || status === 403;
}

function generationOf({ access_token }: Pair): number {
  return Number(claimsOf(access_token).gen);
}

/** The problem's code. */
export function codeOf({ body }: Answer): string {
  return (body as { code?: string } | null)?.code ?? '';
}
