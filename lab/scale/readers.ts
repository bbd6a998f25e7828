import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestText } from '../../test/support/generator/requests.ts';
import { basic } from '../../test/support/registered-service.ts';
import { populate, type Population } from '../bench/population.ts';
import { sampleOf, type Sample } from '../bench/statistics.ts';
import { openConnection } from '../../test/support/generator/connection.ts';
import type { Bench } from './measure.ts';
import { startReplicas, type Replicas } from './replicas.ts';

/** CPU of a replica for each of its readers, in microseconds a second. */
export interface ReadersFigure {
  readers: number;
  /** Without events: heartbeats. */
  quiet: Sample;
  /** With an event in every read of the stream. */
  busy: Sample;
}

/** As often as the feed is read (composition/revocation-feed.ts), and once more. */
const LOGOUTS_PER_SECOND = 6;

/**
 * The same replica without readers and with them, by turns: what it does besides, such as the logouts that make the
 * events, costs the same in both.
 */
export async function measureReaders(bench: Bench, counts: readonly number[]): Promise<ReadersFigure[]> {
  const { world } = bench;
  const service = await world.registerClient(['revocations']);
  const seconds = bench.hashSeconds;
  const most = (counts.length * 2 * bench.rounds + 1) * Math.ceil(seconds + 1) * LOGOUTS_PER_SECOND;
  const population = await populate(world, most);
  const limits = { REVOCATION_READERS_MAX: '100000', REVOCATION_READERS_PER_CLIENT: '100000' };
  const replicas = await startReplicas(world, bench.meter, 1, limits);
  const logouts = logoutsOf(population);
  const look = async (isBusy: boolean) => {
    const end = new AbortController();
    const events = isBusy ? keepLoggingOut(replicas, logouts, end.signal) : null;
    // The first events are on their way.
    await sleep(500);
    const [before, since] = [replicas.cpuSeconds(), performance.now()];
    await sleep(seconds * 1000);
    const micros = ((replicas.cpuSeconds() - before) * 1e9) / (performance.now() - since);
    end.abort();
    await events;
    return micros;
  };
  try {
    // Not counted: the compiler.
    await look(true);
    const figures: ReadersFigure[] = [];
    for (const count of counts) {
      const rounds: { quiet: number; busy: number }[] = [];
      for (let i = 0; i < bench.rounds; i++) {
        const without = { quiet: await look(false), busy: await look(true) };
        const close = await openReaders(replicas, count, basic(service).authorization);
        const quiet = (await look(false)) - without.quiet;
        const busy = (await look(true)) - without.busy;
        await close();
        rounds.push({ quiet: quiet / count, busy: busy / count });
      }
      const of = (name: 'quiet' | 'busy') => sampleOf(rounds.map((round) => round[name]));
      figures.push({ readers: count, quiet: of('quiet'), busy: of('busy') });
    }
    return figures;
  } finally {
    await replicas.stop();
  }
}

function* logoutsOf(population: Population): Generator<string, never> {
  for (let i = 0; ; i++) yield requestText('DELETE /api/auth', { token: population.mint('access', i) });
}

/** Until the signal. @throws Error at an answer other than 200. */
async function keepLoggingOut(
  { urls }: Replicas,
  logouts: Generator<string, never>,
  signal: AbortSignal,
): Promise<void> {
  const connection = openConnection(new URL(urls[0] ?? ''));
  try {
    while (!signal.aborted) {
      const status = await new Promise<string>((resolve) => {
        connection.ask(logouts.next().value, (answer) => {
          resolve(answer.status);
        });
      });
      if (status !== '200') throw new Error(`a logout was answered ${status}`);
      await sleep(1000 / LOGOUTS_PER_SECOND);
    }
  } finally {
    connection.close();
  }
}

/** Sockets that read and forget, so that the load costs little. Resolves once each has had a heartbeat. */
async function openReaders(
  { urls }: Replicas,
  count: number,
  authorization: string,
): Promise<() => Promise<void>> {
  const { hostname, port } = new URL(urls[0] ?? '');
  const request = requestText('GET /api/auth/revocations', { headers: { Authorization: authorization } });
  const sockets = Array.from({ length: count }, () => net.connect(Number(port), hostname));
  const following = sockets.map(
    (socket) =>
      new Promise<void>((resolve, reject) => {
        socket.once('error', reject);
        socket.once('close', () => {
          reject(new Error('a reader was cut off'));
        });
        const begin = (data: Buffer) => {
          if (!data.includes('event: heartbeat')) return;
          socket.off('data', begin);
          socket.resume();
          resolve();
        };
        socket.on('data', begin);
        socket.write(request);
      }),
  );
  await Promise.all(following);
  return async () => {
    if (sockets.some(({ destroyed }) => destroyed)) throw new Error('a reader was cut off');
    for (const socket of sockets) socket.destroy();
    // The replica notices.
    await sleep(500);
  };
}
