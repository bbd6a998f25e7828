import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeDevice, type DevicePorts } from './device.ts';
import { makeEndedTokens } from './ended-tokens.ts';
import { makeFailing } from './failing.ts';
import type { Judge } from './judge.ts';
import type { OpenedDevice } from './prepare.ts';
import { makeSamples, type Samples } from './samples.ts';
import type { Wire } from './wire.ts';
import type { Clock } from './schedule.ts';

/** One outage with so many devices. Times in seconds from the end of the outage. */
export interface HerdRound {
  devices: number;
  /** When half, 90%, 99% and all of the devices had refreshed; null if they had not. */
  back: Record<'p50' | 'p90' | 'p99' | 'all', number | null>;
  /** Devices that were not back in time. */
  missing: number;
  /** Requests that each device sent, on average. */
  tries: number;
  /** The most requests of one second. */
  peak_per_second: number;
  /** The share of devices back, at each tenth of a second. */
  curve: number[];
}

export interface HerdOptions {
  /** The first round's share of the devices is a seventh: the rounds have N, 2N and 4N. */
  devices: readonly OpenedDevice[];
  /** How long the outage lasts, in seconds. */
  seconds: number;
  lost: number;
  wire: Wire;
  judge: Judge;
  clock: Clock;
  random: () => number;
  signal: AbortSignal;
  /** Begins and ends the outage. */
  setOutage: (isOut: boolean) => void;
  /** Called once at the start. */
  watch?: (run: RunningHerd) => void;
}

/** For the live view: all rounds of one run. */
export interface RunningHerd {
  samples: Samples;
  /** The rounds that have begun; the last one may still run. */
  rounds: readonly RoundProgress[];
}

export interface RoundProgress {
  devices: number;
  /** Devices that have refreshed. */
  back: number;
  /** Seconds since the outage's end, negative before it; null once the round is over. */
  sinceOutage: () => number | null;
  /** null until the round is over. */
  result: HerdRound | null;
}

/** Seconds after which a device counts as missing. */
const PATIENCE = 120;
/** The devices of the rounds, as multiples of N. */
export const ROUNDS = [1, 2, 4];

/**
 * Every device refreshes during the outage, is refused, and comes back as its Retry-After says.
 * @throws LoadError if a device cannot go on
 */
export async function runHerd(options: HerdOptions): Promise<{ rounds: HerdRound[]; samples: Samples }> {
  const { devices, clock } = options;
  const samples = makeSamples(clock.monotonic(), ROUNDS.length * (options.seconds + 10));
  const unit = Math.floor(devices.length / ROUNDS.reduce((sum, each) => sum + each, 0));
  const rounds: HerdRound[] = [];
  const progress: RoundProgress[] = [];
  options.watch?.({ samples, rounds: progress });
  let from = 0;
  for (const times of ROUNDS) {
    if (options.signal.aborted) break;
    const crowd = devices.slice(from, from + times * unit);
    const own: RoundProgress = { devices: crowd.length, back: 0, sinceOutage: () => null, result: null };
    progress.push(own);
    own.result = await runRound(crowd, options, { samples, progress: own });
    own.sinceOutage = () => null;
    rounds.push(own.result);
    from += times * unit;
  }
  return { rounds, samples };
}

async function runRound(
  crowd: readonly OpenedDevice[],
  { seconds, setOutage, signal, ...options }: HerdOptions,
  { samples, progress }: { samples: Samples; progress: RoundProgress },
): Promise<HerdRound> {
  const { wire, judge, clock, random, lost } = options;
  const over = new AbortController();
  const stop = AbortSignal.any([over.signal, signal]);
  const failing = makeFailing(() => {
    over.abort();
  });
  // Each waiting device listens.
  setMaxListeners(0, stop);
  const pause = (ms: number) => sleep(Math.max(0, ms), undefined, { signal: stop }).catch(() => undefined);
  const sent: number[] = [];
  const ended = makeEndedTokens({ wire, judge, samples, clock });
  const ports: DevicePorts = {
    wire: {
      send: (call, loseAfter) => {
        const second = Math.floor(clock.monotonic() / 1e3);
        sent[second] = (sent[second] ?? 0) + 1;
        return wire.send(call, loseAfter);
      },
    },
    judge,
    samples,
    clock,
    random,
    pause,
    lost,
    ended,
    isOver: () => stop.aborted,
  };

  setOutage(true);
  const start = clock.monotonic();
  progress.sinceOutage = () => (clock.monotonic() - start) / 1000 - seconds;
  const backAt: number[] = [];
  const comeBack = async ({ name, account, pair }: OpenedDevice) => {
    const device = makeDevice(ports, name, account, pair);
    const before = pair;
    // People open the app at any moment of the outage.
    const due = start + random() * seconds * 1000;
    await pause(due - clock.monotonic());
    await device.run('refresh', due);
    if (before && !stop.aborted && device.isSignedIn()) progress.back = backAt.push(clock.monotonic());
  };
  const running = crowd.map((each) => comeBack(each).catch(failing.fail));
  await pause(seconds * 1000);
  setOutage(false);
  const end = clock.monotonic();
  const patience = setTimeout(() => {
    over.abort();
  }, PATIENCE * 1000);
  await Promise.all(running);
  clearTimeout(patience);
  failing.check();
  await ended.tryAll(signal);

  const requests = sent.reduce((sum, each) => sum + each, 0);
  return {
    ...summary(
      backAt.map((at) => at - end),
      crowd.length,
    ),
    tries: Math.round((requests / crowd.length) * 10) / 10,
    peak_per_second: Math.max(0, ...sent.filter(Number.isFinite)),
  };
}

/** @param times milliseconds from the end of the outage to each device's success. */
export function summary(
  times: readonly number[],
  devices: number,
): Pick<HerdRound, 'devices' | 'back' | 'missing' | 'curve'> {
  const sorted = times.map((ms) => Math.max(0, ms)).sort((a, b) => a - b);
  const at = (share: number) => {
    const ms = sorted[Math.ceil(devices * share) - 1];
    return ms === undefined ? null : Math.round(ms / 10) / 100;
  };
  const tenths = Math.ceil((sorted.at(-1) ?? 0) / 100);
  return {
    devices,
    back: { p50: at(0.5), p90: at(0.9), p99: at(0.99), all: at(1) },
    missing: devices - times.length,
    curve: Array.from(
      { length: tenths + 1 },
      (_, tenth) => times.filter((ms) => ms <= tenth * 100).length / devices,
    ),
  };
}
