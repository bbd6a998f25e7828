import { setTimeout as sleep } from 'node:timers/promises';
import { figuresOf, type Contender } from './contender.ts';
import { load } from '../../test/support/generator/generator.ts';
import type { OpenLoopResult } from '../../test/support/generator/open-loop.ts';
import { median, sampleOf, type Sample } from './statistics.ts';
import type { ServerName } from './subject.ts';

/** The rate of the open loop, as a share of what the closed loop reached. */
const LOAD_FACTOR = 0.7;
/** An open loop after another one: what the first left behind is over. */
const PAUSE = 100;

export interface LatencyReport {
  /** What the server ran: of a bare server, the yardstick. */
  operation: string;
  server: ServerName;
  perSecond: number;
  /** Milliseconds: medians of the rounds, and the spread of the p99. */
  p50: number;
  p99: number;
  p999: number;
  spread: Sample;
  /** The generator's own delay and its share of a core. */
  lateP99: number;
  generatorCpu: number;
}

interface LatencyOptions {
  rounds: number;
  latencySeconds: number;
}

/** The latency at 70% of what each contender reached, in an open loop; the servers take turns. */
export async function measureLatency(
  contenders: readonly Contender[],
  { rounds, latencySeconds: seconds }: LatencyOptions,
): Promise<LatencyReport[]> {
  const all = [];
  for (const contender of contenders) {
    const { subject, operation } = contender;
    if (subject.name === 'ruler') continue;
    const work = await subject.openWorkload(operation);
    if (!work) continue;
    const perSecond = Math.round(LOAD_FACTOR * figuresOf(contender).perSecond);
    const results: OpenLoopResult[] = [];
    all.push({ operation: subject.runs(operation), subject, perSecond, results, work });
  }
  for (let i = 0; i < Math.ceil(rounds / 2); i++) {
    for (const { subject, perSecond, results, work } of i % 2 === 0 ? all : all.toReversed()) {
      const result = await load({ origin: subject.process.url, perSecond, seconds, ...work }, ['200']);
      work.requests = result.requests ?? work.requests;
      results.push(result);
      subject.process.emptyLog();
      await sleep(PAUSE);
    }
  }
  return all.map(({ operation, subject, perSecond, results }) => {
    const of = (field: Exclude<keyof OpenLoopResult, 'statuses' | 'refusals' | 'requests' | 'failure'>) =>
      median(results.map((each) => each[field]));
    return {
      operation,
      server: subject.name,
      perSecond,
      p50: of('p50'),
      p99: of('p99'),
      p999: of('p999'),
      spread: sampleOf(results.map(({ p99 }) => p99)),
      lateP99: of('lateP99'),
      generatorCpu: of('cpu'),
    };
  });
}
