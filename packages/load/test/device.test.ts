import { test } from 'tap';
import type { Pair } from '../../../test/support/client.ts';
import type { Call } from '../src/exchange.ts';
import { listedAccount } from './listed-accounts.ts';
import { makeDevice } from '../src/device.ts';
import type { EndedToken } from '../src/ended-tokens.ts';
import { makeJudge } from '../src/judge.ts';
import type { Sample } from '../src/samples.ts';
import type { Reply } from '../src/wire.ts';

function aPair(gen: number, exp = 900): Pair {
  const claims = { sid: 1, gen, jti: `1.${gen}`, sub: '1', iat: 0, exp };
  const token = (type: string) =>
    `${type}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.${gen}`;
  const user = { id: 1, username: 'load-0', name: 'Load 0', created_at: '', roles: [] };
  return { access_token: token('access'), refresh_token: token('refresh'), user };
}

const ok = (body: unknown = null): Reply => ({ status: 200, code: 'ok', retryAfter: 0, user: '1', body });
const refusal = (status: number, retryAfter = 0): Reply => ({
  status,
  code: `${status} refused`,
  retryAfter,
  user: null,
  body: null,
});
const NO_ANSWER: Reply = { status: 0, code: 'timeout', retryAfter: 0, user: null, body: null };

/** A device whose service gives these answers in turn, on a clock that only its pauses move. */
function aDevice(replies: Reply[], { pair, lost = 0 }: { pair?: Pair; lost?: number } = {}) {
  const seen = {
    calls: [] as (Call & { loseAfter?: number | undefined })[],
    pauses: [] as number[],
    samples: [] as Sample[],
    ended: [] as EndedToken[],
  };
  const judge = makeJudge();
  if (pair) judge.opened('a', 'load-0', pair);
  const state = { now: 0, isOver: false };
  const device = makeDevice(
    {
      wire: {
        send: (call, loseAfter) => {
          seen.calls.push({ ...call, loseAfter });
          return Promise.resolve(replies.shift() ?? NO_ANSWER);
        },
      },
      judge,
      ended: { add: (...tokens) => void seen.ended.push(...tokens) },
      samples: { record: (sample) => void seen.samples.push(sample) },
      clock: { now: () => state.now, monotonic: () => state.now },
      random: () => 0.5,
      pause: (ms) => {
        seen.pauses.push(ms);
        state.now += ms;
        state.isOver ||= replies.length === 0;
        return Promise.resolve();
      },
      isOver: () => state.isOver,
      lost,
    },
    'a',
    listedAccount(0),
    pair,
  );
  return { device, judge, state, ...seen };
}

test('a refused refresh that is no 401 keeps the session, and waits for Retry-After', async (t) => {
  const replies = [refusal(503, 3), refusal(429, 7), refusal(500, 1), ok(aPair(11))];
  const { device, calls, pauses, samples, judge } = aDevice(replies, { pair: aPair(10) });
  await device.run('refresh', 0);
  t.strictSame(pauses, [3000, 7000, 1000]);
  t.strictSame(new Set(calls.map(({ token }) => token)), new Set([aPair(10).refresh_token]));
  t.strictSame(new Set(calls.map(({ userAgent }) => userAgent)), new Set(['a']));
  t.strictSame(
    samples.map(({ due, code }) => [due, code]),
    [
      [0, '503 refused'],
      [3000, '429 refused'],
      [10_000, '500 refused'],
      [11_000, 'ok'],
    ],
    'each try is timed from the end of its wait',
  );
  t.equal(device.isSignedIn(), true);
  t.equal(judge.correctness().sign_outs, 0);
});

test('a 401 or 403 to a refresh is a sign-out', async (t) => {
  for (const status of [401, 403]) {
    const { device, judge } = aDevice([refusal(status)], { pair: aPair(10) });
    await device.run('refresh', 0);
    t.equal(device.isSignedIn(), false);
    t.equal(judge.correctness().sign_outs, 1);
  }
});

test('without an answer it retries with growing pauses, well within the retry window', async (t) => {
  const replies = [NO_ANSWER, NO_ANSWER, NO_ANSWER, ok(aPair(11))];
  const { device, pauses } = aDevice(replies, { pair: aPair(10) });
  await device.run('refresh', 0);
  t.strictSame(pauses, [150, 300, 600]);
});

