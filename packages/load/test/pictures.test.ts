import { test } from 'tap';
import type { HerdRound, RoundProgress } from '../src/herd.ts';
import { makeJudge } from '../src/judge.ts';
import { herdPicture, loadPicture, roundLine, spark } from '../src/pictures.ts';
import { makeSamples } from '../src/samples.ts';

const RESULT: HerdRound = {
  devices: 1000,
  back: { p50: 2, p90: 4, p99: 5, all: 6 },
  missing: 0,
  tries: 1.6,
  peak_per_second: 700,
  curve: [0, 1],
};

function aRound(changes: Partial<RoundProgress>): RoundProgress {
  return { devices: 1000, back: 0, sinceOutage: () => null, result: null, ...changes };
}

test('one picture shows all rounds of the herd', (t) => {
  const samples = makeSamples(0, 10);
  samples.record({ operation: 'refresh', due: 0, done: 20, code: '503 unavailable' });
  const rounds = [
    aRound({ back: 1000, result: RESULT }),
    aRound({ devices: 2000, back: 500, sinceOutage: () => 3.2 }),
  ];
  const { lines, plain } = herdPicture({ samples, rounds }, makeJudge());
  t.match(lines[0], /1000 devices █{30} all back after 6 s$/);
  t.match(lines[1], /2000 devices █{8}░{22} 500 back, 3 s after the outage$/);
  t.ok(lines.some((line) => line.startsWith('refresh')));
  t.match(lines.at(-2), '1 × 503 unavailable');
  t.match(plain, /^2000 devices: 500 back, 3 s after the outage; 1 requests, 0 ok/);
  t.match(plain, 'sign-outs 0');
  t.end();
});

test('a round during the outage says how long it lasts, and one that is over how it went', (t) => {
  const { plain } = herdPicture(
    { samples: makeSamples(0, 10), rounds: [aRound({ sinceOutage: () => -2 })] },
    makeJudge(),
  );
  t.match(plain, '1000 devices: PostgreSQL is down for 2 s more');
  t.match(roundLine(RESULT), /^1000 devices: half back after 2 s, all after 6 s; 1.6 requests each/);
  t.end();
});

test('an open loop shows its devices and its broken promises', (t) => {
  const judge = makeJudge();
  judge.signedOut('a', '401');
  const crowd = {
    devices: () => 20,
    busy: () => 3,
    waiting: () => 1,
    arrive: () => undefined,
    finish: () => Promise.resolve(),
  };
  const run = { samples: makeSamples(0, 10), crowd, elapsed: () => 4.2 };
  const { lines, plain } = loadPicture(run, { seconds: 10, judge });
  t.match(lines[0], '4 of 10 s   20 devices, 3 busy, 1 arrivals wait');
  t.match(lines.at(-1), 'sign-outs 1');
  t.match(plain, /^4 of 10 s: 0 requests.*sign-outs 1/);
  t.end();
});

test('a spark line shows each value by its height', (t) => {
  t.equal(spark([0, 1, 2, 4, 8]), '▁▂▃▅█');
  t.equal(spark([0, 0]), '▁▁');
  t.equal(spark([]), '');
  t.end();
});
