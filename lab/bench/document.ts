import { thisMachine, type Machine } from '../table.ts';
import { byteChecks, type BytesReport } from './bytes.ts';
import { compare, type Change } from './comparison.ts';
import type { FloodReport } from './flood.ts';
import type { LoginTimesReport } from './login-times.ts';
import type { MemoryReport } from './memory.ts';
import { OPERATIONS, type Operation } from './operations.ts';
import { limit, type LimitName } from './settings.ts';
import type { InstructionsReport } from './redis-instructions.ts';
import { cpuShare, type SpeedReport } from './speed.ts';
import { stallCheck, type StallReport } from './stall.ts';
import { median } from './statistics.ts';

/** The parts of a run; null for one that was left out. */
export interface Parts {
  speed: SpeedReport;
  flood: FloodReport | null;
  logins: LoginTimesReport | null;
  memory: MemoryReport | null;
  stall: StallReport | null;
  bytes: BytesReport | null;
  /** Absent from documents of an earlier bench. */
  instructions?: InstructionsReport | null;
}

/** All figures of a run: what `--json` prints and docs/benchmarks.json holds. */
export interface BenchDocument extends Parts {
  version: number;
  date: string;
  machine: Machine;
  /** `reference` is what the service is measured beside; the floor if it is absent. */
  settings: { reference?: string; connections: number; rounds: number; seconds: number };
  limits: Check[];
}

/** A figure that has to reach a limit. */
export interface Check {
  setting: LimitName;
  what: string;
  value: number;
  limit: number;
  isMet: boolean;
}

export interface OperationChange extends Change {
  operation: string;
  now: number;
  then: number;
}

/** Figures with another version are not compared. */
const VERSION = 1;

export function makeDocument(
  parts: Parts,
  { settings, isJudged }: { settings: BenchDocument['settings']; isJudged: boolean },
): BenchDocument {
  const document: BenchDocument = {
    version: VERSION,
    date: new Date().toISOString(),
    machine: thisMachine(),
    settings,
    limits: isJudged ? checksOf(parts) : [],
    ...parts,
  };
  return JSON.parse(JSON.stringify(document, shortened)) as BenchDocument;
}

/** Five digits: no figure is known better. */
export function shortened(_name: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value;
}

function checksOf({ speed, flood, logins, stall, bytes, instructions }: Parts): Check[] {
  const least = (setting: LimitName, what: string, value: number): Check => {
    const minimum = limit(setting);
    return { setting, what, value, limit: minimum, isMet: value >= minimum };
  };
  const most = (setting: LimitName, what: string, value: number): Check => {
    const maximum = limit(setting);
    return { setting, what, value, limit: maximum, isMet: value <= maximum };
  };
  const checks = speed.operations.flatMap(({ operation, yardstick, service, floor }) => {
    const { minimum } = OPERATIONS[operation] as { minimum?: LimitName };
    return minimum
      ? [least(minimum, `${operation}, share of the floor’s ${yardstick}`, cpuShare(service, floor))]
      : [];
  });
  const ruled = speed.ruler.find(({ name }) => name === 'service: verify');
  if (ruled) checks.push(least('BENCH_MIN_VERIFY', 'verify, share of the ruler', ruled.share));
  const figuresOf = (name: Operation) =>
    speed.operations.find(({ operation }) => operation === name)?.service;
  const [few, many] = [figuresOf('verify'), figuresOf('verify, many sessions')];
  if (few && many)
    checks.push(
      most('BENCH_MAX_MANY_SESSIONS', 'verify with many sessions, times that with 100', cpuShare(few, many)),
    );
  if (instructions) {
    const { batched, alone } = instructions.service;
    checks.push(most('BENCH_MAX_INSTRUCTIONS', 'instructions of Redis for a verify', batched));
    checks.push(most('BENCH_MAX_INSTRUCTIONS_ALONE', 'the same in a call of its own', alone));
  }
  if (flood) {
    const what = 'p99 of verify in a flood of logins, times the idle one';
    checks.push(most('BENCH_MAX_FLOOD', what, flood.ratio));
  }
  if (logins) checks.push(least('BENCH_MIN_POWER', 'power to see 5% between failed logins', logins.power));
  if (stall) checks.push(stallCheck(stall));
  if (bytes) checks.push(...byteChecks(bytes));
  return checks;
}

/** What to do with the exit code. */
export function hasFailed({ limits, logins, memory }: BenchDocument): boolean {
  return (
    limits.some(({ isMet }) => !isMet) ||
    logins?.tells === true ||
    logins?.isBlind === true ||
    memory?.isOver === true
  );
}

/** Reads committed figures. @returns null if they have another form than today's. */
export function readDocument(text: string): BenchDocument | null {
  const document = JSON.parse(text) as BenchDocument;
  return document.version === VERSION ? document : null;
}

/** Compares shares, not absolute figures: those depend on the machine. */
export function changesBetween(now: BenchDocument, then: BenchDocument): OperationChange[] {
  return now.speed.operations.flatMap(({ operation, yardstick, shares }) => {
    const earlier = then.speed.operations.find(
      (each) => each.operation === operation && each.yardstick === yardstick,
    );
    if (!earlier) return [];
    const change = compare(shares, earlier.shares);
    return [{ operation, now: median(shares), then: median(earlier.shares), ...change }];
  });
}
