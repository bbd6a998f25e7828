import { Agent } from 'undici';
import { exchange, type Call } from '../../../packages/load/src/exchange.ts';
import type { Tally } from './tally.ts';

/** The balancer's view of a replica. */
export interface Backend {
  url: string;
  /** Whether the replica gets new requests; a balancer that checks readiness removes it before it exits. */
  inRotation: boolean;
}

export interface Answer {
  /** 0 if the connection was lost before an answer. */
  status: number;
  /** Seconds of Retry-After; 0 if absent. */
  retryAfter: number;
  /** X-Auth-Roles; null if absent. */
  roles: string | null;
  body: unknown;
}

export interface Balancer {
  /** Milliseconds that an answer may take at present. */
  bound: number;
  send(call: Call): Promise<Answer>;
  /** Sends to this replica only. */
  sendTo(backend: Backend, call: Call): Promise<Answer>;
  close(): Promise<void>;
}

/** Every status that a well-formed request may get (contract, section 2). */
const STATUSES = new Set([200, 400, 401, 403, 404, 429, 503]);

/** Longer than any bound: a request that takes this long hangs. Milliseconds. */
const PATIENCE = 20_000;

const NO_ANSWER: Answer = { status: 0, retryAfter: 0, roles: null, body: null };

/** Number of recorded problems that are kept. */
const MAX_KEPT = 20;

/**
 * Sends requests to the replicas in turn, skips replicas that refuse the connection, and judges every answer.
 * @param ca of the replicas' certificates, PEM.
 */
export function makeBalancer(backends: readonly Backend[], tally: Tally, ca?: string): Balancer {
  const agent = new Agent({
    // The client closes idle connections before a draining server closes them under a request.
    keepAliveTimeout: 500,
    keepAliveMaxTimeout: 500,
    headersTimeout: PATIENCE,
    ...(ca !== undefined && { connect: { ca } }),
  });
  let turn = 0;

  function judge(call: Call, { status, retryAfter }: Answer, took: number): void {
    const what = `${call.method} ${call.path.replace(/\d+/, '{id}')}`;
    const when = `after ${tally.requests} requests`;
    if (took > tally.slowest.took) tally.slowest = { took, what: `${what}: ${status} ${when}` };
    if (!STATUSES.has(status)) tally.problems.push(`${what} was answered ${status}`);
    if (status === 503 && !(retryAfter >= 1)) tally.problems.push(`${what}: 503 without Retry-After`);
    if (took > balancer.bound) {
      const late = `${Math.round(took)} ms, limit ${balancer.bound} ms`;
      tally.problems.push(`${what}: ${status} took ${late}, ${when}`);
    }
  }

  function noteUnavailable({ method, path }: Call, { body }: Answer): void {
    if (tally.unavailable.length >= MAX_KEPT) return;
    tally.unavailable.push(`${method} ${path}: ${(body as { code?: string } | null)?.code ?? ''}`);
  }

  /** @returns null if no connection was made, so that no bytes were sent. */
  async function tryOne(backend: Backend, call: Call): Promise<Answer | null> {
    if (call.method === 'POST') tally.openings++;
    const since = performance.now();
    try {
      const { text, ...rest } = await exchange(agent, backend.url, call);
      const answer = { ...rest, body: text === '' ? null : (JSON.parse(text) as unknown) };
      judge(call, answer, performance.now() - since);
      return answer;
    } catch (error) {
      const { code = '' } = error as NodeJS.ErrnoException;
      if (code === 'UND_ERR_HEADERS_TIMEOUT') {
        tally.problems.push(`${call.path} hangs, after ${tally.requests} requests`);
      }
      if (code === 'ECONNREFUSED') return null;
      return NO_ANSWER;
    }
  }

  const balancer: Balancer = {
    bound: PATIENCE,
    async send(call) {
      tally.requests++;
      const first = turn++;
      for (let tried = 0; tried < backends.length; tried++) {
        const backend = backends[(first + tried) % backends.length];
        if (!backend?.inRotation) continue;
        const answer = await tryOne(backend, call);
        if (answer?.status === 0) tally.lost++;
        if (answer?.status === 503) noteUnavailable(call, answer);
        if (answer) return answer;
      }
      return NO_ANSWER;
    },
    async sendTo(backend, call) {
      return (await tryOne(backend, call)) ?? NO_ANSWER;
    },
    close: () => agent.destroy(),
  };
  return balancer;
}
