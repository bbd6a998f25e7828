import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../../src/domain/clock.ts';
import { makeDevice, type DevicePorts } from './device.ts';
import { makeEndedTokens } from './ended-tokens.ts';
import type { Judge } from './judge.ts';
import type { OpenedDevice } from './prepare.ts';
import { makeSamples, type Samples } from './samples.ts';
import type { Wire } from './wire.ts';

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
  say: (line: string) => void;
}

/** Seconds after which a device counts as missing. */
const PATIENCE = 120;
const ROUNDS = [1, 2, 4];

/** Every device refreshes during the outage, is refused, and comes back as its Retry-After says. */
export async function runHerd(options: HerdOptions): Promise<{ rounds: HerdRound[]; samples: Samples }> {
  const { devices, clock, say } = options;
  const samples = makeSamples(clock.monotonic(), ROUNDS.length * (options.seconds + 10));
  const unit = Math.floor(devices.length / ROUNDS.reduce((sum, each) => sum + each, 0));
  const rounds: HerdRound[] = [];
  let from = 0;
  for (const times of ROUNDS) {
    if (options.signal.aborted) break;
    const round = await runRound(devices.slice(from, from + times * unit), options, samples);
    from += times * unit;
    rounds.push(round);
    const { back, tries, peak_per_second: peak } = round;
    say(
      `${round.devices} devices: half back after ${back.p50 ?? '?'} s, all after ${back.all ?? '?'} s; ` +
        `${tries} requests each, at most ${peak} a second`,
    );
  }
  return { rounds, samples };
}

async function runRound(
  crowd: readonly OpenedDevice[],
  { seconds, setOutage, signal, ...options }: HerdOptions,
  samples: Samples,
): Promise<HerdRound> {
  const { wire, judge, clock, random, lost } = options;
  const over = new AbortController();
  const stop = AbortSignal.any([over.signal, signal]);
  // Each waiting device listens.
  setMaxListeners(0, stop);
  const pause = (ms: number) => sleep(Math.max(0, ms), undefined, { signal: stop }).catch(() => undefined);
  const sent: number[] = [];
  const ended = makeEndedTokens({ wire, judge, samples, clock });
  const ports: DevicePorts = {
    wire: {
      send: (call, loseAfter) => {
        const second = Math.floor(clock.monotonic() / 1000);
        sent[second] = (sent[second] ?? 0) + 1;
        return wire.send(call, loseAfter);
      },
    },
    ...{ judge, samples, clock, random, pause, lost },
    ended,
    isOver: () => stop.aborted,
  };

  setOutage(true);
  const start = clock.monotonic();
  const backAt: number[] = [];
  const running = crowd.map(async ({ name, account, pair }) => {
    const device = makeDevice(ports, name, account, pair);
    const before = pair;
    // People open the app at any moment of the outage.
    const due = start + random() * seconds * 1000;
    await pause(due - clock.monotonic());
    await device.run('refresh', due);
    if (before && !stop.aborted && device.isSignedIn()) backAt.push(clock.monotonic());
  });
  await pause(seconds * 1000);
  setOutage(false);
  const end = clock.monotonic();
  const patience = setTimeout(() => {
    over.abort();
  }, PATIENCE * 1000);
  await Promise.all(running);
  clearTimeout(patience);
  await ended.tryAll();

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

/**
 * How the time until all are back grows with the devices: 1 is linear, below 1 is better than linear. The slope of a
 * line through the first and the last round, on logarithmic axes.
 */
export function growthOf(rounds: readonly Pick<HerdRound, 'devices' | 'back'>[]): number | null {
  const [first, last] = [rounds[0], rounds.at(-1)];
  if (!first?.back.all || !last?.back.all || first.devices === last.devices) return null;
  const slope = Math.log(last.back.all / first.back.all) / Math.log(last.devices / first.devices);
  return Math.round(slope * 100) / 100;
}
