import { test } from 'tap';
import { makeRandom } from '../../test/support/random.ts';
import { powerOf, signedRank } from './signed-rank.ts';

test('p equals that of the published tables', (t) => {
  const oneToTwenty = Array.from({ length: 20 }, (_, i) => i + 1);
  // All of 20 on one side: W = 210, by the normal approximation z = 3.90.
  t.ok(Math.abs(signedRank(oneToTwenty) - 0.0000957) < 0.000005, `${signedRank(oneToTwenty)}`);
  t.equal(signedRank(oneToTwenty), signedRank(oneToTwenty.map((each) => -each)));
  t.ok(signedRank(oneToTwenty.map((each) => (each % 2 === 0 ? each : -each))) > 0.5);
  t.equal(signedRank([0, 0]), 1);
  t.end();
});

test('finds a difference of 5% in noise of 3%, and finds none if there is none', (t) => {
  const { between } = makeRandom(7);
  const random = () => between(0, 1);
  const noise = () => 0.03 * (random() + random() + random() + random() - 2) * Math.sqrt(3);
  const rounds = Array.from({ length: 30 }, noise);
  t.ok(signedRank(rounds) > 0.001);
  t.ok(signedRank(rounds.map((each) => each + Math.log(1.05))) < 0.001);
  const options = { shift: Math.log(1.05), alpha: 0.001, random };
  t.ok(powerOf(rounds, options) > 0.99);
  t.ok(powerOf(rounds, { ...options, shift: 0 }) < 0.02, 'no false finding');
  t.ok(powerOf(rounds.slice(0, 4), options) < 0.01, 'four rounds are too few');
  t.end();
});
