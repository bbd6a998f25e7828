import os from 'node:os';
import type { Accounts, RunArguments, Thresholds } from './arguments.ts';
import { growsTooFast, judgeGrowth, type Growth } from './growth.ts';
import { ROUNDS, type HerdRound } from './herd.ts';
import type { Correctness, Finding, Judge } from './judge.ts';
import type { RunResult } from './run.ts';
import type { Figures, Interval, SampledOperation, Samples } from './samples.ts';
import { HERD, OPERATIONS, SCENARIOS } from './scenarios.ts';
import { TIMEOUT } from './wire.ts';

/** `report.json`. Times in milliseconds unless the name says otherwise. */
export interface Report {
  scenario: string;
  models: string;
  /** RFC 3339. */
  started: string;
  settings: Pick<RunArguments, 'users' | 'seconds' | 'rate' | 'lost' | 'connections'> & {
    url: string;
    own_service: boolean;
    /** How the devices got their accounts. */
    accounts: Accounts['from'] | 'own service';
    /** Milliseconds until a request without an answer is given up. Timeouts count in the percentiles. */
    timeout_ms: number;
  };
  /** What the run must keep besides; null if nothing was asked. */
  thresholds: Thresholds;
  /** Processes that sent the load: more than 1 after a merge. */
  generators: number;
  machine: { cpu: string; cores: number; memory_gib: number; node: string; platform: string };
  totals: {
    /** From the first arrival to the end of the schedule. */
    seconds: number;
    arrivals: number;
    /** Arrivals for which no device was free before the end. */
    not_begun: number;
    /** Answers with 200 in that time, a second. */
    ok_per_second: number;
  } & Figures;
  /** How late this process sent requests, and its share of one core. Near 1, it is the bottleneck. In a merge, the worst. */
  generator: RunResult['generator'];
  operations: Partial<Record<SampledOperation, Figures>>;
  over_time: Interval[];
  /** Failed requests by code. Retries count too. */
  errors: Record<string, number>;
  /** Whether a signal ended the run before its time. */
  interrupted: boolean;
  correctness: Correctness;
  judged: ReturnType<Judge['judged']>;
  /** The first broken promises. */
  findings: readonly Finding[];
  /** What a client of a service cannot see, in words; empty for a service of the repository's own. */
  not_seen: readonly string[];
  herd?: { rounds: HerdRound[] } & Growth;
}

/** Its metrics, its log and its dashboard say these. */
const NOT_SEEN = [
  'The times inside the service: each latency here includes the network and the proxies on the way.',
  'Which replicas answered, how many there are, and whether one of them restarted.',
  'Processor, memory and queues of the service, of PostgreSQL and of Redis.',
  'What others asked of it meanwhile, and the tokens of users who were not in this run.',
  'Whether a row was lost that none of these devices asked for again.',
];

export interface Ran {
  options: RunArguments;
  interrupted: boolean;
  url: string;
  started: Date;
  judge: Judge;
  samples: Samples;
  seconds: number;
  ok: number;
  arrivals: number;
  not_begun: number;
  generator: RunResult['generator'];
  rounds?: HerdRound[];
}

export function makeReport(ran: Ran): Report {
  const { options, judge, samples, rounds } = ran;
  const { scenario, users, seconds, rate, lost, connections, accounts } = options;
  const all = samples.all();
  const { models } = scenario === 'herd' ? HERD : SCENARIOS[scenario];
  const used = OPERATIONS.map((name) => [name, samples.of(name)] as const);
  return {
    scenario,
    models,
    started: ran.started.toISOString(),
    settings: {
      url: ran.url,
      own_service: options.url === null,
      users,
      seconds,
      rate,
      lost,
      connections,
      accounts: accounts?.from ?? 'own service',
      timeout_ms: TIMEOUT,
    },
    thresholds: options.thresholds,
    generators: 1,
    machine: {
      cpu: os.cpus()[0]?.model ?? 'unknown',
      cores: os.availableParallelism(),
      memory_gib: Math.round(os.totalmem() / 2 ** 30),
      node: process.version,
      platform: `${os.platform()} ${os.release()}`,
    },
    totals: {
      seconds: rounded(ran.seconds),
      arrivals: ran.arrivals,
      not_begun: ran.not_begun,
      ok_per_second: rounded(ran.ok / ran.seconds),
      ...all,
    },
    generator: { ...ran.generator, cpu: rounded(ran.generator.cpu) },
    operations: Object.fromEntries(used.filter(([, { requests }]) => requests > 0)),
    over_time: samples.overTime(),
    errors: all.errors,
    interrupted: ran.interrupted,
    correctness: judge.correctness(),
    judged: judge.judged(),
    findings: judge.findings(),
    not_seen: options.url === null ? [] : NOT_SEEN,
    ...(rounds && { herd: { rounds, ...judgeGrowth(rounds, ROUNDS.length) } }),
  };
}

/** Refusals of a service that works: its limit of a minute, and a signup again whose answer was lost. */
const IN_ORDER = ['429 rate_limited', '400 username_taken'];

/** Operations that were tried and never succeeded, in words. */
function deadOperations({ operations }: Report): string[] {
  const dead = Object.entries(operations).filter(
    ([, { ok, errors }]) => ok === 0 && Object.keys(errors).some((code) => !IN_ORDER.includes(code)),
  );
  return dead.map(([name, { errors }]) => {
    const codes = Object.entries(errors).map(([code, count]) => `${count} × ${code}`);
    return `${name} never succeeded: ${codes.join(', ')}`;
  });
}

/** Why the run failed, in words; empty if it did not. */
export function failuresOf(report: Report): string[] {
  const broken = Object.entries(report.correctness).filter(([, count]) => count > 0);
  return [...broken.map(([name, count]) => `${name}: ${count}`), ...otherFailures(report)];
}

/** Why it failed, besides broken promises. */
export function otherFailures(report: Report): string[] {
  const { totals, herd } = report;
  const missing = herd?.rounds.reduce((sum, round) => sum + round.missing, 0) ?? 0;
  return [
    ...(totals.ok === 0 ? ['no request was answered 200, so nothing was shown'] : []),
    ...deadOperations(report),
    ...(missing > 0 ? [`${missing} devices did not come back after the outage`] : []),
    ...(herd && growsTooFast(herd)
      ? [`recovery grows faster than the devices: growth ${herd.growth}, at most ${herd.limit}`]
      : []),
    ...overThresholds(report),
  ];
}

function overThresholds({ totals, generator, thresholds }: Report): string[] {
  const { max_p99_ms: p99, max_errors: errors, max_late_ms: late } = thresholds;
  const share = failedShare(totals);
  return [
    ...(isAbove(totals.p99, p99) ? [`the p99 is ${totals.p99} ms, above --max-p99 ${p99}`] : []),
    ...(isAbove(share, errors)
      ? [`${rounded(share * 100)}% of the requests failed, above --max-errors ${errors}`]
      : []),
    ...(isAbove(generator.late_p99_ms, late)
      ? [
          `a generator sent 1% of its requests ${rounded(generator.late_p99_ms)} ms late, above --max-late ${late}`,
        ]
      : []),
  ];
}

function isAbove(value: number | null, most: number | null): value is number {
  return value !== null && most !== null && value > most;
}

/** The share of requests that failed; what was lost on purpose did not. */
export function failedShare({ requests, ok, lost_on_purpose: lost }: Figures): number {
  return requests === 0 ? 0 : (requests - ok - lost) / requests;
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
