import { test } from 'tap';
import { makeTokenCache, type ReadToken } from '../src/token-cache.ts';

const read = (sid: number) => ({ verified: { sid }, kid: 'a' }) as unknown as ReadToken;
/** Each takes twelve bytes, as the cache counts. */
const TOKENS = ['a.s', 'b.s', 'c.s', 'd.s'];

test('returns what was added, until it is deleted', (t) => {
  const cache = makeTokenCache({ size: 10, bytes: 100_000 });
  t.equal(cache.get('a.s'), undefined);
  cache.add('a.s', read(1));
  t.match(cache.get('a.s'), { verified: { sid: 1 }, kid: 'a' });
  t.equal(cache.get('b.s'), undefined);
  cache.add('a.s', read(2));
  t.match(cache.get('a.s'), { verified: { sid: 2 } });
  t.equal(cache.bytes(), 12, 'once');
  t.equal(cache.size(), 1);
  cache.delete('a.s');
  cache.delete('a.s');
  t.equal(cache.get('a.s'), undefined);
  t.equal(cache.bytes(), 0);
  t.end();
});

test('evicts the least recently used tokens above its size', (t) => {
  const cache = makeTokenCache({ size: 3, bytes: 100_000 });
  TOKENS.slice(0, 3).forEach((token, i) => {
    cache.add(token, read(i));
  });
  t.ok(cache.get('a.s'));
  cache.add('d.s', read(3));
  t.strictSame(
    TOKENS.filter((token) => cache.get(token)),
    ['a.s', 'c.s', 'd.s'],
  );
  t.equal(cache.bytes(), 36);
  const none = makeTokenCache({ size: 0, bytes: 100_000 });
  none.add('a.s', read(1));
  t.equal(none.get('a.s'), undefined);
  t.equal(none.bytes(), 0);
  t.end();
});

test('evicts as many tokens as a long one needs, and keeps none that is too long', (t) => {
  const cache = makeTokenCache({ size: 100, bytes: 36 });
  TOKENS.slice(0, 3).forEach((token, i) => {
    cache.add(token, read(i));
  });
  const long = 'xxxx.s';
  cache.add(long, read(9));
  t.strictSame(
    TOKENS.filter((token) => cache.get(token)),
    ['c.s'],
  );
  t.match(cache.get(long), { verified: { sid: 9 } });
  t.equal(cache.bytes(), 36);
  cache.add('xxxxxxxx.s', read(9));
  t.equal(cache.get('xxxxxxxx.s'), undefined);
  t.equal(cache.bytes(), 36);
  t.end();
});

test('keeps no text that its copy would change: the copy may be another token', (t) => {
  const cache = makeTokenCache({ size: 10, bytes: 100_000 });
  // A decoder drops U+FEFF at the beginning, and Latin-1 makes an A of U+0141.
  for (const text of ['\uFEFFa.b.c', 'a.b.\u0141']) cache.add(text, read(1));
  for (const text of ['a.b.c', 'a.b.A', '\uFEFFa.b.c', 'a.b.\u0141']) t.equal(cache.get(text), undefined);
  t.equal(cache.size(), 0);
  t.end();
});

test('keeps one entry for one signed text, and finds it with the very same signature only', (t) => {
  const cache = makeTokenCache({ size: 10, bytes: 100_000 });
  cache.add('h.p.s', read(1));
  t.equal(cache.get('h.p.t'), undefined);
  cache.delete('h.p.t');
  t.match(cache.get('h.p.s'), { verified: { sid: 1 } }, 'another signature does not evict it');
  cache.add('h.p.signed', read(1));
  t.equal(cache.bytes(), 4 * 'h.p.signed'.length);
  t.equal(cache.get('h.p.s'), undefined);
  t.match(cache.get('h.p.signed'), { verified: { sid: 1 } });
  t.end();
});
