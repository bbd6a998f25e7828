import type { Judge } from './judge.ts';
import type { RunningLoad } from './run.ts';
import { OPERATIONS } from './scenarios.ts';

/** The part of a terminal or a file that the view writes to. */
export interface Screen {
  isTTY?: boolean;
  columns?: number;
  write(text: string): unknown;
}

export interface LiveView {
  /** A line that stays. */
  say(line: string): void;
  /** A bar that replaces itself; on a plain output, a line for each quarter. */
  progress(what: string, done: number, total: number): void;
  /** Shows the run until the returned function is called. */
  follow(run: RunningLoad, options: { seconds: number; judge: Judge }): () => void;
}

const BARS = '▁▂▃▄▅▆▇█';
/** Milliseconds between two pictures, and between two plain lines. */
const PICTURE = 500;
const PLAIN = 5000;

export function makeLiveView(screen: Screen): LiveView {
  let drawn = 0;
  let quarter = -1;
  const wipe = () => {
    if (drawn > 0) screen.write(`\x1b[${drawn}A\x1b[J`);
    drawn = 0;
  };
  const draw = (lines: readonly string[]) => {
    wipe();
    const width = screen.columns ?? 80;
    screen.write(lines.map((line) => `${line.slice(0, width - 1)}\n`).join(''));
    drawn = lines.length;
  };
  const say = (line: string) => {
    wipe();
    screen.write(`${line}\n`);
  };

  return {
    say,
    progress(what, done, total) {
      if (screen.isTTY) {
        const filled = Math.round((30 * done) / total);
        draw([`${what} ${'█'.repeat(filled)}${'░'.repeat(30 - filled)} ${done} of ${total}`]);
        if (done === total) drawn = 0;
        return;
      }
      const now = Math.floor((4 * done) / total);
      if (now !== quarter) say(`${what}: ${done} of ${total}`);
      quarter = now === 4 ? -1 : now;
    },
    follow(run, options) {
      const timer = setInterval(
        () => {
          if (screen.isTTY) draw(picture(run, options));
          else say(plainLine(run, options));
        },
        screen.isTTY ? PICTURE : PLAIN,
      );
      return () => {
        clearInterval(timer);
        wipe();
      };
    },
  };
}

type Options = Parameters<LiveView['follow']>[1];

function picture(run: RunningLoad, { seconds, judge }: Options): string[] {
  const elapsed = Math.max(0, run.elapsed());
  const overTime = run.samples.overTime().slice(-48);
  const rows = OPERATIONS.map((name) => [name, run.samples.of(name)] as const);
  const errors = Object.entries(run.samples.all().errors).sort(([, a], [, b]) => b - a);
  return [
    `${elapsed.toFixed(0).padStart(4)} of ${seconds} s   ${run.crowd.devices()} devices, ${run.crowd.busy()} busy, ${run.crowd.waiting()} arrivals wait`,
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

function plainLine(run: RunningLoad, { seconds, judge }: Options): string {
  const { requests, ok, p50, p99 } = run.samples.all();
  const now = run.samples.overTime().at(-2)?.answered ?? 0;
  return `${run.elapsed().toFixed(0)} of ${seconds} s: ${requests} requests, ${ok} ok, ${now.toFixed(0)} answers a second, median ${ms(p50)}, p99 ${ms(p99)}, ${run.crowd.waiting()} arrivals wait; ${brokenLine(judge)}`;
}

function brokenLine(judge: Judge): string {
  const { sign_outs: out, duplicate_ids: twice, revoked_accepted: accepted } = judge.correctness();
  return `sign-outs ${out}, duplicate ids ${twice}, ended tokens accepted ${accepted}`;
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
