import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { asEnded, ENDED_SHOWN, finalEnd, newestFirst } from '../../../src/domain/tokens/ended-token.ts';
import { aLongLived, aSession } from '../../support/token.ts';

const USED = 1_795_000_000_000;
const lifetimes = { accessToken: 900, refreshToken: 3600, session: 0 };
const EXPIRY = USED + 3_600_000;
const session = (overrides = {}) => aSession(initialState(USED * 1000, 'home'), overrides);
const endOf = (...[record, reason, now = EXPIRY - 1, times = lifetimes]: Parts) => {
  const ended = asEnded(record, reason, times, now);
  return ended && [ended.endedAt, ended.reason];
};
type Parts = [
  record: Parameters<typeof asEnded>[0],
  reason: string | null,
  now?: number,
  times?: typeof lifetimes,
];

test('a good token has not ended', (t) => {
  t.equal(endOf(session(), null), null);
  t.equal(endOf(aLongLived(), null, Number.MAX_SAFE_INTEGER), null);
  t.end();
});

test('a session ends with its expiry or its greatest age', (t) => {
  t.strictSame(endOf(session(), null, EXPIRY), [EXPIRY, 'expired']);
  const createdAt = USED - 1000;
  const aged = endOf(session({ createdAt }), null, EXPIRY, { ...lifetimes, session: 60 });
  t.strictSame(aged, [createdAt + 60_000, 'expired']);
  t.end();
});

test('a revoked token has its reason, and an unknown word is no reason', (t) => {
  for (const reason of ['logout', 'reuse', 'password', 'admin', 'replaced']) {
    t.strictSame(endOf(session({ revokedAt: USED + 5 }), reason), [USED + 5, reason]);
    t.strictSame(endOf(aLongLived({ revokedAt: 5 }), reason), [5, reason]);
  }
  for (const reason of [null, 'of a later release', 'expired'])
    t.strictSame(endOf(session({ revokedAt: USED + 5 }), reason), [USED + 5, 'unknown']);
  t.strictSame(endOf(session({ revokedAt: EXPIRY }), 'admin'), [EXPIRY, 'admin']);
  t.end();
});

test('a token that had already expired stays expired, unless it was a theft', (t) => {
  t.strictSame(endOf(session({ revokedAt: EXPIRY + 1 }), 'logout'), [EXPIRY, 'expired']);
  t.strictSame(endOf(session({ revokedAt: EXPIRY + 1 }), null), [EXPIRY, 'expired']);
  t.strictSame(endOf(session({ revokedAt: EXPIRY + 1 }), 'reuse'), [EXPIRY + 1, 'reuse']);
  t.strictSame(endOf(aLongLived({ expiresAt: 5, revokedAt: 9 }), 'reuse'), [5, 'expired']);
  t.end();
});

test('an end is final if nothing can change it', (t) => {
  const final = (record: Parts[0]) => finalEnd(record, null, lifetimes, EXPIRY);
  t.equal(final(session()), null, 'a session that only looks expired');
  const later = (ms: number, times = lifetimes) =>
    finalEnd(session({ createdAt: USED }), null, times, USED + ms);
  const DAY = 86_400_000;
  t.equal(later(3_600_000 + DAY - 1), null, 'nor a day later');
  t.equal(later(3_600_000 + DAY), EXPIRY, 'but then');
  const aged = { ...lifetimes, refreshToken: 30 * 86_400, session: 3600 };
  t.equal(later(3_600_000 + DAY, aged), null, 'nor a day after its greatest age');
  t.equal(later(3_600_001 + DAY, aged), EXPIRY);
  t.equal(final(session({ revokedAt: USED })), USED);
  const state = initialState(USED * 1000, '');
  t.equal(final(aLongLived({ expiresAt: USED, state })), USED);
  t.equal(final(aLongLived()), null);
  t.end();
});

test('an end that was written stays when the lifetimes change', (t) => {
  t.match(asEnded(session(), null, lifetimes, USED, USED - 7), { endedAt: USED - 7, reason: 'expired' });
  t.end();
});

test('ended tokens are listed for 30 days, the newest first, and of one time the newest token', (t) => {
  t.equal(ENDED_SHOWN / 86_400_000, 30);
  const listed = [
    { endedAt: 1, id: 9 },
    { endedAt: 2, id: 3 },
    { endedAt: 2, id: 4 },
  ];
  t.strictSame(
    listed.sort(newestFirst).map(({ id }) => id),
    [4, 3, 9],
  );
  t.end();
});

test('the last use comes from the record', (t) => {
  t.match(asEnded(session({ revokedAt: 1 }), 'logout', lifetimes, USED), {
    type: 'refresh',
    lastUsedAt: USED,
  });
  const unused = asEnded(aLongLived({ revokedAt: 1 }), 'logout', lifetimes, USED);
  t.match(unused, { type: 'llt', lastUsedAt: null, name: 'Kitchen tablet' });
  const used = asEnded(aLongLived({ revokedAt: 9, lastUsedAt: 3 }), 'logout', lifetimes, USED);
  t.match(used, { lastUsedAt: 3 });
  t.end();
});