test('it loses answers on purpose, and sends the same request again', async (t) => {
  const { device, calls } = aDevice([NO_ANSWER, ok(aPair(11))], { pair: aPair(10), lost: 0.6 });
  await device.run('refresh', 0);
  t.equal(calls.length, 2);
  t.strictSame(calls[0], calls[1]);
  t.ok((calls[0]?.loseAfter ?? 0) > 0);
});

test('a refresh ends the access token before it, and never gives away a refresh token', async (t) => {
  const { device, ended } = aDevice([ok(aPair(11))], { pair: aPair(10) });
  await device.run('refresh', 0);
  t.strictSame(ended, [{ token: aPair(10).access_token, type: 'access', why: 'superseded' }]);
});

test('it stores the new pair before it uses it', async (t) => {
  const { device, calls } = aDevice([ok(aPair(11)), ok(), ok(aPair(12))], { pair: aPair(10) });
  for (const operation of ['refresh', 'verify', 'refresh'] as const) await device.run(operation, 0);
  t.strictSame(
    calls.map(({ token }) => token),
    [aPair(10).refresh_token, aPair(11).access_token, aPair(11).refresh_token],
  );
});

test('a logout that is answered 200 ends both tokens; until then it retries', async (t) => {
  const { device, ended, calls } = aDevice([NO_ANSWER, refusal(503, 1), ok()], { pair: aPair(10) });
  await device.run('logout', 0);
  t.equal(calls.length, 3);
  t.equal(device.isSignedIn(), false);
  t.strictSame(
    ended.map(({ token }) => token),
    [aPair(10).refresh_token, aPair(10).access_token],
  );
});

test('a refused or expired access token makes it refresh first', async (t) => {
  const refused = aDevice([refusal(401), ok(aPair(11))], { pair: aPair(10) });
  await refused.device.run('verify', 0);
  await refused.device.run('verify', 0);
  const expired = aDevice([ok(aPair(11))], { pair: aPair(10) });
  expired.state.now = 896_000;
  await expired.device.run('verify', 0);
  for (const { calls, judge } of [refused, expired]) {
    t.equal(calls.at(-1)?.path, '/api/auth/refresh');
    t.equal(judge.correctness().sign_outs, 0);
  }
});

test('a refused verify breaks a promise only if nothing else may have ended the token', async (t) => {
  const fresh = [ok(aPair(11))];
  for (const [what, replies, operations, tried, refused] of [
    ['the newest token', [...fresh, refusal(401)], ['refresh', 'verify'], 1, 1],
    ['a proxy refuses it', [...fresh, refusal(403)], ['refresh', 'verify'], 1, 1],
    ['it is accepted', [...fresh, ok()], ['refresh', 'verify'], 1, 0],
    ['an outage', [...fresh, refusal(503), ok()], ['refresh', 'verify'], 1, 0],
    ['another refusal', [...fresh, refusal(404)], ['refresh', 'verify'], 0, 0],
    ['of unknown age', [refusal(401)], ['verify'], 0, 0],
    ['a retried refresh', [NO_ANSWER, ...fresh, refusal(401)], ['refresh', 'verify'], 0, 0],
    ['an unclear refresh', [...fresh, refusal(404), refusal(401)], ['refresh', 'refresh', 'verify'], 0, 0],
    ['an unclear logout', [...fresh, refusal(404), refusal(401)], ['refresh', 'logout', 'verify'], 0, 0],
    ['a late answer', [...fresh, refusal(503, 900), refusal(401)], ['refresh', 'verify'], 0, 0],
  ] as const) {
    const { device, judge } = aDevice([...replies], { pair: aPair(10) });
    for (const operation of operations) await device.run(operation, 0);
    t.equal(judge.judged().good_tokens_tried, tried, what);
    t.equal(judge.correctness().good_refused, refused, what);
  }
});

test('a signup whose answer was lost becomes a login', async (t) => {
  const { device, calls } = aDevice([NO_ANSWER, refusal(400), ok(aPair(10))]);
  await device.run('signup', 0);
  t.strictSame(
    calls.map(({ path }) => path),
    ['/api/auth/signup', '/api/auth/signup', '/api/auth'],
  );
  t.equal(device.isSignedIn(), true);
});

test('the end of the run ends the retries', async (t) => {
  const { device, calls } = aDevice([refusal(503, 1)], { pair: aPair(10) });
  await device.run('refresh', 0);
  t.equal(calls.length, 1);
  t.equal(device.isSignedIn(), true);
});
