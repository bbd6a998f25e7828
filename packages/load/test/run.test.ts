import { test } from 'tap';
import { makeJudge } from '../src/judge.ts';
import type { Pair } from '../src/pair.ts';
import { runScenario } from '../src/run.ts';
import type { Wire } from '../src/wire.ts';
import { listedAccount } from './listed-accounts.ts';

function aPair(sid: number, gen: number): Pair {
  const claims = { sid, gen, jti: `${sid}.${gen}`, sub: String(sid), iat: 0, exp: 1e12 };
  const token = `.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.`;
  const user = { id: sid, username: listedAccount(sid).username, name: '', created_at: '' };
  return { access_token: token, refresh_token: token, user };
}

/** Devices that only refresh. @param onLastTries called when all ended tokens are presented at once. */
async function endedTokensTried(onLastTries: () => void, signal: AbortSignal) {
  const judge = makeJudge();
  let [generation, presenting] = [1, 0];
  const send: Wire['send'] = async ({ path, userAgent }) => {
    const answer = { retryAfter: 0, user: null };
    const sid = Number(/\d+/.exec(userAgent ?? '')?.[0]);
    if (path === '/api/auth/refresh')
      return { status: 200, code: 'ok', ...answer, body: aPair(sid, ++generation) };
    if (++presenting > 1) onLastTries();
    await new Promise((resolve) => setTimeout(resolve, 5));
    presenting--;
    return { status: 401, code: '401', ...answer, body: null };
  };
  const devices = [1, 2, 3].map((sid) => {
    const name = `load-device-${sid}`;
    judge.opened(name, listedAccount(sid).username, aPair(sid, 1));
    return { name, account: listedAccount(sid), pair: aPair(sid, 1) };
  });
  await runScenario({
    scenario: {
      shape: [
        { at: 0, level: 1 },
        { at: 1, level: 1 },
      ],
      mix: { refresh: 1 },
    },
    rate: 300,
    seconds: 0.5,
    lost: 0,
    devices,
    judge,
    signal,
    random: Math.random,
    newAccount: listedAccount,
    wire: { send, close: () => Promise.resolve() },
    clock: { now: () => Date.now(), monotonic: () => performance.now() },
  });
  return judge.judged().ended_tokens_tried;
}

test('a signal ends the last tries of ended tokens, so the report follows', async (t) => {
  const stopping = new AbortController();
  const all = await endedTokensTried(() => undefined, new AbortController().signal);
  t.ok(all >= 150, `${all}: each of 150 refreshes ended one`);
  const some = await endedTokensTried(() => {
    stopping.abort();
  }, stopping.signal);
  t.ok(some < 60, `${some}: no more than were in flight`);
});
