import { test } from 'tap';
import { runDoctor } from '../support/doctor.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';

test('user skeletons reports how many it filled and which look alike; doctor reports the rest; both by id only', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  await sql(
    DATABASE_URL,
    `INSERT INTO users (id, username, email, name, password_hash)
     VALUES (11, 'pay', 'a@example.com', 'Ada', ''), (12, 'рау', 'b@example.com', 'Ada', ''), (13, 'zoë', 'c@example.com', 'Ada', '')`,
  );
  const before = await runDoctor({ DATABASE_URL });
  t.match(before.findings, { usernames: [{ state: 'warn', found: /^3 accounts have no skeleton/ }] });

  const first = await latchkey(['user', 'skeletons', '--json'], { DATABASE_URL });
  t.equal(first.code, 0, first.stderr);
  t.strictSame(JSON.parse(first.stdout), { filled: 2, colliding: [12] });
  const again = await latchkey(['user', 'skeletons'], { DATABASE_URL });
  t.match(again, { code: 0, stdout: /^0 accounts got .* 1 look like an older account .* ids 12\n$/ });

  const after = await runDoctor({ DATABASE_URL });
  t.match(after.findings, { usernames: [{ state: 'warn', found: /ids 12$/ }] });
  t.notMatch(first.stdout + again.stdout + JSON.stringify(after.findings), /pay|рау|example/);

  await sql(DATABASE_URL, 'DELETE FROM users WHERE id = 12');
  t.match((await latchkey(['user', 'skeletons'], { DATABASE_URL })).stdout, /no username looks like/);
  t.match((await runDoctor({ DATABASE_URL })).findings, { usernames: [{ state: 'ok' }] });
});

test('user skeletons refuses a name', async (t) => {
  t.equal((await latchkey(['user', 'skeletons', 'ada'])).code, 2);
});
