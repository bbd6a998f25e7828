import type { Environment } from '../../src/config/config.ts';
import { buildTestApp } from '../support/app.ts';
import { call, createLongLived, pairOf } from '../support/client.ts';
import { ALLOWED, anOwner, attempt, exhaust, HOME, LIMITS, PASSWORD, stranger } from '../support/guessing.ts';
import { refused } from '../support/problem.ts';
import { sql } from '../support/sql.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';

onAStore('known devices', async (t, env) => {
  const open = (more: Environment = {}) => buildTestApp(t, { env: { ...env, ...LIMITS, ...more } });
  const target = await open();

  await t.test('a known device has its own limit', async (t) => {
    const owner = await anOwner(target);
    const other = { ...HOME, 'user-agent': 'Phone/2' };
    t.equal((await attempt(target, owner.username, PASSWORD, other)).statusCode, 200);
    await exhaust(t, target, owner.username);
    await exhaust(t, target, owner.username, () => HOME);
    refused(t, await attempt(target, owner.username, PASSWORD, HOME), 429, 'rate_limited');
    t.equal(
      (await attempt(target, owner.email, PASSWORD, HOME)).statusCode,
      200,
      'each name has its own limit',
    );
    t.equal(
      (await attempt(target, owner.username, PASSWORD, other)).statusCode,
      200,
      'each device has its own limit',
    );
  });

  await t.test('a token of the account makes a device known, even after the token has ended', async (t) => {
    const owner = await anOwner(target);
    const { refresh_token: revoked, access_token: access } = pairOf(
      await attempt(target, owner.username, PASSWORD, HOME),
    );
    const { id, longlived_token: llt } = await createLongLived(target, owner.pair.access_token);
    const token = owner.pair.access_token;
    await call(target, 'DELETE /api/auth', { token: access });
    await call(target, `DELETE /api/auth/llt/${id}`, { token });
    await exhaust(t, target, owner.username);

    const away = (bearer: string) => ({ ...stranger(3), authorization: `Bearer ${bearer}` });
    for (const known of [revoked, llt])
      t.equal((await attempt(target, owner.username, PASSWORD, away(known))).statusCode, 200);
    const stolen = await anOwner(target);
    const useless = [token, stolen.pair.refresh_token, `${revoked}x`, 'x', 'a.b.c', 'x'.repeat(8000)];
    for (const authorization of [...useless.map((bearer) => `Bearer ${bearer}`), 'Basic x', 'Bearer']) {
      // The earlier address has logged in meanwhile.
      const answer = await attempt(target, owner.username, PASSWORD, { ...stranger(4), authorization });
      refused(t, answer, 429, 'rate_limited');
    }
    await exhaust(t, target, owner.username, () => away(llt));
    refused(t, await attempt(target, owner.username, PASSWORD, away(llt)), 429, 'rate_limited');
    t.equal(
      (await attempt(target, owner.username, PASSWORD, away(revoked))).statusCode,
      200,
      'each has its own limit',
    );
  });

  await t.test('all long-lived tokens that a thief makes share one limit', async (t) => {
    const owner = await anOwner(target);
    const token = owner.pair.access_token;
    const made: string[] = [];
    for (let i = 0; i < 4; i++) {
      const { id, longlived_token: llt } = await createLongLived(target, token);
      await call(target, `DELETE /api/auth/llt/${id}`, { token });
      made.push(llt);
    }
    const away = (i: number) => ({ ...stranger(i), authorization: `Bearer ${made[i % made.length]}` });
    await exhaust(t, target, owner.username, away);
    for (let i = 0; i < made.length; i++)
      refused(t, await attempt(target, owner.username, PASSWORD, away(i)), 429, 'rate_limited');
  });

  await t.test('a token does not replace the password', async (t) => {
    const owner = await anOwner(target);
    const headers = { ...HOME, authorization: `Bearer ${owner.pair.refresh_token}` };
    refused(t, await attempt(target, owner.username, 'wrong one', headers), 401, 'invalid_credentials');
    const payload = { username: 'unknown-with-token', password: 'x' };
    refused(t, await call(target, 'POST /api/auth', { payload, headers }), 401, 'invalid_credentials');
  });

  await t.test('a caller without its own address is never a known device', async (t) => {
    const stray = await open({ TRUST_PROXY: 'false' });
    const owner = await anOwner(stray);
    t.equal((await attempt(stray, owner.username, PASSWORD, HOME)).statusCode, 200);
    t.strictSame(await sql(stray.databaseUrl, 'SELECT * FROM known_devices'), []);
    await exhaust(t, stray, owner.username);
    refused(t, await attempt(stray, owner.username, PASSWORD, HOME), 429, 'rate_limited');
  });

  await t.test('a device stays known while any loaded secret verifies it', async (t) => {
    const [older, newer] = ['older', 'newer'].map((text) =>
      Buffer.from(text.repeat(8)).toString('base64url'),
    );
    const before = await open({ REFRESH_TOKEN_SECRET: `${older}` });
    const owner = await anOwner(before);
    const { databaseUrl } = before;
    const started = new Date();
    const token = { ...stranger(400), authorization: `Bearer ${owner.pair.refresh_token}` };
    for (const [secrets, status] of [
      [`${newer},${older}`, 200],
      [newer, 429],
    ] as const) {
      const after = await buildTestApp(t, {
        databaseUrl,
        env: { ...env, ...LIMITS, REFRESH_TOKEN_SECRET: `${secrets}` },
      });
      await sql(databaseUrl, 'DELETE FROM known_devices WHERE last_login_at > $1', [started]);
      // With a shared Redis, the second replica continues the count of the first.
      for (let i = 0; i < ALLOWED; i++) await attempt(after, owner.username, 'x', stranger(i));
      for (const headers of [token, HOME]) {
        const answer = await attempt(after, owner.username, PASSWORD, headers);
        t.equal(answer.statusCode, status, answer.body);
      }
    }
  });
});
