import { test } from 'tap';
import { buildTestApp } from '../support/app.ts';
import { claimsOf, logIn, pairOf, refresh, signUp, verify } from '../support/client.ts';
import { aMovedClock } from '../support/clock.ts';
import { refused } from '../support/problem.ts';

const HOUR = 3_600_000;

test('without Redis, tokens are good for their time after a laptop has slept', async (t) => {
  const move = aMovedClock(t);
  const target = await buildTestApp(t);
  const { user, refresh_token: before } = await signUp(target);
  move(HOUR, 'wall');
  const opened = await logIn(target, user.username);
  for (const { access_token: token } of [opened, pairOf(await refresh(target, before))]) {
    t.equal((await verify(target, token)).statusCode, 200);
    const left = Number(claimsOf(token).exp) - Date.now() / 1000;
    t.ok(left > 800, `${left} s are left`);
  }
});

test('without Redis, sessions wait until a clock that was set back has caught up, and new logins work', async (t) => {
  const move = aMovedClock(t);
  const target = await buildTestApp(t);
  const { user, refresh_token: token, access_token: old } = await signUp(target);
  move(-HOUR, 'wall');
  refused(t, await refresh(target, token), 503, 'unavailable');
  t.equal((await verify(target, old)).statusCode, 200);
  const opened = await logIn(target, user.username);
  t.equal((await verify(target, opened.access_token)).statusCode, 200);
  const next = pairOf(await refresh(target, opened.refresh_token));
  t.equal((await verify(target, next.access_token)).statusCode, 200);
  move(HOUR, 'wall');
  t.equal((await refresh(target, token)).statusCode, 200);
});
