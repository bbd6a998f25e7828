import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { pace } from './pace.ts';
import type { Account } from './accounts.ts';
import { makeCrowd, makeDraw, type Crowd } from './crowd.ts';
import { makeDevice, type DevicePorts } from './device.ts';
import { makeEndedTokens } from './ended-tokens.ts';
import { makeFailing } from './failing.ts';
import { makeHistogram } from './histogram.ts';
import type { Judge } from './judge.ts';
import type { OpenedDevice } from './prepare.ts';
import { makeSamples, type Samples } from './samples.ts';
import { type Clock, makeSchedule } from './schedule.ts';
import type { Scenario } from './scenarios.ts';
import type { Wire } from './wire.ts';

export interface RunOptions {
  scenario: Pick<Scenario, 'shape' | 'mix'>;
  rate: number;
  seconds: number;
  /** The share of answers that devices lose on purpose. */
  lost: number;
  devices: readonly OpenedDevice[];
  /** The account of a user who signs up. */
  newAccount: (i: number) => Account;
  wire: Wire;
  judge: Judge;
  clock: Clock;
  random: () => number;
  /** Ends the run early. */
  signal: AbortSignal;
  /** Called once at the start. */
  watch?: (run: RunningLoad) => void;
}

/** For the live view. */
export interface RunningLoad {
  samples: Samples;
  crowd: Crowd;
  /** Seconds since the start. */
  elapsed: () => number;
}

export interface RunResult {
  samples: Samples;
  /** Seconds from the first arrival to the end of the schedule. */
  seconds: number;
  /** Answers with 200 in that time. */
  ok: number;
  arrivals: number;
  /** Arrivals for which no device was free before the end. */
  not_begun: number;
  generator: { late_p99_ms: number | null; cpu: number };
}

/** Ended tokens presented a second. */
const ENDED_PER_SECOND = 20;

/** Milliseconds between the warm-up of this process and the first arrival. */
const LEAD = 50;

/**
 * Runs a scenario's open loop, and then presents every remembered ended token once more.
 * @throws LoadError if a device cannot go on
 */
export async function runScenario(options: RunOptions): Promise<RunResult> {
  const { scenario, rate, seconds, wire, judge, clock, random } = options;
  const schedule = makeSchedule(scenario.shape, { rate, seconds });
  const over = new AbortController();
  const signal = AbortSignal.any([over.signal, options.signal]);
  const failing = makeFailing(() => {
    over.abort();
  });
  // Each waiting device listens.
  setMaxListeners(0, signal);
  const isOver = () => signal.aborted;
  const cpu = process.cpuUsage();
  const start = clock.monotonic() + LEAD;
  const samples = makeSamples(start, seconds);
  const ended = makeEndedTokens({ wire, judge, samples, clock });
  const pause = (ms: number) => sleep(Math.max(0, ms), undefined, { signal }).catch(() => undefined);
  const ports: DevicePorts = {
    wire,
    judge,
    ended,
    samples,
    clock,
    random,
    pause,
    isOver,
    lost: options.lost,
  };

  const devices = options.devices.map(({ name, account, pair }) => makeDevice(ports, name, account, pair));
  let newcomers = 0;
  const makeNewcomer = () => {
    const i = newcomers++;
    return makeDevice(ports, `load-newcomer-${i}`, options.newAccount(i));
  };
  const crowd = makeCrowd({ devices, makeNewcomer, random, fail: failing.fail });
  options.watch?.({ samples, crowd, elapsed: () => (clock.monotonic() - start) / 1000 });

  const late = makeHistogram();
  const draw = makeDraw(scenario.mix, random);
  const trying = tryEnded(() => ended.tryOne(), isOver).catch(failing.fail);
  await pace(
    start,
    schedule,
    (due, now) => {
      late.add(now - due);
      crowd.arrive(draw(), due);
    },
    isOver,
  );
  // The schedule may end before its last second.
  await pause(start + seconds * 1000 - clock.monotonic());
  const notBegun = crowd.waiting();
  const took = (clock.monotonic() - start) / 1000;
  const { ok } = samples.all();
  const { user, system } = process.cpuUsage(cpu);
  over.abort();
  await Promise.all([crowd.finish(), trying]);
  failing.check();
  await ended.tryAll(options.signal);
  return {
    samples,
    seconds: took,
    ok,
    arrivals: schedule.total,
    not_begun: notBegun,
    generator: { late_p99_ms: late.percentile(0.99), cpu: (user + system) / 1e6 / took },
  };
}

async function tryEnded(tryOne: () => Promise<void>, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    await Promise.all([tryOne(), sleep(1000 / ENDED_PER_SECOND)]);
  }
}
