import { test } from 'tap';
import type { Pair } from '../../../test/support/client.ts';
import { findingText, makeJudge, type Judge } from '../src/judge.ts';

interface Changes {
  jti?: string;
  user?: { id: number; username: string };
  /** Of the access token, and of the refresh token. */
  subjects?: [string, string];
}

/** A pair of session 1 belongs to user 1, ada; one of session 2 to user 2, bob. */
function aPair(sid: number, gen: number, changes: Changes = {}): Pair {
  const { jti = `${sid}.${gen}`, user = { id: sid, username: NAMES[sid] ?? '' } } = changes;
  const [access, refresh] = (changes.subjects ?? [String(user.id), String(user.id)]).map((sub) =>
    ['', { sid, gen, jti, sub }, '']
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.'),
  );
  return {
    access_token: access ?? '',
    refresh_token: refresh ?? '',
    user: { ...user, name: 'Ada', created_at: '', roles: [] },
  };
}

const NAMES = ['', 'ada', 'bob'];

const CLEAN = { sign_outs: 0, duplicate_ids: 0, revoked_accepted: 0, good_refused: 0, wrong_user: 0 };

test('logins, refreshes and retries that get the same pair again are in order', (t) => {
  const judge = makeJudge();
  judge.opened('a', 'ada', aPair(1, 10));
  judge.opened('b', 'bob', aPair(2, 10));
  judge.refreshed('a', aPair(1, 10), aPair(1, 11));
  // The answer was lost, and the retry got the pair again.
  judge.refreshed('a', aPair(1, 10), aPair(1, 11));
  judge.refreshed('a', aPair(1, 11), aPair(1, 15));
  judge.signedUp(1);
  judge.signedUp(2);
  judge.triedEnded('a token', false);
  judge.triedGood('a token', null);
  t.strictSame(judge.correctness(), CLEAN);
  t.strictSame(judge.judged(), {
    pairs_issued: 5,
    refreshes: 3,
    ended_tokens_tried: 1,
    good_tokens_tried: 1,
  });
  t.strictSame(judge.findings(), []);
  t.end();
});

type Act = (judge: Judge) => void;

const opened =
  (...given: Parameters<Judge['opened']>): Act =>
  (judge) => {
    judge.opened(...given);
  };

const refreshed =
  (...given: Parameters<Judge['refreshed']>): Act =>
  (judge) => {
    judge.refreshed(...given);
  };

const verified =
  (...given: Parameters<Judge['verified']>): Act =>
  (judge) => {
    judge.verified(...given);
  };

const signedUp =
  (id: number): Act =>
  (judge) => {
    judge.signedUp(id);
  };

const TWICE: [what: string, ...acts: Act[]][] = [
  ['a session that two logins opened', opened('b', 'ada', aPair(1, 20))],
  ['a session that another device got', refreshed('b', aPair(1, 10), aPair(1, 20))],
  ['the pair that the device presented', refreshed('a', aPair(1, 10), aPair(1, 10))],
  ['an older pair', refreshed('a', aPair(1, 10), aPair(1, 9))],
  ['a token id that does not name the pair', opened('b', 'bob', aPair(2, 10, { jti: '1.10' }))],
  [
    'the same pair for the next token',
    refreshed('a', aPair(1, 10), aPair(1, 11)),
    refreshed('a', aPair(1, 11), aPair(1, 11)),
  ],
  ['a user that two signups created', signedUp(7), signedUp(7)],
];

for (const [what, ...acts] of TWICE)
  test(`${what} is a duplicate id`, (t) => {
    const judge = makeJudge();
    for (const act of [opened('a', 'ada', aPair(1, 10)), ...acts]) act(judge);
    t.ok(judge.correctness().duplicate_ids > 0);
    t.match(judge.findings()[0], { promise: 'duplicate_ids' });
    t.end();
  });

const ofBob = (changes: Changes) => opened('b', 'bob', aPair(2, 10, changes));
const ofAda = (changes: Changes) => refreshed('a', aPair(1, 10), aPair(1, 11, changes));

const WRONG: [what: string, ...acts: Act[]][] = [
  ['a login whose answer names another user', opened('b', 'carol', aPair(2, 10))],
  ['a login whose access token names another user', ofBob({ subjects: ['1', '2'] })],
  ['a login whose refresh token names another user', ofBob({ subjects: ['2', '1'] })],
  ['a login whose user has the id of another one', ofBob({ user: { id: 1, username: 'bob' } })],
  ['a login whose user has a new id', opened('b', 'ada', aPair(2, 10, { user: { id: 7, username: 'ada' } }))],
  ['a refresh whose answer names another user', ofAda({ user: { id: 2, username: 'bob' } })],
  ['a refresh whose tokens name another user', ofAda({ subjects: ['2', '2'] })],
  ['a verify that names another user', verified('a', 1, '1'), verified('a', 1, '2')],
  ['a verify that names no user', verified('a', 1, null)],
];

for (const [what, ...acts] of WRONG)
  test(`${what} is a wrong user`, (t) => {
    const judge = makeJudge();
    for (const act of [opened('a', 'ada', aPair(1, 10)), ...acts]) act(judge);
    t.strictSame(judge.correctness(), { ...CLEAN, wrong_user: 1 });
    t.match(judge.findings()[0], { promise: 'wrong_user' });
    t.end();
  });

test('a refused refresh is a sign-out, an accepted ended token is counted, and each finding has its time', (t) => {
  let now = 0;
  const judge = makeJudge(() => now);
  judge.signedOut('a', '401 token_reused');
  now = 90_000;
  judge.triedEnded('an access token that was logged out', true);
  t.strictSame(judge.correctness(), { ...CLEAN, sign_outs: 1, revoked_accepted: 1 });
  t.strictSame(judge.findings().map(findingText), [
    '1970-01-01T00:00:00.000Z sign_outs: a was signed out: 401 token_reused',
    '1970-01-01T00:01:30.000Z revoked_accepted: an access token that was logged out was accepted',
  ]);
  t.end();
});

test('a good token that is refused is counted', (t) => {
  const judge = makeJudge();
  judge.triedGood('the newest access token of a', '401 token_invalid');
  t.strictSame(judge.correctness(), { ...CLEAN, good_refused: 1 });
  t.match(judge.findings(), [
    { promise: 'good_refused', text: 'the newest access token of a was refused: 401 token_invalid' },
  ]);
  t.end();
});

test('only the first findings are kept, and all are counted', (t) => {
  const judge = makeJudge();
  for (let i = 0; i < 500; i++) judge.signedOut('a', '401');
  t.equal(judge.correctness().sign_outs, 500);
  t.equal(judge.findings().length, 50);
  t.end();
});
