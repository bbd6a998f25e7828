import type { Test } from 'tap';
import type { SessionState } from '../../../src/domain/tokens/session-state.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { claimsOf, pairOf, refresh, verify } from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { ROWS, type Outcome } from '../../support/rotation-rows.ts';
import { onEachStore } from '../../support/stores.ts';
import { sql } from '../../support/sql.ts';
import { aStoredSession } from '../../support/tokens.ts';

/** Every row of rotation.md's table over HTTP, with and without a window, from the same and from another client. */

const OWNER = { 'x-forwarded-for': '192.0.2.1', 'user-agent': 'Kitchen/1.0' };
const OTHERS = [
  { ...OWNER, 'x-forwarded-for': '192.0.2.2' },
  { ...OWNER, 'user-agent': 'Kitchen/1.1' },
];

for (const window of [0, 10]) {
  onEachStore(`the rotation table, REFRESH_RETRY_WINDOW=${window}`, async (t, env) => {
    const target = await buildTestApp(t, {
      env: { ...env, REFRESH_RETRY_WINDOW: String(window), TRUST_PROXY: 'loopback' },
    });
    for (const { title, state, presented, closed, open } of ROWS) {
      for (const client of [OWNER, ...OTHERS]) {
        const outcome = window === 0 ? closed : open[client === OWNER ? 0 : 1];
        const who =
          client === OWNER ? 'the same client' : `${client['x-forwarded-for']} ${client['user-agent']}`;
        await t.test(`${title}, from ${who}: ${outcome}`, async (t) => {
          const now = Date.now() * 1000;
          const { latest, parent = 1e9, first = latest, confirmed = false } = state;
          const stored: SessionState = {
            latest: now - latest * 1e6,
            parent: now - parent * 1e6,
            first: now - first * 1e6,
            confirmed,
            caller: target.composition.app.callerHashes.newest([192, 0, 2, 1], OWNER['user-agent']),
          };
          await show(t, target, stored, { generation: now - presented * 1e6, client, outcome });
        });
      }
    }
  });
}

interface Presented {
  generation: number;
  client: typeof OWNER;
  outcome: Outcome;
}

/** Presents a token, then checks the answer and the session. */
async function show(
  t: Test,
  target: TestApp,
  state: SessionState,
  { generation, client, outcome }: Presented,
): Promise<void> {
  const session = await aStoredSession(target, state);
  const presentedAt = Date.now() * 1000;
  const response = await refresh(target, session.mint('refresh', generation), client);
  const newest = session.mint('access', state.latest);
  switch (outcome) {
    case 'next pair': {
      const next = pairOf(response).access_token;
      t.ok(Number(claimsOf(next).gen) > Math.max(state.latest, generation), 'a newer generation');
      t.equal((await verify(target, next)).statusCode, 200);
      refused(t, await verify(target, newest), 401, 'invalid_token');
      return;
    }
    case 'same pair': {
      const pair = pairOf(response);
      t.strictSame(claimsOf(pair.access_token), claimsOf(newest), 'the same claims');
      t.strictSame(claimsOf(pair.refresh_token), claimsOf(session.mint('refresh', state.latest)));
      t.equal((await verify(target, newest)).statusCode, 200);
      return;
    }
    case 'overlap':
      refused(t, response, 503, 'refresh_overlap');
      t.ok(
        Number(response.headers['retry-after']) <=
          Math.max(1, 10 + Math.ceil((state.latest - presentedAt) / 1e6)),
        'the rest of the window',
      );
      t.equal((await verify(target, newest)).statusCode, 200, 'nothing changed');
      return;
    case 'wrong clock':
      refused(t, response, 503, 'unavailable');
      t.match(target.audit().at(-1), { event: 'clock.wrong', subject: { user_id: session.userId } });
      t.equal((await verify(target, newest)).statusCode, 200, 'nothing changed');
      return;
    case 'theft': {
      refused(t, response, 401, 'token_reused');
      refused(t, await verify(target, newest), 401, 'invalid_token');
      refused(t, await refresh(target, session.mint('refresh', state.latest), OWNER), 401, 'invalid_token');
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
    }
  }
}
