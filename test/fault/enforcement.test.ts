import { setTimeout as sleep } from 'node:timers/promises';
import type { VerifierOptions } from '@latchkey/verifier';
import { test, type Test } from 'tap';
import { aFeedClient } from '../support/feed-reader.ts';
import { movableClock } from '../support/faketime.ts';
import { faultProxy } from '../support/fault-proxy.ts';
import { claimsOf } from '../support/client.ts';
import { existing, startRedis } from '../support/redis-server.ts';
import { toolsMissing } from '../support/tools.ts';
import { eventually } from '../support/until.ts';
import type { EnforcementAnswer } from './harness/enforcement-oracle.ts';
import { askingAgent, insist, openVerified, outcomeOf, type Verified } from './harness/verified-sessions.ts';
import { startVerifiedWorld, type VerifiedWorld } from './harness/verified-world.ts';

const skip = { skip: toolsMissing('env', 'faketime', 'npm', 'python3', 'redis-server', 'tar') };

type WhenStale = NonNullable<VerifierOptions['whenStale']>;

async function startWorld(t: Test) {
  const redis = await startRedis(t);
  const world = await startVerifiedWorld(t, { REDIS_URL: redis.url });
  const tokens = await openVerified(world.balancer, 20);
  return { ...world, tokens };
}

async function end({ balancer, oracle }: VerifiedWorld, { token, end }: Verified): Promise<string> {
  await insist(balancer, end);
  oracle.note([token]);
  return `token=${String(claimsOf(token).sid)}`;
}

/** Asks until the answer is as the test wants it. @returns the answer */
async function answered(
  { oracle }: VerifiedWorld,
  query: string,
  isSo: (answer: EnforcementAnswer) => boolean,
): Promise<EnforcementAnswer> {
  const answers: EnforcementAnswer[] = [];
  await eventually(90, async () => {
    const answer = await oracle.look(query);
    if (answer) answers.push(answer);
    return answer && isSo(answer) ? null : JSON.stringify(answer);
  });
  return existing(answers.at(-1));
}

const namesOf = ({ waiting }: EnforcementAnswer) =>
  waiting.map(({ name, instance, state }) => `${instance ?? name} ${state}`).sort();

test('readers that are cut off, from confirming alone or from everything', skip, async (t) => {
  const world = await startWorld(t);
  const { verifier: make, oracle, tokens } = world;
  /** What a reader's requests meet. */
  const cut = { confirmations: false, everything: false };
  const through: typeof fetch = (to, init) => {
    const isCut = cut.everything || (cut.confirmations && init?.method === 'PUT');
    return isCut ? Promise.reject(new TypeError('fetch failed')) : fetch(to, init);
  };
  const feeds = await faultProxy(t, world.url);
  const kinds = (['introspect', 'refuse', 'accept'] as const satisfies WhenStale[]).map((whenStale) => ({
    whenStale,
    instance: `cut-${whenStale}`,
    verifier: make({
      whenStale,
      maxStaleness: 2,
      url: feeds.url.replace(/\/$/, ''),
      fetch: through,
      reader: { instance: `cut-${whenStale}` },
      onError: () => undefined,
    }),
  }));
  await Promise.all(kinds.map(({ verifier }) => verifier.ready()));
  for (const { verifier } of kinds)
    for (const { token } of tokens) t.equal(await outcomeOf(verifier, token), 'good');

  const first = await end(world, existing(tokens[1]));
  t.match(await answered(world, `${first}&wait=10`, ({ done }) => done), { counts: { enforced: 3 } });

  cut.confirmations = true;
  const second = await end(world, existing(tokens[2]));
  const pending = await answered(world, `${second}&wait=3`, ({ counts }) => counts.pending > 0);
  t.equal(pending.counts.enforced, 0, 'whoever does not say so has not enforced it');
  cut.confirmations = false;
  t.match(await answered(world, `${second}&wait=10`, ({ done }) => done), { counts: { enforced: 3 } });

  cut.everything = true;
  feeds.set('refuse');
  const third = await end(world, existing(tokens[3]));
  const waiting = await answered(world, `${third}&wait=3`, ({ counts }) => counts.pending > 0);
  t.strictSame(waiting.counts, { enforced: 0, bounded: 0, pending: 3, unknown: 0 });
  // Introspection and refusal bound it after 2 s and 30 s; who accepts is silent after 45 s.
  const bounded = await answered(world, `${third}&wait=30`, ({ counts }) => counts.unknown > 0);
  t.strictSame(bounded.counts, { enforced: 0, bounded: 2, pending: 0, unknown: 1 });
  t.strictSame(namesOf(bounded), ['cut-accept unknown']);
  const outcomes = await Promise.all(
    kinds.map(({ verifier }) => outcomeOf(verifier, existing(tokens[3]).token)),
  );
  t.strictSame(
    outcomes,
    ['unavailable', 'unavailable', 'good'],
    'which is why it is not called anything else',
  );

  cut.everything = false;
  feeds.set('pass');
  t.match(await answered(world, `${third}&wait=10`, ({ done }) => done), { counts: { enforced: 3 } });
  await oracle.conclude(kinds.map(({ instance }) => instance));
});

