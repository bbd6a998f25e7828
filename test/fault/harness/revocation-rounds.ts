import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import { anAccount, headerOf, type Pair } from '../../support/client.ts';
import { testScale } from '../../support/environment.ts';
import type { Call } from '../../../packages/load/src/exchange.ts';
import { aRegisteredService, basic, type TestService } from '../../support/registered-service.ts';
import { recordRoles } from '../../support/roles.ts';
import { eventually } from '../../support/until.ts';
import { createVerifier } from '../../../packages/verifier/src/create-verifier.ts';
import { enforcementOracle } from './enforcement-oracle.ts';
import type { Replica } from './replica.ts';
import { startServiceAddress } from './service-address.ts';
import { lineOf, reset } from './tally.ts';
import type { World } from './world.ts';

const ROUNDS = 3;
/** Concurrent revocations per round, of each kind. */
const TOKENS = 4;
/** The service's default. */
const MAX_LLT_PER_USER = 100;
/** How long the revoked tokens are tried afterwards, in milliseconds. */
const TRIED_FOR = 2000;

export interface Disaster {
  name: string;
  /** 3 by default, by one replica after the other. */
  rounds?: number;
  /** How many long-lived tokens end by their ids in the same moment, beside the others, so that they share commits. */
  together?: number;
  /** Before the revocations: saves a snapshot to restore, for example. */
  prepare?(): unknown;
  /** Right after the revocations have been answered 200. @param by the replica that answered. */
  strike(by: Replica): Promise<unknown>;
}

/**
 * Strikes right after revocations, deletions of users and removals of roles have been answered 200: every replica must
 * still refuse the tokens, and no removed role may return.
 */
