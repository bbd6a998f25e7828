import { claimsOf, type Pair } from './pair.ts';
import type { Call } from './exchange.ts';
import type { Account } from './accounts.ts';
import type { EndedTokens } from './ended-tokens.ts';
import { generationOf, type Judge } from './judge.ts';
import type { Samples } from './samples.ts';
import type { Operation } from './scenarios.ts';
import type { Reply, Wire } from './wire.ts';
import type { Clock } from './schedule.ts';

/** What all devices share. */
export interface DevicePorts {
  wire: Pick<Wire, 'send'>;
  judge: Judge;
  ended: Pick<EndedTokens, 'add'>;
  samples: Pick<Samples, 'record'>;
  clock: Clock;
  /** From 0 to below 1. */
  random: () => number;
  /** Resolves after this many milliseconds, or earlier if the run is over. */
  pause: (ms: number) => Promise<void>;
  isOver: () => boolean;
  /** The share of answers that are lost on purpose. */
  lost: number;
}

/** One user's client. It does one thing at a time, and keeps the rules of the protocol (docs/api.md). */
export interface Device {
  isSignedIn(): boolean;
  /**
   * Does the operation, or first what it needs: a login, or a refresh. Retries as the rules say until the answer is
   * final, or the run is over.
   * @param due when it was to begin, by the clock.
   */
  run(operation: Operation, due: number): Promise<void>;
}

type Final = Reply & { tries: number };

/** A lost answer is lost within this many milliseconds after the request was sent. */
const LOSE_WITHIN = 50;

/** The longest pause before a retry without Retry-After, in milliseconds. It doubles with each try. */
const BACKOFF = { first: 200, longest: 5000 };

/** Seconds before `exp` from which the access token counts as expired. */
const MARGIN = 5;

/** @param pair of a session that the device holds already. */
export function makeDevice(ports: DevicePorts, name: string, account: Account, pair?: Pair): Device {
  const { wire, judge, ended, samples, clock, random } = ports;
  let held = pair ?? null;
  /** The access token was refused: a refresh decides. */
  let isStale = false;
  /**
   * Until then the access token is surely good, by the monotonic clock. A token from before the run has an unknown age.
   * In doubt: a try whose answer was lost may take effect later.
   */
  let goodUntil = 0;
  let isInDoubt = false;

  /** @returns null if the run ended before a final answer. */
  async function insist(operation: Operation, due: number, call: () => Call): Promise<Final | null> {
    for (let tries = 1; ; tries++) {
      const loseAfter = random() < ports.lost ? random() * LOSE_WITHIN : undefined;
      const reply = await wire.send({ ...call(), userAgent: name }, loseAfter);
      const done = clock.monotonic();
      samples.record({ operation, due, done, code: reply.code });
      if (!mustRetry(reply)) return { ...reply, tries };
      const wait = reply.retryAfter > 0 ? reply.retryAfter * 1000 : backoff(tries);
      await ports.pause(wait);
      if (ports.isOver()) return null;
      due = done + wait;
    }
  }

  function backoff(tries: number): number {
    const most = Math.min(BACKOFF.longest, BACKOFF.first * 2 ** (tries - 1));
    return most * (0.5 + random() / 2);
  }

  function open(opened: Pair, sent: number, tries: number): void {
    judge.opened(name, account.username, opened);
    isInDoubt = false;
    hold(opened, sent, tries);
  }

  /** @param sent when its request was sent first: it was issued later. */
  function hold(next: Pair, sent: number, tries: number): void {
    held = next;
    isStale = false;
    isInDoubt ||= tries > 1;
    const { iat, exp } = claimsOf(next.access_token);
    goodUntil = sent + (Number(exp) - Number(iat) - MARGIN) * 1000;
  }

  async function logIn(due: number): Promise<void> {
    const { username, password } = account;
    const body = { username, password, device: name };
    const answer = await insist('login', due, () => ({ method: 'POST', path: '/api/auth', body }));
    if (answer?.status === 200) open(answer.body as Pair, due, answer.tries);
  }

  async function signUp(due: number): Promise<void> {
    const body = { ...account, device: name };
    const answer = await insist('signup', due, () => ({ method: 'POST', path: '/api/auth/signup', body }));
    if (answer?.status === 200) {
      judge.signedUp((answer.body as Pair).user.id);
      open(answer.body as Pair, due, answer.tries);
      // An earlier try succeeded and its answer was lost: the account exists.
    } else if (answer?.status === 400 && answer.tries > 1) await logIn(clock.monotonic());
  }

  async function refresh(before: Pair, due: number): Promise<void> {
    const token = before.refresh_token;
    const answer = await insist('refresh', due, () => ({ method: 'GET', path: '/api/auth/refresh', token }));
    if (answer?.status === 200) {
      const next = answer.body as Pair;
      judge.refreshed(name, before, next);
      if (generationOf(next) <= generationOf(before)) return;
      hold(next, due, answer.tries);
      ended.add({ token: before.access_token, type: 'access', why: 'superseded' });
    } else if (answer && isRefused(answer)) {
      judge.signedOut(name, answer.code);
      held = null;
    } else isInDoubt = true;
  }

  async function verify({ access_token: token, user }: Pair, due: number): Promise<void> {
    const answer = await insist('verify', due, () => ({ method: 'GET', path: '/api/auth/verify', token }));
    if (!answer) return;
    if (answer.status === 200) judge.verified(name, user.id, answer.user);
    if (isRefused(answer)) isStale = true;
    if (!isInDoubt && clock.monotonic() < goodUntil && (isStale || answer.status === 200))
      judge.triedGood(`the newest access token of ${name}`, isStale ? answer.code : null);
  }

  async function logOut(before: Pair, due: number): Promise<void> {
    const token = before.access_token;
    isInDoubt = true;
    const answer = await insist('logout', due, () => ({ method: 'DELETE', path: '/api/auth', token }));
    if (answer?.status === 200) {
      held = null;
      ended.add({ token: before.refresh_token, type: 'refresh', why: 'logged out' });
      ended.add({ token, type: 'access', why: 'logged out' });
    } else if (answer && isRefused(answer)) isStale = true;
  }

  function isUsable({ access_token }: Pair): boolean {
    return !isStale && Number(claimsOf(access_token).exp) - MARGIN > clock.now() / 1000;
  }

  return {
    isSignedIn: () => held !== null,
    run(operation, due) {
      if (operation === 'signup') return signUp(due);
      if (operation === 'login' || !held) return logIn(due);
      if (operation === 'refresh' || !isUsable(held)) return refresh(held, due);
      return operation === 'verify' ? verify(held, due) : logOut(held, due);
    },
  };
}

/** No answer, and every answer that does not decide. */
function mustRetry({ status }: Reply): boolean {
  return status === 0 || status === 429 || status >= 500;
}

function isRefused({ status }: Reply): boolean {
  return status === 401 || status === 403;
}
