import { Agent } from 'undici';
import type { Pair } from './pair.ts';
import { exchange, type Call } from './exchange.ts';

/** The outcome of one request. */
export interface Reply {
  /** 0 without an answer. */
  status: number;
  /** `ok`; the status with the code of the problem; or why there is no answer. */
  code: string;
  /** Seconds of Retry-After; 0 if it is absent or a date. */
  retryAfter: number;
  /** X-Auth-User of a verify; null if absent. */
  user: string | null;
  /** Parsed JSON, or null. */
  body: unknown;
}

export interface Wire {
  /** @param loseAfter milliseconds after which the client closes the connection, and forgets an answer that came. */
  send(call: Call, loseAfter?: number): Promise<Reply>;
  close(): Promise<void>;
}

/** The code of an answer that a device lost on purpose. */
export const LOST = 'lost on purpose';

/** The code of a request that got no answer in time. */
export const TIMED_OUT = 'timeout';

/** Milliseconds; a person has given up by then. */
export const TIMEOUT = 10_000;

/** Sends requests over keep-alive connections. Requests wait if all are busy, and their latency includes the wait. */
export function makeWire(origin: string, connections: number): Wire {
  const agent = new Agent({
    connections,
    headersTimeout: TIMEOUT,
    bodyTimeout: TIMEOUT,
    connect: { timeout: TIMEOUT },
  });
  return {
    async send(call, loseAfter) {
      if (loseAfter !== undefined) return lose(call, loseAfter);
      try {
        const { status, retryAfter, user, text } = await exchange(agent, origin, call);
        const body = parsed(text);
        if (status === 200 && mustBePair(call) && !isPair(body))
          return noAnswer('200 without tokens or user');
        return { status, code: codeOf(status, body), retryAfter, user, body };
      } catch (error) {
        return noAnswer(reasonOf(error));
      }
    },
    close: () => agent.destroy(),
  };

  async function lose(call: Call, after: number): Promise<Reply> {
    const closing = new AbortController();
    const timer = setTimeout(() => {
      closing.abort();
    }, after);
    await exchange(agent, origin, call, closing.signal).catch(() => undefined);
    clearTimeout(timer);
    return noAnswer(LOST);
  }
}

/** A proxy's own page may come with 200. */
function mustBePair({ method, path }: Call): boolean {
  return (
    (method === 'POST' && (path === '/api/auth' || path === '/api/auth/signup')) ||
    path === '/api/auth/refresh'
  );
}

function isPair(body: unknown): boolean {
  const { access_token: access, refresh_token: refresh, user } = (body ?? {}) as Partial<Pair>;
  return (
    typeof access === 'string' &&
    typeof refresh === 'string' &&
    typeof user?.id === 'number' &&
    typeof user.username === 'string'
  );
}

function noAnswer(code: string): Reply {
  return { status: 0, code, retryAfter: 0, user: null, body: null };
}

function codeOf(status: number, body: unknown): string {
  if (status === 200) return 'ok';
  const { code } = (body ?? {}) as { code?: unknown };
  return typeof code === 'string' ? `${status} ${code}` : String(status);
}

/** A proxy in front of the service may answer with a page of its own. */
function parsed(text: string): unknown {
  if (text === '') return null;
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function reasonOf(error: unknown): string {
  const { code = 'unknown' } = error as NodeJS.ErrnoException;
  return code.includes('TIMEOUT') ? TIMED_OUT : `no answer (${code})`;
}
