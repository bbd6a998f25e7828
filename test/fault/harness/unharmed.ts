import type { Test } from 'tap';
import { eventually } from './eventually.ts';
import type { Fleet } from './fleet.ts';
import { lineOf } from './tally.ts';

/** Ends the load, says in one line what was seen, and holds that every single request was answered 200 at once. */
export async function unharmed(t: Test, what: string, fleet: Fleet): Promise<void> {
  const { tally, nginx } = fleet;
  await fleet.stop();
  // It writes a line when the answer has gone.
  await eventually(10, () =>
    Promise.resolve(nginx.passed().length >= tally.requests ? null : 'nginx has not logged every request'),
  );
  const passed = nginx.passed();
  t.comment(lineOf(what, tally));
  t.ok(tally.requests > 0, 'there were requests');
  t.ok(tally.revokedTried > 0, 'revoked tokens were tried');
  t.strictSame(tally.problems.slice(0, 20), [], 'every answer was one of the contract');
  t.strictSame(tally.unavailable, [], 'nothing was unavailable');
  t.equal(tally.signOuts, 0, 'nobody was signed out');
  t.equal(tally.revokedAccepted, 0, 'no revoked token was accepted');
  t.equal(tally.lost, 0, 'no request was lost');
  t.equal(tally.retries, 0, 'none had to be sent again');
  t.equal(passed.length, tally.requests, 'all went through nginx');
  t.strictSame(
    passed.filter(({ status }) => status !== 200),
    [],
    'nginx passed on nothing but 200',
  );
}
