import { setTimeout as sleep } from 'node:timers/promises';
import { headerOf } from '../../support/client.ts';
import type { Backend, Balancer } from './balancer.ts';
import type { Tally } from './tally.ts';

/** Tries every revoked token repeatedly on every replica. */
export interface RevokedWatch {
  /** @param tokens whose revocation has been answered 200: access, refresh or long-lived. */
  add(...tokens: string[]): void;
  start(): void;
  stop(): Promise<void>;
}

/** Milliseconds between two tries. */
const PAUSE = 10;

export function makeRevokedWatch(
  balancer: Balancer,
  backends: readonly Backend[],
  tally: Tally,
): RevokedWatch {
  const fresh: string[] = [];
  const seen: string[] = [];
  let isStopped = false;
  let running = Promise.resolve();

  async function tryEverywhere(token: string): Promise<void> {
    const path = headerOf(token).typ === 'rt+jwt' ? '/api/auth/refresh' : '/api/auth/verify';
    for (const backend of backends) {
      const { status } = await balancer.sendTo(backend, { method: 'GET', path, token });
      tally.revokedTried++;
      if (status === 200) {
        tally.revokedAccepted++;
        tally.problems.push(`a revoked token was accepted at ${path}`);
      }
    }
  }

  async function run(): Promise<void> {
    let next = 0;
    while (!isStopped) {
      // The newest first: a replica would forget a revocation right after it.
      const token = fresh.pop() ?? seen[next++ % seen.length];
      if (token !== undefined) await tryEverywhere(token);
      await sleep(PAUSE);
    }
  }

  return {
    add(...tokens) {
      fresh.push(...tokens);
      seen.push(...tokens);
    },
    start() {
      running = run();
    },
    async stop() {
      isStopped = true;
      await running;
    },
  };
}
