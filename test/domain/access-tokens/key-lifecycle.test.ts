import { test } from 'tap';
import {
  jwksMaxAge,
  describeKeys,
  signerFirst,
  signerOf,
  type KeyRecord,
} from '../../../src/domain/access-tokens/key-lifecycle.ts';
import type { SigningKey } from '../../../src/domain/access-tokens/ports.ts';

const NOW = 1_795_000_000_000;
const MINUTE = 60_000;
const aKey = (kid: string) => ({ kid }) as SigningKey;
const order = (kids: string[], active: string[] | null) =>
  signerFirst(kids.map(aKey), active && new Set(active)).map(({ kid }) => kid);

/** A key that signs for an hour. */
const aRecord = (more: Partial<KeyRecord> = {}): KeyRecord => ({
  publishedAt: NOW - 110 * MINUTE,
  signsSince: NOW - 100 * MINUTE,
  signedAt: NOW,
  ...more,
});
const waiting = { signsSince: null, signedAt: null, publishedAt: NOW - MINUTE };

function judge(
  records: Record<string, KeyRecord>,
  kids: string[],
  more: Partial<Parameters<typeof describeKeys>[1]> = {},
) {
  return describeKeys(kids, {
    records: new Map(Object.entries(records)),
    longLived: new Map(),
    now: NOW,
    lead: 600,
    longestTtl: 900,
    ...more,
  });
}

test('among the keys that may sign, the highest name signs', (t) => {
  t.strictSame(order(['c', 'b', 'a'], ['a', 'b']), ['b', 'c', 'a']);
  t.strictSame(order(['c', 'b', 'a'], ['a', 'b', 'c']), ['c', 'b', 'a']);
  t.strictSame(
    order(['c', 'b', 'a'], ['gone']),
    ['a', 'c', 'b'],
    'if none may sign, the lowest name comes first',
  );
  t.strictSame(order(['c', 'b', 'a'], null), ['a', 'c', 'b'], 'unknown which may sign');
  t.strictSame(order([], null), []);
  t.match(signerOf({ signing: [aKey('a'), aKey('b')], refresh: [] }), { kid: 'a' });
  t.throws(() => signerOf({ signing: [], refresh: [] }), { message: 'the key ring is empty' });
  t.end();
});

test('verifiers may cache the JWKS for half of the lead, up to a limit', (t) => {
  t.strictSame([0, 1, 10, 600, 86_400].map(jwksMaxAge), [0, 0, 5, 300, 300]);
  t.end();
});

test('a key is unseen, then published, then signs', (t) => {
  const records = { old: aRecord(), next: aRecord(waiting) };
  t.match(judge(records, ['newest', 'next', 'old']), [
    { kid: 'newest', state: 'unseen', next: null },
    { kid: 'next', state: 'published', since: NOW - MINUTE, next: NOW + 9 * MINUTE },
    { kid: 'old', state: 'signing', since: NOW - 100 * MINUTE, next: null },
  ]);
  t.match(judge({ next: aRecord(waiting) }, ['next'])[0], { state: 'published', next: NOW + 9 * MINUTE });
  const unpublished = { ...waiting, publishedAt: null };
  t.match(judge({ next: aRecord(unpublished) }, ['next'])[0], { state: 'published', next: null });
  t.match(judge(records, ['old', 'next'])[1], { state: 'published', next: null }, 'a lower name never signs');
  t.end();
});

test('a key is needed until its last token has expired', (t) => {
  const old = (signedAt: number | null, more = {}) =>
    judge({ new: aRecord(), old: aRecord({ signedAt }) }, ['new', 'old'], more)[1];
  const keep = (900 + 70) * 1000;
  t.match(old(NOW), { state: 'verifying', since: NOW, next: NOW + keep });
  t.match(old(NOW - keep + 1), { state: 'verifying' });
  t.match(old(NOW - keep), { state: 'retirable', next: NOW });
  t.match(old(null), { state: 'retirable' }, 'it could have signed, but no replica signed with it');
  const withdrawn = aRecord({ signsSince: null });
  t.match(judge({ new: aRecord(), old: withdrawn }, ['new', 'old'])[1], { state: 'verifying', since: NOW });
  const justBefore = aRecord({ signsSince: NOW - MINUTE, signedAt: null });
  t.match(judge({ new: aRecord(), old: justBefore }, ['new', 'old'])[1], { state: 'verifying' });
  t.end();
});

test('a key is needed as long as a long-lived token of it is good', (t) => {
  const past = aRecord({ signedAt: NOW - 60 * MINUTE });
  const old = (...signedBy: [string, number][]) =>
    judge({ new: aRecord(), old: past }, ['new', 'old'], { longLived: new Map(signedBy) })[1];
  t.match(old(['old', 2]), { state: 'verifying', next: null, longLived: 2 });
  t.match(old(['new', 2]), { state: 'retirable', longLived: 0 });
  t.end();
});
