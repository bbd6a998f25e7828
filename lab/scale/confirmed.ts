import { setTimeout as sleep } from 'node:timers/promises';
import { SYSTEM_CLOCK } from '../../packages/verifier/src/clock.ts';
import { makeVerifier, type Verifier } from '../../packages/verifier/src/create-verifier.ts';
import { claimsOf } from '../../test/support/client.ts';
import { basic } from '../../test/support/registered-service.ts';
import { populate } from '../bench/population.ts';
import { quantile } from '../bench/statistics.ts';
import type { Bench } from './measure.ts';
import { startReplicas } from './replicas.ts';

/** What it takes to know who refuses a token, while a session ends each second and somebody asks about it. */
export interface ConfirmedFigure {
  readers: number;
  replicas: number;
  /** Rows that were inserted, updated or deleted, each second. */
  rows: number;
  /** Of PostgreSQL's write-ahead log, each second. */
  walBytes: number;
  /** CPU milliseconds of each second, the logouts' and the questions' included. */
  postgresMillis: number;
  replicaMillis: number;
  /** Milliseconds from the answer to a logout until an answer that it is done. */
  done: { median: number; p99: number };
}

interface SetUp {
  readers: number;
  replicas: number;
  seconds: number;
}

/** Readers that begin at once. */
const AT_ONCE = 20;
/** How long a question waits, in seconds. */
const WAIT = 30;

/** The same replicas without readers and with them, all in this process, which shares the cores. */
export async function measureConfirmed(
  { world, meter, reportSeconds }: Bench,
  { readers: most, replicas: count, seconds }: SetUp,
): Promise<ConfirmedFigure[]> {
  const population = await populate(world, 2 * seconds);
  const service = await world.registerClient(['introspect', 'revocations', 'readers']);
  const limits = { REVOCATION_READERS_MAX: '100000', REVOCATION_READERS_PER_CLIENT: '100000' };
  const replicas = await startReplicas(world, meter, count, limits);
  const verifiers: Verifier[] = [];
  const urlOf = (i: number) => replicas.urls[i % count] ?? '';
  let ended = 0;

  async function open(): Promise<void> {
    const at = verifiers.length;
    const verifier = makeVerifier(
      {
        issuer: world.env.ISSUER,
        url: urlOf(at),
        audience: 'latchkey',
        client: { id: service.serviceId, secret: service.secret },
        reader: { instance: `reader-${at}` },
      },
      SYSTEM_CLOCK,
    );
    verifiers.push(verifier);
    await verifier.ready();
  }

  /** @returns milliseconds until it is done. */
  async function endOne(): Promise<number> {
    const i = ended++;
    const token = population.mint('access', i);
    const headers = { authorization: `Bearer ${token}` };
    const logout = await fetch(`${urlOf(i)}/api/auth`, { method: 'DELETE', headers });
    if (!logout.ok) throw new Error(`a logout was answered ${logout.status}`);
    const since = performance.now();
    const query = `token=${String(claimsOf(token).sid)}&wait=${WAIT}`;
    const answer = await fetch(`${urlOf(i + 1)}/api/auth/revocations/enforcement?${query}`, {
      headers: basic(service),
    });
    const { done, counts } = (await answer.json()) as { done?: boolean; counts?: { enforced: number } };
    if (!done || counts?.enforced !== verifiers.length)
      throw new Error(`${answer.status}: ${JSON.stringify(counts)} of ${verifiers.length} readers`);
    return performance.now() - since;
  }

  async function look(): Promise<ConfirmedFigure> {
    const before = { ...(await meter.read()), cpu: replicas.cpuSeconds() };
    const since = performance.now();
    const asked: Promise<number>[] = [];
    for (let i = 0; i < seconds; i++) {
      asked.push(endOne());
      await sleep(Math.max(0, since + (i + 1) * 1000 - performance.now()));
    }
    const times = await Promise.all(asked);
    // What is written later belongs to these seconds too.
    await sleep(reportSeconds * 1000);
    const after = await meter.read();
    return {
      readers: verifiers.length,
      replicas: count,
      rows: (after.rows - before.rows) / seconds,
      walBytes: (after.walBytes - before.walBytes) / seconds,
      postgresMillis: ((after.postgres - before.postgres) * 1000) / seconds,
      replicaMillis: ((replicas.cpuSeconds() - before.cpu) * 1000) / seconds,
      done: { median: quantile(times, 0.5), p99: quantile(times, 0.99) },
    };
  }

  try {
    const figures = [await look()];
    while (verifiers.length < most)
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, most - verifiers.length) }, open));
    // Until each has confirmed once.
    await sleep(reportSeconds * 1000);
    figures.push(await look());
    return figures;
  } finally {
    await Promise.all(verifiers.map((verifier) => verifier.close()));
    await replicas.stop();
  }
}
