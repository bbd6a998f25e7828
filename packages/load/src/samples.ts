import { makeHistogram, type BucketCounts, type Histogram } from './histogram.ts';
import { OPERATIONS } from './scenarios.ts';
import { LOST, TIMED_OUT, TIMEOUT } from './wire.ts';

export type SampledOperation = (typeof OPERATIONS)[number];

/** One request. Times in milliseconds, by one monotonic clock. */
export interface Sample {
  operation: SampledOperation;
  /** When it was to be sent: at its arrival; for a retry, when its wait was over. */
  due: number;
  done: number;
  /** As in a Reply. */
  code: string;
}

/** The figures of one operation, or of all. */
export interface Figures {
  requests: number;
  ok: number;
  lost_on_purpose: number;
  /** Requests without an answer in time. */
  timeouts: number;
  /**
   * From the due time to the answer or the timeout, in milliseconds. A timeout counts as TIMEOUT at least: without it, the
   * worst requests would make the figures better. A lost or refused connection does not count.
   */
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  p999: number | null;
  max: number | null;
  /** The same latencies in buckets, from which a merge computes its percentiles. */
  histogram: BucketCounts;
  errors: Record<string, number>;
}

export interface Interval {
  /** Seconds from the start of the run to the start of this interval. */
  second: number;
  /** Requests that were due in it, and answers that came in it, a second. */
  offered: number;
  answered: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  histogram: BucketCounts;
  /** Requests due in it that failed, by code. */
  errors: Record<string, number>;
}

export interface Samples {
  record(sample: Sample): void;
  /** Of the devices' requests, without the ended tokens that the kit presents. */
  all(): Figures;
  of(operation: SampledOperation): Figures;
  overTime(): Interval[];
}

interface Counts {
  codes: Map<string, number>;
  /** Latencies of answers and timeouts. */
  took: Histogram;
}

/** Points on a chart; more cannot be told apart. */
const MAX_INTERVALS = 240;

/** Seconds of an interval of a run that takes so many. */
export function intervalOf(seconds: number): number {
  return Math.max(1, Math.ceil(seconds / MAX_INTERVALS));
}

/** @param start of the run by the clock of the samples. @param seconds how long it takes, roughly. */
export function makeSamples(start: number, seconds: number): Samples {
  const length = intervalOf(seconds);
  const operations = new Map(OPERATIONS.map((name) => [name, makeCounts()]));
  const due: Counts[] = [];
  const done: number[] = [];
  const indexOf = (time: number) => Math.max(0, Math.floor((time - start) / 1000 / length));

  return {
    record(sample) {
      count(operations.get(sample.operation) ?? makeCounts(), sample);
      if (sample.operation === 'ended') return;
      const at = indexOf(sample.due);
      count((due[at] ??= makeCounts()), sample);
      if (!isAnswer(sample.code)) return;
      const end = indexOf(sample.done);
      done[end] = (done[end] ?? 0) + 1;
    },
    all: () => figuresOf([...operations].filter(([name]) => name !== 'ended').map(([, counts]) => counts)),
    of: (operation) => figuresOf([operations.get(operation) ?? makeCounts()]),
    overTime: () =>
      Array.from({ length: Math.max(due.length, done.length) }, (_, at) => {
        const { requests, p50, p90, p99, histogram, errors } = figuresOf([due[at] ?? makeCounts()]);
        const answered = (done[at] ?? 0) / length;
        const rates = { second: at * length, offered: requests / length, answered };
        return { ...rates, p50, p90, p99, histogram, errors };
      }),
  };
}

function makeCounts(): Counts {
  return { codes: new Map(), took: makeHistogram() };
}

function count({ codes, took }: Counts, { due, done, code }: Sample): void {
  codes.set(code, (codes.get(code) ?? 0) + 1);
  if (isAnswer(code)) took.add(done - due);
  else if (code === TIMED_OUT) took.add(Math.max(TIMEOUT, done - due));
}

/** Whether the service answered, with any status. */
function isAnswer(code: string): boolean {
  return code === 'ok' || /^\d/.test(code);
}

/** The figures of several generators as one's: counts add up, and percentiles come from the buckets of all. */
export function sumOf(figures: readonly Figures[]): Figures {
  return figuresOf(
    figures.map(({ ok, lost_on_purpose: lost, max, histogram, errors }) => {
      const took = makeHistogram();
      took.addCounts(histogram, max ?? 0);
      return { codes: new Map([['ok', ok], [LOST, lost], ...Object.entries(errors)]), took };
    }),
  );
}

function figuresOf(parts: readonly Counts[]): Figures {
  const took = makeHistogram();
  const codes: Record<string, number> = {};
  for (const part of parts) {
    took.addAll(part.took);
    for (const [code, times] of part.codes) codes[code] = (codes[code] ?? 0) + times;
  }
  const { ok = 0, [LOST]: lost = 0, ...errors } = codes;
  const at = (share: number) => rounded(took.percentile(share));
  return {
    requests: Object.values(codes).reduce((sum, times) => sum + times, 0),
    ok,
    lost_on_purpose: lost,
    timeouts: errors[TIMED_OUT] ?? 0,
    p50: at(0.5),
    p90: at(0.9),
    p95: at(0.95),
    p99: at(0.99),
    p999: at(0.999),
    max: rounded(took.max()),
    histogram: took.toCounts(),
    errors,
  };
}

/** To 0.01 ms. */
function rounded(ms: number | null): number | null {
  return ms === null ? null : Math.round(ms * 100) / 100;
}
