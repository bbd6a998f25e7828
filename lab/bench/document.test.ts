import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { changesBetween, hasFailed, makeDocument, readDocument, type Parts } from './document.ts';
import type { Operation } from './operations.ts';
import { PAGE, pageWith } from '../table.ts';
import { benchText, committedFigures, figuresOf } from './report.ts';
import type { Figures } from './contender.ts';
import type { OperationReport } from './speed.ts';
import { sampleOf } from './statistics.ts';

const OPTIONS = { settings: { connections: 64, rounds: 7, seconds: 1 }, isJudged: true };

/** @param cpu the service's share of the floor by CPU time; that by requests a second if it is absent. */
function operation(name: Operation, yardstick: string, shares: number[], cpu?: number): OperationReport {
  const figures = (perSecond: number, microsAtLeast = 1e6 / perSecond): Figures => ({
    perSecond,
    micros: 1e6 / perSecond,
    serverCpu: 1,
    generatorCpu: 0.5,
    spread: sampleOf([perSecond]),
    cpu: microsAtLeast,
  });
  const share = sampleOf(shares);
  return {
    operation: name,
    yardstick,
    shares,
    share,
    service: figures(30_000 * share.median, 1e6 / (30_000 * (cpu ?? share.median))),
    floor: figures(30_000),
  };
}

function partsOf(...operations: OperationReport[]): Parts {
  const resident = { floor: 80 * 1024 ** 2 };
  return {
    speed: { operations, ruler: [], latencies: [], resident },
    flood: null,
    logins: null,
    memory: null,
    stall: null,
    bytes: null,
  };
}

function documentOf(...operations: OperationReport[]) {
  return makeDocument(partsOf(...operations), OPTIONS);
}

const seven = (share: number) => Array.from({ length: 7 }, (_, i) => share * (1 + (i - 3) / 100));

test('a share below its limit fails the run, and one at the limit passes', (t) => {
  const missed = documentOf(operation('refresh', 'refresh', seven(0.74)));
  t.match(missed.limits, [{ setting: 'BENCH_MIN_REFRESH', value: 0.74, limit: 0.75, isMet: false }]);
  t.equal(hasFailed(missed), true);
  t.match(benchText(missed, null), /BENCH_MIN_REFRESH .* at least 0\.75 \| 0\.74 \| FAIL/);

  const met = documentOf(operation('refresh', 'refresh', seven(0.75)));
  t.match(met.limits, [{ isMet: true }]);
  t.equal(hasFailed(met), false);
  t.match(benchText(met, null), /BENCH_MIN_REFRESH .* 0\.75 \| pass/);
  t.end();
});

test('a limit judges CPU time, not requests a second', (t) => {
  t.equal(hasFailed(documentOf(operation('refresh', 'refresh', seven(0.5), 0.76))), false);
  t.equal(hasFailed(documentOf(operation('refresh', 'refresh', seven(0.9), 0.74))), true);
  t.end();
});

test('verify is judged beside the ruler, and with many sessions beside itself', (t) => {
  const report = operation('verify', 'verify', seven(0.8));
  const beside = (share: number) => {
    const ruler = [{ name: 'service: verify', figures: report.service, ruler: report.floor, share }];
    return makeDocument({ ...partsOf(), speed: { ...partsOf().speed, ruler } }, OPTIONS);
  };
  t.match(beside(0.55).limits, [{ setting: 'BENCH_MIN_VERIFY', isMet: true }]);
  t.equal(hasFailed(beside(0.54)), true);

  const many = (share: number) =>
    documentOf(report, operation('verify, many sessions', 'verify', seven(share)));
  t.match(many(0.8 / 1.19).limits, [{ setting: 'BENCH_MAX_MANY_SESSIONS', isMet: true }]);
  t.equal(hasFailed(many(0.8 / 1.21)), true);
  t.end();
});

test('the instructions of Redis are judged for a token in a batch, and for one alone', (t) => {
  const counted = (batched: number, alone: number) =>
    makeDocument(
      { ...partsOf(), instructions: { verifies: 64, service: { batched, alone }, reference: null } },
      OPTIONS,
    );
  t.equal(hasFailed(counted(45_000, 59_000)), false);
  t.equal(hasFailed(counted(45_001, 59_000)), true);
  t.equal(hasFailed(counted(45_000, 59_001)), true);
  t.match(benchText(counted(44_321, 50_000), null), /32 tokens in a call \| 44,321/);
  t.end();
});

test('every limit of a share applies to its operation, and the others have none', (t) => {
  const names = [
    'static document',
    'introspection',
    'refresh',
    'client_credentials',
    'login',
    'JWKS',
    'logout',
  ] as const;
  const { limits } = documentOf(...names.map((name) => operation(name, 'verify', [1])));
  t.strictSame(
    limits.map(({ setting, limit }) => [setting, limit]),
    [
      ['BENCH_MIN_STATIC', 0.7],
      ['BENCH_MIN_INTROSPECTION', 0.5],
      ['BENCH_MIN_REFRESH', 0.75],
      ['BENCH_MIN_CREDENTIALS', 0.7],
      ['BENCH_MIN_LOGIN', 0.95],
      ['BENCH_MIN_LOGOUT', 0.6],
    ],
  );
  t.end();
});

