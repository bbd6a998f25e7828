import { buildTestApp } from '../../support/app.ts';
import { claimsOf, pairOf, refresh, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { onEachStore } from '../../support/stores.ts';
import { sql } from '../../support/sql.ts';
import { aStoredSession } from '../../support/tokens.ts';

const OWNER = { 'x-forwarded-for': '192.0.2.1', 'user-agent': 'Kitchen/1.0' };

onEachStore('what a client sees of the rotation', async (t, env) => {
  const target = await buildTestApp(t, { env: { ...env, TRUST_PROXY: 'loopback' } });

  /** Presents a token that was issued so many seconds ago. The latest pair was given to OWNER. */
  async function present(latest: number, presented: number, client = OWNER) {
    const now = Date.now() * 1000;
    const session = await aStoredSession(target, {
      latest: now - latest * 1e6,
      parent: now - 60e6,
      first: now - latest * 1e6,
      confirmed: true,
      caller: target.composition.app.callerHashes.newest([192, 0, 2, 1], OWNER['user-agent']),
    });
    const response = await refresh(target, session.mint('refresh', now - presented * 1e6), client);
    return { session, response, newest: session.mint('access', now - latest * 1e6), since: now };
  }

  await t.test('the newest token: the next pair', async (t) => {
    const { response, newest } = await present(2, 2);
    const next = pairOf(response).access_token;
    t.ok(Number(claimsOf(next).gen) > Number(claimsOf(newest).gen), 'a newer generation');
    t.equal((await verify(target, next)).statusCode, 200);
    refused(t, await verify(target, newest), 401, 'invalid_token');
  });

  await t.test('a retry inside the window: the same pair', async (t) => {
    const { response, newest, session, since } = await present(2, 60);
    const pair = pairOf(response);
    t.strictSame(claimsOf(pair.access_token), claimsOf(newest), 'the same claims');
    t.strictSame(claimsOf(pair.refresh_token), claimsOf(session.mint('refresh', since - 2e6)));
    t.equal((await verify(target, newest)).statusCode, 200);
  });

  for (const other of [{ 'x-forwarded-for': '192.0.2.2' }, { 'user-agent': 'Kitchen/1.1' }])
    await t.test(`a retry of another client, ${Object.values(other).join()}: wait`, async (t) => {
      const { response, newest } = await present(2, 60, { ...OWNER, ...other });
      refused(t, response, 503, 'refresh_overlap');
      const wait = Number(response.headers['retry-after']);
      t.ok(wait >= 1 && wait <= 8, 'the rest of the window');
      t.equal((await verify(target, newest)).statusCode, 200, 'nothing changed');
    });

  await t.test('a state a minute ahead of the clock: try later', async (t) => {
    const { response, newest, session } = await present(-120, -120);
    refused(t, response, 503, 'unavailable');
    t.match(target.audit().at(-1), { event: 'clock.wrong', subject: { user_id: session.userId } });
    t.equal((await verify(target, newest)).statusCode, 200, 'nothing changed');
  });

  await t.test('a superseded token after the window: theft', async (t) => {
    const { response, newest, session, since } = await present(20, 60);
    refused(t, response, 401, 'token_reused');
    refused(t, await verify(target, newest), 401, 'invalid_token');
    const latest = session.mint('refresh', since - 20e6);
    refused(t, await refresh(target, latest, OWNER), 401, 'invalid_token');
    const [row] = await sql<{ revoked_at: Date | null }>(
      target.databaseUrl,
      'SELECT revoked_at FROM tokens WHERE id = $1',
      [session.tokenId],
    );
    t.ok(row?.revoked_at, 'recorded');
    t.match(target.audit().at(-1), {
      event: 'session.reuse_detected',
      subject: { user_id: session.userId },
    });
  });
});
