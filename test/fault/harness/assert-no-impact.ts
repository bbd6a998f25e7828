import type { Test } from 'tap';
import { eventually } from '../../support/until.ts';
import type { Fleet } from './fleet.ts';
import type { SteadyLoad } from './steady-load.ts';
import { lineOf } from './tally.ts';

/** Ends the load, prints a summary, and asserts that every single request was answered 200 at the first try. */
export async function assertNoImpact(t: Test, what: string, fleet: Fleet): Promise<void> {
  const { tally, nginx } = fleet;
  await assertNoFailure(t, what, fleet);
  // nginx writes a line after the answer is sent.
  await eventually(10, () =>
    Promise.resolve(nginx.passed().length >= tally.requests ? null : 'nginx has not logged every request'),
  );
  const passed = nginx.passed();
  t.equal(passed.length, tally.requests, 'every request went through nginx');
  t.strictSame(
    passed.filter(({ status }) => status !== 200),
    [],
    'nginx forwarded only answers of 200',
  );
}

/** Ends the load, prints a summary, and asserts that no client saw a failure. */
export async function assertNoFailure(t: Test, what: string, { tally, stop }: SteadyLoad): Promise<void> {
  await stop();
  t.comment(lineOf(what, tally));
  t.ok(tally.requests > 0, 'there were requests');
  t.ok(tally.revokedTried > 0, 'revoked tokens were tried');
  t.strictSame(tally.problems.slice(0, 20), [], 'every answer was one of the contract');
  t.strictSame(tally.unavailable, [], 'no answer was 503');
  t.equal(tally.signOuts, 0, 'no user was signed out');
  t.equal(tally.revokedAccepted, 0, 'no revoked token was accepted');
  t.equal(tally.lost, 0, 'no request was lost');
  t.equal(tally.retries, 0, 'no request needed a retry');
}
