import type { HerdRound, RoundProgress, RunningHerd } from './herd.ts';
import type { Judge } from './judge.ts';
import { bar, type Picture } from './live-view.ts';
import type { RunningLoad } from './run.ts';
import type { Samples } from './samples.ts';
import { OPERATIONS } from './scenarios.ts';

const BARS = '▁▂▃▄▅▆▇█';

/** An open loop. */
export function loadPicture(
  { samples, crowd, elapsed }: RunningLoad,
  { seconds, judge }: { seconds: number; judge: Judge },
): Picture {
  const now = Math.max(0, elapsed()).toFixed(0);
  return {
    lines: [
      `${now.padStart(4)} of ${seconds} s   ${crowd.devices()} devices, ${crowd.busy()} busy, ${crowd.waiting()} arrivals wait`,
      ...samplesLines(samples, judge),
    ],
    plain: `${now} of ${seconds} s: ${samplesText(samples)}, ${crowd.waiting()} arrivals wait; ${brokenLine(judge)}`,
  };
}

/** All rounds of a herd: those that are over keep their line. */
export function herdPicture({ samples, rounds }: RunningHerd, judge: Judge): Picture {
  const last = rounds.at(-1);
  const now = last ? `${last.devices} devices: ${progressText(last)}` : 'not begun';
  return {
    lines: [
      ...rounds.map(
        (round) =>
          `${String(round.devices).padStart(7)} devices ${bar(round.back, round.devices)} ${progressText(round)}`,
      ),
      ...samplesLines(samples, judge),
    ],
    plain: `${now}; ${samplesText(samples)}; ${brokenLine(judge)}`,
  };
}

function progressText({ back, sinceOutage, result }: RoundProgress): string {
  if (result) return `all back after ${result.back.all ?? '?'} s`;
  const since = sinceOutage() ?? 0;
  return since < 0
    ? `PostgreSQL is down for ${(-since).toFixed(0)} s more`
    : `${back} back, ${since.toFixed(0)} s after the outage`;
}

/** A round that is over. */
export function roundLine({ devices, back, tries, peak_per_second: peak }: HerdRound): string {
  return (
    `${devices} devices: half back after ${back.p50 ?? '?'} s, all after ${back.all ?? '?'} s; ` +
    `${tries} requests each, at most ${peak} a second`
  );
}

function samplesLines(samples: Samples, judge: Judge): string[] {
  const overTime = samples.overTime().slice(-48);
  const rows = OPERATIONS.map((name) => [name, samples.of(name)] as const);
  const errors = Object.entries(samples.all().errors).sort(([, a], [, b]) => b - a);
  return [
    '',
    `answers a second  ${spark(overTime.map(({ answered }) => answered))} ${overTime.at(-2)?.answered.toFixed(0) ?? ''}`,
    `p99               ${spark(overTime.map(({ p99 }) => Math.log10(1 + (p99 ?? 0))))} ${ms(overTime.at(-2)?.p99)}`,
    '',
    `${'operation'.padEnd(11)}${['requests', 'ok', 'median', 'p99', 'longest'].map((name) => name.padStart(11)).join('')}`,
    ...rows
      .filter(([, { requests }]) => requests > 0)
      .map(
        ([name, { requests, ok, p50, p99, max }]) =>
          name.padEnd(11) +
          [requests, ok, ms(p50), ms(p99), ms(max)].map((cell) => String(cell).padStart(11)).join(''),
      ),
    '',
    `failed: ${errors.map(([code, count]) => `${count} × ${code}`).join(', ') || 'none'}`,
    brokenLine(judge),
  ];
}

function samplesText(samples: Samples): string {
  const { requests, ok, p50, p99 } = samples.all();
  const now = samples.overTime().at(-2)?.answered ?? 0;
  return `${requests} requests, ${ok} ok, ${now.toFixed(0)} answers a second, median ${ms(p50)}, p99 ${ms(p99)}`;
}

function brokenLine(judge: Judge): string {
  const {
    sign_outs: out,
    duplicate_ids: twice,
    revoked_accepted: accepted,
    good_refused: refused,
    wrong_user: wrong,
  } = judge.correctness();
  return `sign-outs ${out}, duplicate ids ${twice}, ended tokens accepted ${accepted}, good tokens refused ${refused}, wrong users ${wrong}`;
}

/** One character a value, by its height. */
export function spark(values: readonly number[]): string {
  const most = Math.max(...values, 1e-9);
  return values
    .map((value) => BARS[Math.min(BARS.length - 1, Math.floor((value / most) * BARS.length))])
    .join('');
}

function ms(value: number | null | undefined): string {
  return value === null || value === undefined
    ? 'none'
    : `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
}