test('readers that are paused, and cut off meanwhile', skip, async (t) => {
  const world = await startWorld(t);
  const { agent: start, oracle, tokens } = world;
  const proxy = await faultProxy(t, world.url);
  const url = { LATCHKEY_URL: proxy.url.replace(/\/$/, ''), AGENT_MAX_STALENESS: '2' };
  const agents = [
    await start({ ...url, AGENT_WHEN_STALE: 'introspect' }),
    await start({ ...url, AGENT_WHEN_STALE: 'refuse' }),
    await start({ ...url, AGENT_WHEN_STALE: 'accept' }),
  ];
  const python = await world.python();
  const first = await end(world, existing(tokens[1]));
  await answered(world, `${first}&wait=10`, ({ done, counts }) => done && counts.enforced === 4);
  const { token } = existing(tokens[2]);
  for (const agent of agents) t.equal(await outcomeOf(askingAgent(agent), token), 'good');

  for (const each of [...agents, python]) each.kill('SIGSTOP');
  // Heartbeats that they have not read wait in their buffers.
  await sleep(3000);
  proxy.set('vanish');
  const second = await end(world, existing(tokens[2]));
  const bounded = await answered(world, `${second}&wait=30`, ({ counts }) => counts.bounded === 2);
  t.equal(bounded.counts.enforced, 0);
  for (const each of [...agents, python]) each.kill('SIGCONT');
  // What was asked meanwhile is answered first.
  const outcomes = await Promise.all(agents.map((agent) => outcomeOf(askingAgent(agent), token)));
  t.strictSame(outcomes, ['unavailable', 'unavailable', 'good']);
  proxy.set('pass');
  await answered(world, `${second}&wait=10`, ({ done, counts }) => done && counts.enforced === 4);
  await oracle.conclude([...agents.map(({ instance }) => instance), 'python']);
  t.equal(await python.end(), '', 'the reader in Python complains of nothing');
});

test("Redis's clock jumps by an hour", skip, async (t) => {
  const clock = movableClock(t);
  const redis = await startRedis(t, { env: clock.env });
  const world = await startVerifiedWorld(t, { REDIS_URL: redis.url });
  await world.verifier({ whenStale: 'accept' }).ready();
  const tokens = await openVerified(world.balancer, 6);
  for (const [i, ahead] of [0, 3600, -3600, 0].entries()) {
    clock.ahead(ahead);
    const query = await end(world, existing(tokens[i]));
    const { counts } = await answered(world, `${query}&wait=10`, ({ done }) => done);
    t.equal(counts.enforced, 1, `${ahead} s ahead`);
  }
  await world.oracle.conclude(['verifier-1']);
});

test('a rolling restart, a crash loop, and readers without an id', skip, async (t) => {
  const world = await startWorld(t);
  const { agent: start, oracle, tokens } = world;
  let agents = [await start(), await start(), await start()];
  await world.python();
  const first = await end(world, existing(tokens[1]));
  await answered(world, `${first}&wait=10`, ({ done, counts }) => done && counts.enforced === 4);

  const replaced = agents;
  agents = [];
  for (const old of replaced) {
    agents.push(await start());
    await old.stop('SIGTERM');
  }
  const second = await end(world, existing(tokens[2]));
  t.match(await oracle.look(`${second}&wait=5`), { done: true, counts: { enforced: 4 } });

  const crashing = { ...(await world.clientOf('crashing')) };
  const env = { LATCHKEY_CLIENT_ID: crashing.id, LATCHKEY_CLIENT_SECRET: crashing.secret };
  const crashed: string[] = [];
  for (let i = 0; i < 3; i++) {
    const one = await start(env);
    const seen = await end(world, existing(tokens[3 + i]));
    await answered(
      world,
      `${seen}&wait=10`,
      ({ waiting }) => !waiting.some((each) => each.instance === one.instance),
    );
    await one.stop('SIGKILL');
    crashed.push(one.instance);
  }
  const third = await end(world, existing(tokens[6]));
  const spoilt = await answered(world, `${third}&wait=5`, ({ counts }) => counts.enforced === 4);
  t.strictSame(
    namesOf(spoilt),
    crashed.map((name) => `${name} pending`),
    'only its own line is spoilt',
  );

  const { id, secret } = await world.clientOf('old');
  const authorization = `Basic ${Buffer.from(`${id}:${secret}`).toString('base64')}`;
  aFeedClient(t, { url: () => world.url, authorization, comesBack: true });
  const nameless = await answered(world, `${third}&wait=0`, ({ waiting }) =>
    waiting.some(({ name }) => name === 'old'),
  );
  t.ok(namesOf(nameless).includes('old pending'));
  await oracle.conclude([...agents, ...replaced].map(({ instance }) => instance));
});
