import { setTimeout as sleep } from 'node:timers/promises';
import { CLOCK_TOLERANCE } from '../domain/clock.ts';
import { CommandError } from './command.ts';

/** What is asked with the token. */
export interface Target {
  url: URL;
  /** The token is exchanged for it first; null if the service takes users' access tokens. */
  audience: string | null;
}

export interface Issued {
  token: string;
  /** By `performance.now()`: a 401 that comes later may be due to its expiry. */
  goodUntil: number;
}

/** Milliseconds to wait for an answer. */
const ANSWER = 10_000;
/** Milliseconds between two questions to one URL. */
const PAUSE = 200;

/** A step before the measurement did not work, so the drill says nothing about a revocation. */
export class NotRun extends Error {}

/** @throws CommandError if the operator has stopped the drill. */
export function refuseStopped(stop: AbortSignal): void {
  if (stop.aborted) throw new CommandError('the drill was stopped before it was done');
}

/** The requests of a drill, as a client and its user's browser would send them. */
export function makeRequests(latchkey: URL, stop: AbortSignal) {
  /** @returns null without an answer in time. */
  async function send(url: URL, init: RequestInit): Promise<Response | null> {
    refuseStopped(stop);
    try {
      const signal = AbortSignal.any([stop, AbortSignal.timeout(ANSWER)]);
      // Each on a connection of its own, so that a balancer may choose another instance each time. A redirect is an
      // answer: nobody but the URL that the operator has named gets the token.
      const headers = { ...(init.headers as Record<string, string>), connection: 'close' };
      return await fetch(url, { ...init, headers, redirect: 'manual', signal });
    } catch {
      refuseStopped(stop);
      return null;
    }
  }

  /** Asks Latchkey. @throws NotRun if the answer is not 200. */
  async function call(line: string, init: Omit<RequestInit, 'method'>): Promise<Record<string, unknown>> {
    const [method = '', path = ''] = line.split(' ');
    const response = await send(new URL(path, latchkey), { ...init, method });
    if (!response) throw new NotRun(`${line} got no answer from ${latchkey.host}`);
    const body = await response.json().catch(() => null);
    const fields = typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : {};
    if (response.status === 200) return fields;
    const { code } = fields;
    // A code is a word of ours. What else answers there may say anything.
    const word = typeof code === 'string' && /^[a-z_]{1,40}$/.test(code) ? ` ${code}` : '';
    throw new NotRun(`${line} answered ${response.status}${word}`);
  }

  /** @throws NotRun */
  async function issue(line: string, init: Omit<RequestInit, 'method'>): Promise<Issued> {
    const from = performance.now();
    const { access_token: token } = await call(line, init);
    if (typeof token !== 'string') throw new NotRun(`${line} answered 200 without a token`);
    const lifetime = lifetimeOf(token);
    if (lifetime === null) throw new NotRun(`${line} answered 200 with a token that has no expiry`);
    return { token, goodUntil: from + lifetime };
  }

  async function statusOf({ url }: Target, token: string): Promise<number | null> {
    const response = await send(url, { headers: bearer(token) });
    await response?.body?.cancel().catch(() => undefined);
    return response?.status ?? null;
  }

  return {
    /** @returns the access token. @throws NotRun */
    async logIn(username: string, password: string): Promise<Issued> {
      const body = JSON.stringify({ username, password, device: 'latchkey drill' });
      const headers = { 'content-type': 'application/json' };
      return issue('POST api/auth', { headers, body });
    },

    async logOut(token: string): Promise<void> {
      await call('DELETE api/auth', { headers: bearer(token) });
    },

    /** @returns the token for an audience. @throws NotRun */
    async exchange(token: string, audience: string): Promise<Issued> {
      const body = new URLSearchParams({
        grant_type: 'urn:ietf:params:oauth:grant-type:token-exchange',
        subject_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        subject_token: token,
        audience,
      });
      return issue('POST api/auth/token', { headers: bearer(token), body });
    },

    /** @returns the status, from which a later 401 differs. @throws NotRun if the URL shows nothing. */
    async statusBefore(target: Target, token: string): Promise<number> {
      const status = await statusOf(target, token);
      if (status === null) throw new NotRun(`${shown(target)} gave no answer to a good token`);
      const isTelling = (status >= 200 && status < 300) || (status >= 400 && status < 500 && status !== 429);
      if (status === 401 || !isTelling)
        throw new NotRun(`${shown(target)} answered ${status} to a good token`);
      return status;
    },

    /**
     * Asks again and again until the answer is 401.
     * @param deadline by `performance.now()`.
     * @returns the last answer, null if there was none.
     */
    async untilRefused(target: Target, token: string, deadline: number): Promise<number | null> {
      for (;;) {
        const status = await statusOf(target, token);
        if (status === 401 || performance.now() >= deadline) return status;
        await sleep(PAUSE, undefined, { signal: stop }).catch(() => {
          refuseStopped(stop);
        });
      }
    },
  };
}

export type Requests = ReturnType<typeof makeRequests>;

/** Without what may hold a secret. */
export function shown({ url }: Target): string {
  return `${url.origin}${url.pathname}`;
}

/** Milliseconds for which each service takes a new token, also if its clock is ahead; null if it is no JWT. */
function lifetimeOf(token: string): number | null {
  try {
    const payload = Buffer.from(token.split('.')[1] ?? '', 'base64url').toString();
    const { iat, exp } = JSON.parse(payload) as Record<string, unknown>;
    // `iat` is up to a second before the issue.
    return typeof iat === 'number' && typeof exp === 'number'
      ? (exp - iat - 1 - CLOCK_TOLERANCE) * 1000
      : null;
  } catch {
    return null;
  }
}

function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}
