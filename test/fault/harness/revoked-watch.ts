import { setTimeout as sleep } from 'node:timers/promises';
import { headerOf } from '../../support/client.ts';
import type { Backend, Balancer } from './balancer.ts';
import type { Tally } from './tally.ts';

/** Tries every revoked token repeatedly on every replica, and tokens of users whose roles were removed. */
export interface RevokedWatch {
  /** @param tokens whose revocation has been answered 200: access, refresh or long-lived. */
  add(...tokens: string[]): void;
  /** @param tokens access tokens of users who have no role any more: it has been answered 200. */
  addWithoutRoles(...tokens: string[]): void;
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
  const withoutRoles: string[] = [];
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

  async function askRoles(token: string): Promise<void> {
    for (const backend of backends) {
      const { status, roles } = await balancer.sendTo(backend, {
        method: 'GET',
        path: '/api/auth/verify',
        token,
      });
      if (status !== 200) continue;
      tally.rolesTried++;
      if (roles === '') continue;
      tally.rolesReturned++;
      tally.problems.push(`a removed role returned: ${roles ?? 'no header'}`);
    }
  }

  async function run(): Promise<void> {
    let next = 0;
    let nextUser = 0;
    while (!isStopped) {
      // The newest first: a replica would forget a revocation right after it.
      const token = fresh.pop() ?? seen[next++ % seen.length];
      if (token !== undefined) await tryEverywhere(token);
      const user = withoutRoles[nextUser++ % withoutRoles.length];
      if (user !== undefined) await askRoles(user);
      await sleep(PAUSE);
    }
  }

  return {
    add(...tokens) {
      fresh.push(...tokens);
      seen.push(...tokens);
    },
    addWithoutRoles(...tokens) {
      withoutRoles.push(...tokens);
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
