import { join } from 'node:path';
import { test } from 'tap';
import { checkDatabase } from '../../src/doctor/database.ts';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import { aConfig, byCheck } from '../support/doctor.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase } from '../support/postgres.ts';
import { testRecords } from '../support/records.ts';
import { sql } from '../support/sql.ts';

test('purge prints the number of deleted records', async (t) => {
  const { url } = await testDatabase(t);
  t.match(await latchkey(['purge'], { DATABASE_URL: url }), { code: 0, stdout: 'purged 0 records\n' });
  t.strictSame(JSON.parse((await latchkey(['purge', '--json'], { DATABASE_URL: url })).stdout), {
    purged: 0,
  });
});

test('the doctor says when a purge last succeeded, or since when none has', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const found = async () => byCheck(await checkDatabase(aConfig({ DATABASE_URL }))).purge;
  t.match(await found(), [{ state: 'ok', found: /^none has succeeded since 20/ }]);
  await sql(DATABASE_URL, `UPDATE _prisma_migrations SET finished_at = finished_at - interval '4 days'`);
  t.match(await found(), [{ state: 'warn', found: /^none has succeeded since/, todo: /every night/ }]);
  t.match(await latchkey(['purge'], { DATABASE_URL }), { code: 0 });
  t.match(await found(), [{ state: 'ok', found: /^the last one succeeded at/ }]);
  await sql(DATABASE_URL, `UPDATE installation SET at = now() - interval '73 hours'`);
  t.match(await found(), [{ state: 'warn', found: /^the last one succeeded at/ }]);
});

test('purge keeps an expired long-lived token for 30 days', async (t) => {
  const { url: DATABASE_URL, aSession, tokens } = await testRecords(t);
  const { userId } = await aSession(initialState(Date.now() * 1000, ''));
  const expiredFor = async (days: number) => {
    const expiresAt = Date.now() - days * 86_400_000;
    const token = { name: 'x', createdAt: 1, kid: 'a key', expiresAt, createdBy: null };
    return (await tokens.addLongLived(userId, token, 9)) ?? 0;
  };
  const [kept, gone] = [await expiredFor(29), await expiredFor(31)];
  const purged = await latchkey(['purge', '--json'], { DATABASE_URL });
  t.strictSame(JSON.parse(purged.stdout), { purged: 1 });
  t.not(await tokens.find(kept), null);
  t.equal(await tokens.find(gone), null);
});

test('purge keeps ended records for 30 days, even with short lifetimes', async (t) => {
  const { url: DATABASE_URL, aSession, tokens } = await testRecords(t);
  const unusedFor = (days: number, hours = 0) =>
    aSession(initialState((Date.now() - days * 86_400_000 - hours * 3_600_000) * 1000, ''));
  const kept = [await unusedFor(30), await unusedFor(0, 3)];
  const gone = [await unusedFor(30, 2), await unusedFor(59)];
  const file = join(t.testdir({ ttl: '3600' }), 'ttl');
  const purged = await latchkey(['purge', '--json'], { DATABASE_URL, REFRESH_TOKEN_TTL_FILE: file });
  t.strictSame(JSON.parse(purged.stdout), { purged: 2 });
  for (const { tokenId } of kept) t.not(await tokens.find(tokenId), null);
  for (const { tokenId } of gone) t.equal(await tokens.find(tokenId), null);
  const long = await unusedFor(79);
  const TTL = String(40 * 86_400);
  t.match(await latchkey(['purge'], { DATABASE_URL, REFRESH_TOKEN_TTL: TTL }), {
    stdout: 'purged 0 records\n',
  });
  t.not(await tokens.find(long.tokenId), null, 'kept for two lifetimes if that is longer');
});

test('purge deletes devices that are no longer known', async (t) => {
  const { url: DATABASE_URL, aSession } = await testRecords(t);
  const { userId } = await aSession();
  const add = "INSERT INTO known_devices VALUES ($1, 'old', now() - interval '91 days'), ($1, 'new', now())";
  await sql(DATABASE_URL, add, [userId]);
  t.match(await latchkey(['purge'], { DATABASE_URL }), { code: 0 });
  const left = await sql(DATABASE_URL, 'SELECT client FROM known_devices ORDER BY client');
  t.strictSame(left, [{ client: 'client' }, { client: 'new' }], 'that of the session is known too');
});

test('purge deletes second factors that were set up a day ago and never confirmed', async (t) => {
  const { url: DATABASE_URL, aSession } = await testRecords(t);
  const [one, other] = [(await aSession()).userId, (await aSession()).userId];
  await sql(
    DATABASE_URL,
    `INSERT INTO factors (user_id, type, name, created_at, confirmed_at, key_id, secret) VALUES
       ($1, 'totp', 'old', now() - interval '25 hours', NULL, 'k', ''),
       ($2, 'totp', 'new', now() - interval '23 hours', NULL, 'k', ''),
       ($2, 'totp', 'confirmed', now() - interval '25 hours', now(), 'k', '')`,
    [one, other],
  );
  t.match(await latchkey(['purge'], { DATABASE_URL }), { code: 0 });
  const left = await sql<{ name: string }>(DATABASE_URL, 'SELECT name FROM factors ORDER BY id');
  t.strictSame(
    left.map(({ name }) => name),
    ['new', 'confirmed'],
  );
});

test('purge deletes mails that are wanted no longer, and tokens that have expired', async (t) => {
  const { url: DATABASE_URL, aSession } = await testRecords(t);
  const [old, present] = [(await aSession()).userId, (await aSession()).userId];
  await sql(
    DATABASE_URL,
    `INSERT INTO wanted_mails (user_id, kind, wanted_at, settled_at) VALUES
       ($1, 'password_reset', now() - interval '61 minutes', NULL),
       ($1, 'password_reset', now() - interval '61 minutes', now()),
       ($2, 'password_reset', now() - interval '59 minutes', now())`,
    [old, present],
  );
  await sql(
    DATABASE_URL,
    `INSERT INTO mailed_tokens (user_id, kind, token_hash, expires_at) VALUES
       ($1, 'password_reset', 'old', now() - interval '1 second'),
       ($2, 'email_change', 'new', now() + interval '1 minute')`,
    [old, present],
  );
  t.match(await latchkey(['purge'], { DATABASE_URL }), { code: 0 });
  for (const table of ['wanted_mails', 'mailed_tokens'])
    t.strictSame(
      (await sql<{ user_id: string }>(DATABASE_URL, `SELECT user_id FROM ${table}`)).map(
        (row) => row.user_id,
      ),
      [String(present)],
      table,
    );
});
