import { test } from 'tap';
import { makeTokenCache, type ReadToken } from '../../packages/verifier/src/token-cache.ts';

const read = (sid: number) => ({ verified: { sid }, kid: 'a' }) as unknown as ReadToken;
/** Each takes four bytes, as the cache counts. */
const LETTERS = ['a', 'b', 'c', 'd'];

test('returns what was added, until it is deleted', (t) => {
  const cache = makeTokenCache({ size: 10, bytes: 100_000 });
  t.equal(cache.get('a'), undefined);
  cache.add('a', read(1));
  t.match(cache.get('a'), { verified: { sid: 1 }, kid: 'a' });
  t.equal(cache.get('b'), undefined);
  cache.add('a', read(2));
  t.match(cache.get('a'), { verified: { sid: 2 } });
  t.equal(cache.bytes(), 4, 'once');
  cache.delete('a');
  cache.delete('a');
  t.equal(cache.get('a'), undefined);
  t.equal(cache.bytes(), 0);
  t.end();
});

test('evicts the least recently used tokens above its size', (t) => {
  const cache = makeTokenCache({ size: 3, bytes: 100_000 });
  LETTERS.slice(0, 3).forEach((token, i) => {
    cache.add(token, read(i));
  });
  t.ok(cache.get('a'));
  cache.add('d', read(3));
  t.strictSame(
    LETTERS.filter((token) => cache.get(token)),
    ['a', 'c', 'd'],
  );
  t.equal(cache.bytes(), 12);
  const none = makeTokenCache({ size: 0, bytes: 100_000 });
  none.add('a', read(1));
  t.equal(none.get('a'), undefined);
  t.equal(none.bytes(), 0);
  t.end();
});

test('evicts as many tokens as a long one needs, and keeps none that is too long', (t) => {
  const cache = makeTokenCache({ size: 100, bytes: 12 });
  LETTERS.slice(0, 3).forEach((token, i) => {
    cache.add(token, read(i));
  });
  const long = 'xx';
  cache.add(long, read(9));
  t.strictSame(
    LETTERS.filter((token) => cache.get(token)),
    ['c'],
  );
  t.match(cache.get(long), { verified: { sid: 9 } });
  t.equal(cache.bytes(), 12);
  cache.add('xxxx', read(9));
  t.equal(cache.get('xxxx'), undefined);
  t.equal(cache.bytes(), 12);
  t.end();
});

test('keeps no text that its copy would change: the copy may be another token', (t) => {
  const cache = makeTokenCache({ size: 10, bytes: 100_000 });
  // As Latin-1, U+0141 becomes an A.
  cache.add('a.b.\u0141', read(1));
  t.equal(cache.get('a.b.A'), undefined);
  t.equal(cache.get('a.b.\u0141'), undefined);
  t.end();
});
