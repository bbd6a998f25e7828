import { test } from 'tap';
import { claimsOf, type Pair } from '../support/client.ts';
import { seededAccount } from './accounts.ts';
import { makeJudge } from './judge.ts';
import { devicesOf, logInAll } from './prepare.ts';
import type { Reply } from './wire.ts';

function aPair(sid: number): Pair {
  const payload = Buffer.from(JSON.stringify({ sid, gen: 1, jti: `${sid}.1`, sub: String(sid) })).toString(
    'base64url',
  );
  const user = { id: sid, username: `load-${sid - 1}`, name: '', created_at: '' };
  return { access_token: `.${payload}.`, refresh_token: `.${payload}.`, user };
}

/** Logs in against a service with these answers; further logins succeed. */
async function logIn(count: number, replies: Partial<Reply>[], signal = new AbortController().signal) {
  const seen = { names: [] as string[], pauses: [] as number[], done: [] as number[] };
  let sid = 0;
  const pairs = await logInAll(count, {
    wire: {
      send: ({ body }) => {
        seen.names.push((body as { username: string }).username);
        const reply = replies.shift() ?? { status: 200, code: 'ok', body: aPair(++sid) };
        return Promise.resolve({ status: 0, code: '', retryAfter: 0, user: null, body: null, ...reply });
      },
    },
    pause: (ms) => Promise.resolve(seen.pauses.push(ms)),
    progress: (done) => seen.done.push(done),
    signal,
  });
  return { pairs, ...seen };
}

test('each seeded user logs in once, and the progress is told', async (t) => {
  const { pairs, names, done } = await logIn(20, []);
  t.equal(pairs.length, 20);
  t.strictSame(names.sort(), Array.from({ length: 20 }, (_, i) => seededAccount(i).username).sort());
  t.strictSame(
    done,
    Array.from({ length: 20 }, (_, i) => i + 1),
  );
});

test('an overloaded service is asked again when it says', async (t) => {
  const { pairs, names, pauses } = await logIn(1, [
    { status: 503, code: '503 overloaded', retryAfter: 3 },
    { status: 503, code: '503 overloaded', retryAfter: 900 },
    { status: 0, code: 'timeout' },
  ]);
  t.equal(pairs.length, 1);
  t.equal(names.length, 4);
  t.strictSame(pauses, [3000, 5000, 1000]);
});

test('a user who does not exist means that the database was not seeded', async (t) => {
  await t.rejects(logIn(1, [{ status: 401, code: '401 invalid_credentials' }]), /load -- seed --users N/);
});

test('a service that limits logins says which settings to change', async (t) => {
  const limited = { status: 429, code: '429 rate_limited', retryAfter: 900 };
  await t.rejects(logIn(3, [limited]), /RATE_LIMIT_LOGIN=0/);
});

test('a service that falls silent is given up, and so is a run that is stopped', async (t) => {
  const silence = Array.from({ length: 100 }, () => ({ status: 0, code: 'timeout' }));
  const ok = { status: 200, code: 'ok', body: aPair(1) };
  await t.rejects(logIn(20, [ok, ...silence]), /does not answer: timeout/);
  await t.rejects(logIn(1, silence, AbortSignal.abort()), /stopped before the run/);
});

test('a service that never answers is given up', async (t) => {
  const silence = Array.from({ length: 100 }, () => ({ status: 0, code: 'no answer (ECONNREFUSED)' }));
  await t.rejects(logIn(1, silence), /does not answer: no answer \(ECONNREFUSED\)/);
});

test('devices belong to the seeded users in order, and the judge knows their sessions', (t) => {
  const judge = makeJudge();
  const devices = devicesOf(3, [aPair(1), aPair(2)], judge);
  t.strictSame(
    devices.map(({ account, pair }) => [account.username, pair && claimsOf(pair.access_token).sid]),
    [
      ['load-0', 1],
      ['load-1', 2],
      ['load-2', undefined],
    ],
  );
  t.equal(judge.judged().pairs_issued, 2);
  t.equal(judge.correctness().wrong_user, 0);
  t.end();
});
