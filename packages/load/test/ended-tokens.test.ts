import { test } from 'tap';
import { claimsOf } from '../../../test/support/client.ts';
import type { Call } from '../src/exchange.ts';
import { makeEndedTokens, type EndedToken } from '../src/ended-tokens.ts';
import { makeJudge } from '../src/judge.ts';
import { makeSamples } from '../src/samples.ts';

/** Ended tokens at a service that answers each with this status. */
function tokensAt(status: number) {
  const calls: Call[] = [];
  const judge = makeJudge();
  const samples = makeSamples(0, 10);
  const ended = makeEndedTokens({
    wire: {
      send: (call) => {
        calls.push(call);
        return Promise.resolve({ status, code: String(status), retryAfter: 0, user: null, body: null });
      },
    },
    judge,
    samples,
    clock: { monotonic: () => 0 },
  });
  return { ended, judge, samples, calls };
}

const { signal: GOES_ON } = new AbortController();

/** A token with this id. */
const tokenOf = (jti: string) => `.${Buffer.from(JSON.stringify({ jti })).toString('base64url')}.`;
const idOf = ({ token = '' }: Call) => String(claimsOf(token).jti);
const access = (jti: string): EndedToken => ({ token: tokenOf(jti), type: 'access', why: 'superseded' });

test('a refused token is ok, and an accepted one is reported', async (t) => {
  const good = tokensAt(401);
  const bad = tokensAt(200);
  for (const { ended } of [good, bad]) {
    ended.add(access('a'));
    await ended.tryOne();
  }
  t.match(good.samples.of('ended'), { ok: 1, errors: {} });
  t.equal(good.judge.correctness().revoked_accepted, 0);
  t.equal(bad.judge.correctness().revoked_accepted, 1);
  t.match(bad.judge.findings(), [
    { promise: 'revoked_accepted', text: 'the access token a, which was superseded, was accepted' },
  ]);
});

test('an outage says nothing of a token', async (t) => {
  const { ended, judge, samples } = tokensAt(503);
  ended.add(access('a'));
  await ended.tryOne();
  t.equal(judge.judged().ended_tokens_tried, 0);
  t.strictSame(samples.of('ended').errors, { '503': 1 });
});

test('access tokens go to verify, refresh tokens to refresh', async (t) => {
  const { ended, calls } = tokensAt(401);
  ended.add(access('a'), { token: tokenOf('r'), type: 'refresh', why: 'logged out' });
  await ended.tryAll(GOES_ON);
  t.strictSame(calls.map((call) => [call.path, idOf(call)]).sort(), [
    ['/api/auth/refresh', 'r'],
    ['/api/auth/verify', 'a'],
  ]);
});

test('the newest comes first, and then all again and again', async (t) => {
  const { ended, calls } = tokensAt(401);
  ended.add(access('a'), access('b'), access('c'));
  for (let i = 0; i < 9; i++) await ended.tryOne();
  t.strictSame(calls.map(idOf), ['c', 'b', 'a', 'a', 'b', 'c', 'a', 'b', 'c']);
});

test('the newest thousand are remembered', async (t) => {
  const { ended, calls } = tokensAt(401);
  for (let i = 0; i < 1500; i++) ended.add(access(String(i)));
  await ended.tryAll(GOES_ON);
  t.equal(calls.length, 1000);
  t.ok(calls.every((call) => Number(idOf(call)) >= 500));
});

test('without an ended token nothing is sent', async (t) => {
  const { ended, calls } = tokensAt(401);
  await ended.tryOne();
  await ended.tryAll(GOES_ON);
  t.strictSame(calls, []);
});
