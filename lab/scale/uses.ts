import { setTimeout as sleep } from 'node:timers/promises';
import { SYSTEM_CLOCK } from '../../packages/verifier/src/clock.ts';
import { makeVerifier, type Verifier } from '../../packages/verifier/src/create-verifier.ts';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import type { Bench } from './measure.ts';
import { startReplicas } from './replicas.ts';

/** What the reports of uses cost in a minute. */
export interface UsesFigure {
  /**
   * Long-lived tokens, each of which every verifier takes from memory in each minute; 0 for the cost of all
   * the rest.
   */
  tokens: number;
  verifiers: number;
  /** Requests with at most 500 ids. */
  reports: Sample;
  /** Rows that were inserted, updated or deleted. */
  rows: Sample;
  /** Of PostgreSQL's write-ahead log. */
  walBytes: Sample;
  /** CPU milliseconds. */
  postgresMillis: Sample;
  replicaMillis: Sample;
}

interface SetUp {
  tokens: number;
  verifiers: number;
  minutes: number;
  /** Milliseconds. A smoke shortens it, and then PostgreSQL moves no time, which is moved once a minute. */
  minute: number;
}

/** An account may have 100. */
const TOKENS_PER_USER = 50;
/** Tokens that a verifier asks about at once. */
const AT_ONCE = 32;
/** In which the uses of a minute are spread. */
const PARTS = 20;

/** All in this process; each verifier has a timer of its own. */
export async function measureUses(
  { world, meter }: Bench,
  { tokens: count, verifiers: many, minutes, minute }: SetUp,
): Promise<UsesFigure[]> {
  const users = await world.signUpMany(Math.ceil(count / TOKENS_PER_USER));
  const owners = Array.from({ length: count }, (_, i) => users.slice(i % users.length)[0]);
  const tokens = await world.createLongLivedMany(owners.filter((owner) => owner !== undefined));
  const { serviceId, secret } = await world.registerClient(['introspect', 'revocations']);
  const replicas = await startReplicas(world, meter, 1);
  let reports = 0;
  const options = {
    issuer: world.env.ISSUER,
    url: replicas.urls[0],
    audience: 'latchkey',
    client: { id: serviceId, secret },
    fetch: (to: Parameters<typeof fetch>[0], init?: RequestInit) => {
      if (new URL(to instanceof Request ? to.url : to).pathname === '/api/auth/uses') reports++;
      return fetch(to, init);
    },
  };
  const verifiers = Array.from({ length: many }, () =>
    makeVerifier(options, SYSTEM_CLOCK, { interval: minute }),
  );

  async function lookAt(used: readonly string[]) {
    const before = { ...(await meter.read()), cpu: replicas.cpuSeconds(), reports };
    const since = performance.now();
    for (let part = 0; part < PARTS; part++) {
      const some = used.filter((_, i) => i % PARTS === part);
      for (const verifier of verifiers) await checkAll(verifier, some);
      await sleep(Math.max(0, since + ((part + 1) * minute) / PARTS - performance.now()));
    }
    const after = await meter.read();
    const share = minute / (performance.now() - since);
    return {
      reports: (reports - before.reports) * share,
      rows: (after.rows - before.rows) * share,
      walBytes: (after.walBytes - before.walBytes) * share,
      postgresMillis: (after.postgres - before.postgres) * 1000 * share,
      replicaMillis: (replicas.cpuSeconds() - before.cpu) * 1000 * share,
    };
  }

  try {
    await Promise.all(verifiers.map((verifier) => verifier.ready()));
    // Each asks once about each token.
    for (const verifier of verifiers) await checkAll(verifier, tokens);
    const figures: UsesFigure[] = [];
    for (const used of [[], tokens]) {
      // Not counted: what the questions leave, and the minute until the first reports.
      await lookAt(used);
      const rounds: Awaited<ReturnType<typeof lookAt>>[] = [];
      for (let i = 0; i < minutes; i++) rounds.push(await lookAt(used));
      const of = (name: keyof (typeof rounds)[number]) => sampleOf(rounds.map((round) => round[name]));
      figures.push({
        tokens: used.length,
        verifiers: many,
        reports: of('reports'),
        rows: of('rows'),
        walBytes: of('walBytes'),
        postgresMillis: of('postgresMillis'),
        replicaMillis: of('replicaMillis'),
      });
    }
    if (reports === 0) throw new Error('the verifiers have reported nothing');
    return figures;
  } finally {
    await Promise.all(verifiers.map((verifier) => verifier.close()));
    await replicas.stop();
  }
}

async function checkAll({ verify }: Pick<Verifier, 'verify'>, tokens: readonly string[]): Promise<void> {
  for (let at = 0; at < tokens.length; at += AT_ONCE)
    await Promise.all(tokens.slice(at, at + AT_ONCE).map((token) => verify(token)));
}