test('verify in a flood of logins fails above three times the idle p99', (t) => {
  const flood = (ratio: number) => {
    const rounds: [] = [];
    const parts = {
      ...partsOf(),
      flood: { ratio, ratios: [ratio], perSecond: { verify: 1, logins: 1 }, rounds },
    };
    return hasFailed(makeDocument(parts, OPTIONS));
  };
  t.equal(flood(3), false);
  t.equal(flood(3.1), true);
  t.end();
});

test('a session fails above 200 bytes in Redis, or above 250 in PostgreSQL after refreshes', (t) => {
  const documentWith = (session: number, refreshed: number) =>
    makeDocument(
      {
        ...partsOf(),
        bytes: {
          redis: { sessions: 1, used: 999, user: 999, session, encoding: 'listpack' },
          postgres: { sessions: 1, refreshes: 10, fresh: 999, refreshed, parts: [], hot: 0.5, vacuums: 2 },
        },
      },
      OPTIONS,
    );
  const met = documentWith(200, 250);
  t.equal(hasFailed(met), false);
  t.match(benchText(met, null), /token with indexes, refreshed 10 times \| 250 \| 50\.0% of updates/);
  for (const [session, refreshed, setting] of [
    [200.5, 250, 'BENCH_MAX_REDIS_BYTES'],
    [200, 250.5, 'BENCH_MAX_POSTGRES_BYTES'],
  ] as const) {
    const missed = documentWith(session, refreshed);
    t.equal(hasFailed(missed), true);
    t.match(benchText(missed, null), new RegExp(`${setting} .* at most .* FAIL`));
  }
  t.end();
});

test('a full cache of tokens fails if each fill stops the event loop for more than 20 ms', (t) => {
  const documentWith = (...longest: number[]) =>
    makeDocument({ ...partsOf(), stall: { tokens: 1_000_000, longest } }, OPTIONS);
  t.equal(hasFailed(documentWith(31, 20, 25)), false);
  const missed = documentWith(31, 20.1, 25);
  t.equal(hasFailed(missed), true);
  t.match(benchText(missed, null), /BENCH_MAX_STALL .* at most 20 .* FAIL/);
  t.end();
});

test('without judgement there is no limit', (t) => {
  const parts = partsOf(operation('verify', 'verify', seven(0.1)));
  const smoke = makeDocument(parts, { ...OPTIONS, isJudged: false });
  t.strictSame(smoke.limits, []);
  t.equal(hasFailed(smoke), false);
  t.end();
});

test('a run is compared with the committed shares', (t) => {
  const then = documentOf(
    operation('verify', 'verify', seven(0.5)),
    operation('refresh', 'refresh', seven(0.5)),
    operation('JWKS', 'hello', seven(0.5)),
  );
  const now = documentOf(
    operation('verify', 'verify', seven(0.4)),
    operation('refresh', 'refresh', seven(0.49)),
    operation('JWKS', 'another', seven(0.1)),
    operation('login', 'scrypt', seven(0.9)),
  );
  t.match(changesBetween(now, then), [
    { operation: 'verify', verdict: 'slower', now: 0.4, then: 0.5 },
    { operation: 'refresh', verdict: 'same' },
  ]);
  t.equal(changesBetween(now, then).length, 2, 'neither another yardstick nor a new operation');
  t.match(benchText(now, then), /verify \| 0\.40 \| 0\.50 \| −20\.0% \| 0\.\d+ \| SLOWER/);
  t.match(benchText(now, null), 'no figures are committed');
  t.notMatch(benchText(now, undefined), 'committed');
  t.end();
});

test('figures survive the file, and those of another version are left out', (t) => {
  const document = documentOf(operation('verify', 'verify', seven(1 / 3)));
  t.strictSame(readDocument(JSON.stringify(document)), document);
  t.equal(document.speed.operations[0]?.share.median, 0.33333);
  t.equal(readDocument(JSON.stringify({ ...document, version: 0 })), null);
  t.end();
});

test('docs/performance.md shows docs/benchmarks.json', async (t) => {
  const page = readFileSync(PAGE, 'utf8');
  t.equal(await pageWith(page, figuresOf(committedFigures())), page);
});

test('new figures replace those on the page, and nothing else', async (t) => {
  const page = readFileSync(PAGE, 'utf8');
  const first = await pageWith(page, figuresOf(documentOf(operation('verify', 'verify', seven(0.61)))));
  t.match(first, /\| verify +\| 18,300 +\|.*\| 0\.61 \(/);
  t.match(first, 'By `npm run bench -- --save`');
  t.match(first, /Machine: .*, \d+ cores, Node/);
  const second = await pageWith(first, figuresOf(documentOf(operation('verify', 'verify', seven(0.72)))));
  t.notMatch(second, '0.61');
  t.equal(await pageWith(second, figuresOf(committedFigures())), page);
  await t.rejects(pageWith('# No place\n', figuresOf(null)), /no place for figures/);
});
