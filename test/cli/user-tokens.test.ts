import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { anAccount, call, claimsOf, createLongLived, logIn, signUp } from '../support/client.ts';
import { latchkey } from '../support/latchkey.ts';
import { sql } from '../support/sql.ts';

interface Listed {
  tokens: Record<string, unknown>[];
  ended: Record<string, unknown>[];
  ended_next?: null;
}

test('user tokens shows an operator the owner’s view', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const account = anAccount();
  const stolen = await signUp(target, account);
  const { access_token: token } = await logIn(target, account.username);
  const { id: llt } = await createLongLived(target, token);
  const session = Number(claimsOf(token).sid);
  await call(target, 'DELETE /api/auth', { token: stolen.access_token });
  const ended = Number(claimsOf(stolen.access_token).sid);
  await sql(DATABASE_URL, `UPDATE tokens SET end_reason = 'reuse' WHERE id = $1`, [ended]);

  const { code, stdout } = await latchkey(['user', 'tokens', account.username.toUpperCase(), '--json'], {
    DATABASE_URL,
  });
  t.equal(code, 0);
  const { ended_next, ...seen } = (await call(target, 'GET /api/user/tokens', { token })).json<Listed>();
  t.equal(ended_next, null);
  const owners = seen.tokens.map(({ current: _current, ...rest }) => rest);
  t.strictSame(JSON.parse(stdout), { user: stolen.user.id, ...seen, tokens: owners });
  t.notMatch(stdout, account.email);

  const text = (await latchkey(['user', 'tokens', account.username], { DATABASE_URL })).stdout;
  t.match(text.split('\n'), [
    /^\d+ {2}refresh {2}".*" {2}created .* {2}expires /,
    new RegExp(
      `^${llt} {2}llt {2}"Kitchen tablet" {2}created .* by session ${session} {2}last used never {2}expires never$`,
    ),
    new RegExp(`^${ended} {2}refresh {2}.* {2}ended .*: reuse$`),
  ]);

  const later = { DATABASE_URL, REFRESH_TOKEN_TTL: '60' };
  await sql(DATABASE_URL, `UPDATE tokens SET latest = latest - 61000000 WHERE revoked_at IS NULL`);
  const expired = JSON.parse(
    (await latchkey(['user', 'tokens', account.username, '--json'], later)).stdout,
  ) as Listed;
  t.match(expired, { tokens: [{ id: llt }], ended: [{ reason: 'reuse' }, { reason: 'expired' }] });
  t.equal(expired.tokens.length, 1, 'expired by the lifetimes of the service');
  const aged = { DATABASE_URL, SESSION_MAX_AGE: '60' };
  await sql(
    DATABASE_URL,
    `UPDATE tokens SET latest = latest + 61000000, created_at = created_at - interval '61 s'`,
  );
  const old = JSON.parse(
    (await latchkey(['user', 'tokens', account.username, '--json'], aged)).stdout,
  ) as Listed;
  t.match(old.tokens, [{ id: llt }]);
});

test('user tokens shows every ended token, across pages', async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const account = anAccount();
  const { user } = await signUp(target, account);
  await sql(
    DATABASE_URL,
    `INSERT INTO tokens (user_id, type, name, created_at, revoked_at, end_reason)
     SELECT $1, 'llt', n::text, now() - interval '1 day', now() - n * interval '1 minute', 'reuse'
     FROM generate_series(1, 250) AS n`,
    [user.id],
  );
  const { stdout } = await latchkey(['user', 'tokens', account.username, '--json'], { DATABASE_URL });
  const { ended } = JSON.parse(stdout) as Listed;
  t.strictSame(
    ended.map(({ name }) => name),
    Array.from({ length: 250 }, (_, i) => String(i + 1)),
  );
});
