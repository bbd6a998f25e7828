import { test } from 'tap';
import type { Pair } from '../support/client.ts';
import { makeJudge } from './judge.ts';

function aPair(sid: number, gen: number, jti = `${sid}.${gen}`): Pair {
  const token = ['', { sid, gen, jti }, ''].map((part) =>
    Buffer.from(JSON.stringify(part)).toString('base64url'),
  );
  const user = { id: 1, username: 'ada', name: 'Ada', created_at: '' };
  return { access_token: token.join('.'), refresh_token: token.join('.'), user };
}

const CLEAN = { sign_outs: 0, duplicate_ids: 0, revoked_accepted: 0 };

test('logins, refreshes and retries that get the same pair again are in order', (t) => {
  const judge = makeJudge();
  judge.opened('a', aPair(1, 10));
  judge.opened('b', aPair(2, 10));
  judge.refreshed('a', aPair(1, 10), aPair(1, 11));
  // The answer was lost, and the retry got the pair again.
  judge.refreshed('a', aPair(1, 10), aPair(1, 11));
  judge.refreshed('a', aPair(1, 11), aPair(1, 15));
  judge.signedUp(1);
  judge.signedUp(2);
  judge.triedEnded('a token', false);
  t.strictSame(judge.correctness(), CLEAN);
  t.strictSame(judge.judged(), { pairs_issued: 5, refreshes: 3, ended_tokens_tried: 1 });
  t.strictSame(judge.findings(), []);
  t.end();
});

const TWICE: [string, (judge: ReturnType<typeof makeJudge>) => void][] = [
  [
    'a session that two logins opened',
    (judge) => {
      judge.opened('b', aPair(1, 20));
    },
  ],
  [
    'a session that another device got',
    (judge) => {
      judge.refreshed('b', aPair(1, 10), aPair(1, 20));
    },
  ],
  [
    'the pair that the device presented',
    (judge) => {
      judge.refreshed('a', aPair(1, 10), aPair(1, 10));
    },
  ],
  [
    'an older pair',
    (judge) => {
      judge.refreshed('a', aPair(1, 10), aPair(1, 9));
    },
  ],
  [
    'a token id that does not name the pair',
    (judge) => {
      judge.opened('b', aPair(2, 10, '1.10'));
    },
  ],
  [
    'the same pair for the next token',
    (judge) => {
      judge.refreshed('a', aPair(1, 10), aPair(1, 11));
      judge.refreshed('a', aPair(1, 11), aPair(1, 11));
    },
  ],
  [
    'a user that two signups created',
    (judge) => {
      judge.signedUp(7);
      judge.signedUp(7);
    },
  ],
];

for (const [what, happen] of TWICE)
  test(`${what} is a duplicate id`, (t) => {
    const judge = makeJudge();
    judge.opened('a', aPair(1, 10));
    happen(judge);
    t.ok(judge.correctness().duplicate_ids > 0);
    t.match(judge.findings()[0], /^duplicate_ids: /);
    t.end();
  });

test('a refused refresh is a sign-out, and an accepted ended token is counted', (t) => {
  const judge = makeJudge();
  judge.signedOut('a', '401 token_reused');
  judge.triedEnded('an access token that was logged out', true);
  t.strictSame(judge.correctness(), { ...CLEAN, sign_outs: 1, revoked_accepted: 1 });
  t.strictSame(judge.findings(), [
    'sign_outs: a was signed out: 401 token_reused',
    'revoked_accepted: an access token that was logged out was accepted',
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
