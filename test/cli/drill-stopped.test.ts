import { test } from 'tap';
import { aDrillRange, STEPS } from '../support/drill-range.ts';
import { redisMissing } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';

const skip = { skip: redisMissing };
const URLS = ['/service', 'orders=/service/orders'];

/** Sends a drill the signal while its request of this step waits for an answer. */
async function stoppedAt(
  range: Awaited<ReturnType<typeof aDrillRange>>,
  step: (typeof STEPS)[number],
  signal: NodeJS.Signals,
) {
  const reached = range.hold(step);
  const ran = range.drill(URLS, [], (child) => {
    void reached.then(() => child.kill(signal));
  });
  return ran.finally(() => {
    range.release();
  });
}

test('a drill that is stopped at any step deletes its account first', skip, async (t) => {
  const range = await aDrillRange(t);
  for (const step of STEPS) {
    const ran = await stoppedAt(range, step, 'SIGTERM');
    t.equal(ran.code, 143, `${step}: ${ran.stderr}`);
    t.match(ran.stderr, /the drill was stopped/);
    t.match(ran.audit, [
      { event: 'drill', outcome: 'refused', subject: { user_id: Number }, details: { deleted: true } },
    ]);
    t.strictSame(await range.left(), [], step);
  }
});

test('what killed drills have left, a later one deletes', skip, async (t) => {
  const range = await aDrillRange(t);
  for (const [i, step] of STEPS.entries()) {
    const ran = await stoppedAt(range, step, 'SIGKILL');
    t.equal(ran.code, null, step);
    t.equal((await range.left()).length, i + 1, step);
  }
  const [first] = await range.left();
  const { DATABASE_URL } = range.env;
  await sql(DATABASE_URL, `UPDATE users SET created_at = created_at - interval '61 minutes' WHERE id <> $1`, [
    first?.id,
  ]);
  t.match(JSON.parse((await range.drill(URLS)).stdout), { verdict: 'passed' });
  t.strictSame(await range.left(), [first], 'a younger one may be of a drill that runs');
  const live = await sql(
    DATABASE_URL,
    `SELECT tokens.id FROM tokens JOIN users ON users.id = user_id
      WHERE revoked_at IS NULL AND user_id <> $1`,
    [first?.id],
  );
  t.strictSame(live, [], 'the sessions of the others have ended');
});