export async function revocationRounds(t: Test, world: World, disaster: Disaster): Promise<void> {
  const { tally, replicas } = world;
  const rounds = Math.max(1, Math.round((disaster.rounds ?? ROUNDS) * testScale));
  reset(tally);
  const service = await aRegisteredService(world.databaseUrl, `service ${disaster.name}`.slice(0, 64), [
    'users.write',
  ]);
  const oracle = await startOracle(t, world, disaster.name);
  let revoked = 0;
  for (let round = 0; round < rounds; round++) {
    const by = replicas[round % 2 === 0 ? 0 : 1];
    const sessions = await openSessions(world, by);
    const admins = await Promise.all(Array.from({ length: TOKENS }, () => openAdmin(world, by)));
    const together = await openTogether(world, by, disaster.together ?? 0);
    await disaster.prepare?.();
    const tokens = (
      await Promise.all([
        ...sessions.map((session, i) => end(world, by, session, WAYS[i % WAYS.length] ?? 'each', service)),
        ...together.map((longLived) => endById(world, by, longLived)),
      ])
    ).flat();
    oracle.note(tokens.filter((token) => headerOf(token).typ !== 'rt+jwt'));
    await Promise.all(admins.map((admin) => setRoles(world, by, admin, [])));
    const users = admins.map(({ access_token: token }) => token);
    const over = disaster.strike(by);
    world.watch.addWithoutRoles(...users);
    revoked += tokens.length;

    const until = performance.now() + TRIED_FOR;
    while (performance.now() < until) {
      await Promise.all([tryEverywhere(t, world, tokens), askRoles(world, users)]);
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
    await t.resolves(
      eventually(20, async () => {
        const known = await askRoles(world, users);
        return known === users.length * replicas.length ? null : `${known} answers of 200`;
      }),
      `round ${round}: the users whose roles were removed are known everywhere`,
    );
  }
  await eventually(60, async () => ((await oracle.look('all=true&wait=10'))?.done ? null : 'not done'));
  await oracle.conclude(['verifier']);
  t.comment(`${lineOf(disaster.name, tally)}; ${revoked} tokens revoked just before, in ${rounds} rounds`);
  t.equal(tally.revokedAccepted, 0, 'no revoked token was accepted');
  t.ok(tally.rolesTried > 0, 'users without roles were tried');
  t.equal(tally.rolesReturned, 0, 'no removed role returned');
  t.equal(tally.signOuts, 0, 'no user was signed out');
}

/** A service whose verifier follows the feed all the time. */
async function startOracle(t: Test, { databaseUrl, replicas }: World, name: string) {
  const register = (role: string, right: 'readers' | 'revocations') =>
    aRegisteredService(databaseUrl, `${role} ${name}`.slice(0, 64), [right, 'introspect']);
  const operator = await register('operator', 'readers');
  const { serviceId: id, secret } = await register('orders', 'revocations');
  const url = await startServiceAddress(t, replicas);
  const metadata = await fetch(`${url}/.well-known/oauth-authorization-server`);
  const { issuer } = (await metadata.json()) as { issuer: string };
  const oracle = enforcementOracle(t, () => replicas.map((each) => each.url), basic(operator).authorization);
  const verifier = createVerifier({
    issuer,
    url,
    audience: 'latchkey',
    client: { id, secret },
    reader: { instance: 'verifier' },
    whenStale: 'accept',
    onError: () => undefined,
  });
  oracle.add('verifier', verifier);
  t.teardown(() => verifier.close());
  await verifier.ready();
  return oracle;
}

interface LongLived {
  id: number;
  longlived_token: string;
}

interface Opened {
  pair: Pair;
  longLived: LongLived;
}

async function openSessions(world: World, by: Replica): Promise<Opened[]> {
  return Promise.all(
    Array.from({ length: TOKENS }, async () => {
      const pair = await ask<Pair>(world, by, {
        method: 'POST',
        path: '/api/auth/signup',
        body: anAccount(),
      });
      return { pair, longLived: await openLongLived(world, by, pair) };
    }),
  );
}

async function openLongLived(world: World, by: Replica, { access_token: token }: Pair): Promise<LongLived> {
  return ask(world, by, { method: 'POST', path: '/api/auth/llt', token, body: { device: 'tablet' } });
}

/** Tokens of as few users as may have so many. */
async function openTogether(world: World, by: Replica, count: number): Promise<LongLived[]> {
  const tokens: LongLived[] = [];
  while (tokens.length < count) {
    const owner = await ask<Pair>(world, by, {
      method: 'POST',
      path: '/api/auth/signup',
      body: anAccount(),
    });
    const length = Math.min(MAX_LLT_PER_USER, count - tokens.length);
    tokens.push(...(await Promise.all(Array.from({ length }, () => openLongLived(world, by, owner)))));
  }
  return tokens;
}

/** A user with a role that verify knows. */
async function openAdmin(world: World, by: Replica): Promise<Pair> {
  const pair = await ask<Pair>(world, by, { method: 'POST', path: '/api/auth/signup', body: anAccount() });
  await setRoles(world, by, pair, ['admin']);
  const { status, roles } = await world.balancer.sendTo(by, verifying(pair.access_token));
  if (status === 200 && roles !== 'admin')
    throw new Error(`a new role is not known: ${roles ?? 'no header'}`);
  return pair;
}

const verifying = (token: string): Call => ({ method: 'GET', path: '/api/auth/verify', token });

/** Resolves once an operation that finishes the change has been answered 200: a change of the name finishes both. */
async function setRoles(world: World, by: Replica, pair: Pair, roles: string[]): Promise<void> {
  await recordRoles(world.databaseUrl, pair.user.id, roles);
  const body = { name: `with ${roles.length} roles` };
  await ask(world, by, { method: 'PATCH', path: '/api/user', token: pair.access_token, body });
}

/** Asks every replica what roles they have, which is none. @returns how many answers were 200. */
async function askRoles({ balancer, replicas, tally }: World, tokens: string[]): Promise<number> {
  const answers = await Promise.all(
    replicas.flatMap((replica) => tokens.map((token) => balancer.sendTo(replica, verifying(token)))),
  );
  const known = answers.filter(({ status }) => status === 200);
  tally.rolesTried += known.length;
  tally.rolesReturned += known.filter(({ roles }) => roles !== '').length;
  return known.length;
}

/** How the tokens end: each by itself, all at once, or with their user. */
const WAYS = ['everywhere', 'each', 'deletion'] as const;

/** @returns the ended tokens. */
async function end(
  world: World,
  by: Replica,
  { pair, longLived }: Opened,
  way: (typeof WAYS)[number],
  service: TestService,
): Promise<string[]> {
  const token = longLived.longlived_token;
  if (way === 'deletion') {
    // After a 503 the user may be deleted already.
    await ask(
      world,
      by,
      {
        method: 'DELETE',
        path: `/api/users/${pair.user.id}`,
        client: { clientId: service.serviceId, secret: service.secret },
      },
      [200, 404],
    );
  } else if (way === 'everywhere') {
    await ask(world, by, { method: 'DELETE', path: '/api/user/tokens', token: pair.access_token });
  } else {
    await endById(world, by, longLived);
    await ask(world, by, { method: 'DELETE', path: '/api/auth', token: pair.access_token });
  }
  return [pair.access_token, pair.refresh_token, token];
}

async function endById(
  world: World,
  by: Replica,
  { id, longlived_token: token }: LongLived,
): Promise<string> {
  await ask(world, by, { method: 'DELETE', path: `/api/auth/llt/${id}`, token });
  return token;
}

/** @throws Error if the answer is not 200 in time; an outage before the first revocation is waited out. */
async function ask<Body>({ balancer }: World, by: Replica, call: Call, good = [200]): Promise<Body> {
  let body: unknown;
  await eventually(20, async () => {
    const answer = await balancer.sendTo(by, call);
    body = answer.body;
    return good.includes(answer.status) ? null : `${call.path}: ${answer.status}`;
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
