import { openConnection, type Answer } from '../../../test/support/generator/connection.ts';
import { runLoad, type LoadResult } from '../../../test/support/generator/load.ts';
import type { Entrant, PeerRound } from './servers.ts';

export interface RoundOptions {
  rounds: number;
  seconds: number;
  warmUpSeconds: number;
}

/** Runs all entrants in turn, in an order that changes each round: a busy moment of the machine hits all of them. */
export async function runInTurns(
  entrants: readonly Entrant[],
  { rounds, seconds, warmUpSeconds }: RoundOptions,
): Promise<void> {
  for (const entrant of entrants) {
    await prove(entrant);
    await loadOf(entrant, warmUpSeconds);
  }
  for (let i = 0; i < rounds; i++) {
    for (const entrant of i % 2 === 0 ? entrants : entrants.toReversed())
      entrant.rounds.push(await measuredRound(entrant, seconds));
  }
}

async function measuredRound(entrant: Entrant, seconds: number): Promise<PeerRound> {
  const before = entrant.server.cpuSeconds();
  const result = await loadOf(entrant, seconds);
  const cpu = entrant.server.cpuSeconds() - before;
  return {
    perSecond: result.requests / result.seconds,
    micros: (cpu * 1e6) / result.requests,
    serverCpu: cpu / result.seconds,
    generatorCpu: result.cpu,
  };
}

/** Sends a request of each connection. @throws Error if an answer is not the right one. */
async function prove({ server, offer }: Entrant): Promise<void> {
  const { request, expected, workload } = offer;
  for (const caller of workload.callers) {
    const { status, body } = await answerTo(new URL(server.url), caller.next() ?? '');
    if (status !== '200' || !body.includes(expected))
      throw new Error(`${server.name}: ${request} was answered ${status}: ${body}`);
    caller.answered?.(body);
  }
}

function answerTo(origin: URL, request: string): Promise<Answer> {
  const connection = openConnection(origin);
  return new Promise((resolve) => {
    connection.ask(request, (answer) => {
      connection.close();
      resolve(answer);
    });
  });
}

/** @throws Error if an answer is not 200, or none came. */
export async function loadOf({ server, offer }: Entrant, seconds: number): Promise<LoadResult> {
  const result = await runLoad(server.url, offer.workload.callers, seconds).catch((cause: unknown) => {
    throw new Error(`${server.name}: ${offer.request} failed`, { cause });
  });
  server.emptyLog();
  if (result.requests === 0) throw new Error(`${server.name} answered no ${offer.request}`);
  return result;
}
