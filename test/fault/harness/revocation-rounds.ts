import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { anAccount, headerOf, type Pair } from '../../support/client.ts';
import { testScale } from '../../support/environment.ts';
import type { Call } from '../../support/exchange.ts';
import { eventually } from '../../support/until.ts';
import type { Replica } from './replica.ts';
import { lineOf, reset } from './tally.ts';
import type { World } from './world.ts';

const ROUNDS = 3;
/** Concurrent revocations per round, of each kind. */
const TOKENS = 4;
/** How long the revoked tokens are tried afterwards, in milliseconds. */
const TRIED_FOR = 2000;

export interface Disaster {
  name: string;
  /** 3 by default, by one replica after the other. */
  rounds?: number;
  /** Before the revocations: saves a snapshot to restore, for example. */
  prepare?(): unknown;
  /** Right after the revocations have been answered 200. @param by the replica that answered. */
  strike(by: Replica): Promise<unknown>;
}

/** Strikes right after revocations have been answered 200: every replica must still refuse the tokens. */
export async function revocationRounds(t: Test, world: World, disaster: Disaster): Promise<void> {
  const { tally, replicas } = world;
  const rounds = Math.max(1, Math.round((disaster.rounds ?? ROUNDS) * testScale));
  reset(tally);
  let revoked = 0;
  for (let round = 0; round < rounds; round++) {
    const by = replicas[round % 2 === 0 ? 0 : 1];
    const sessions = await openSessions(world, by);
    await disaster.prepare?.();
    const tokens = (
      await Promise.all(sessions.map((session, i) => end(world, by, session, i % 2 === 0)))
    ).flat();
    const over = disaster.strike(by);
    revoked += tokens.length;

    const until = performance.now() + TRIED_FOR;
    while (performance.now() < until) {
      await tryEverywhere(t, world, tokens);
      await sleep(50);
    }
    await over;
    await world.recovered(20);
    // Each Sentinel announces a new master by itself, and each announcement ends the connections once more. So an answer
    // may be 503 for a moment after everything has worked; `revokedAccepted` counts every 200 all the same.
    await t.resolves(
      eventually(20, async () => {
        const statuses = await tryEverywhere(t, world, tokens);
        return statuses.join() === '401' ? null : `answered ${statuses.join()}`;
      }),
      `round ${round}: refused everywhere`,
    );
  }
  t.comment(`${lineOf(disaster.name, tally)}; ${revoked} tokens revoked just before, in ${rounds} rounds`);
  t.equal(tally.revokedAccepted, 0, 'no revoked token was accepted');
  t.equal(tally.signOuts, 0, 'no user was signed out');
}

interface Opened {
  pair: Pair;
  longLived: { id: number; longlived_token: string };
}

async function openSessions(world: World, by: Replica): Promise<Opened[]> {
  return Promise.all(
    Array.from({ length: TOKENS }, async () => {
      const pair = await ask<Pair>(world, by, {
        method: 'POST',
        path: '/api/auth/signup',
        body: anAccount(),
      });
      const token = pair.access_token;
      const call = { method: 'POST', path: '/api/auth/llt', token, body: { device: 'tablet' } } as const;
      return { pair, longLived: await ask<Opened['longLived']>(world, by, call) };
    }),
  );
}

/** @returns the ended tokens. */
async function end(
  world: World,
  by: Replica,
  { pair, longLived }: Opened,
  everywhere: boolean,
): Promise<string[]> {
  const token = longLived.longlived_token;
  if (everywhere) {
    await ask(world, by, { method: 'DELETE', path: '/api/user/tokens', token: pair.access_token });
  } else {
    await ask(world, by, { method: 'DELETE', path: `/api/auth/llt/${longLived.id}`, token });
    await ask(world, by, { method: 'DELETE', path: '/api/auth', token: pair.access_token });
  }
  return [pair.access_token, pair.refresh_token, token];
}

/** @throws Error if the answer is not 200 in time; an outage before the first revocation is waited out. */
async function ask<Body>({ balancer }: World, by: Replica, call: Call): Promise<Body> {
  let body: unknown;
  await eventually(20, async () => {
    const answer = await balancer.sendTo(by, call);
    body = answer.body;
    return answer.status === 200 ? null : `${call.path}: ${answer.status}`;
  });
  return body as Body;
}

/** @returns the distinct statuses; the 0 of a dead replica does not count. */
async function tryEverywhere(t: Test, world: World, tokens: string[]): Promise<number[]> {
  const { balancer, replicas, tally } = world;
  const answers = await Promise.all(
    replicas.flatMap((replica) =>
      tokens.map((token) => {
        const path = headerOf(token).typ === 'rt+jwt' ? '/api/auth/refresh' : '/api/auth/verify';
        return balancer.sendTo(replica, { method: 'GET', path, token });
      }),
    ),
  );
  const statuses = [...new Set(answers.map(({ status }) => status))].filter((status) => status !== 0);
  tally.revokedTried += answers.length;
  tally.revokedAccepted += answers.filter(({ status }) => status === 200).length;
  if (statuses.some((status) => status !== 401 && status !== 503)) t.fail(`answered ${statuses.join()}`);
  return statuses;
}
