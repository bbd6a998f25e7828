import { test } from 'tap';
import { isInScope, parseScopes, scopesIn } from '../../src/domain/scopes.ts';

const many = (count: number) => Array.from({ length: count }, (_, i) => `s${i}`);

/** What is no list of scopes. */
const BAD: readonly unknown[] = [
  [],
  many(33),
  ['a', 'a'],
  [''],
  ['Orders'],
  ['orders read'],
  ['a,b'],
  ['x'.repeat(65)],
  ['é'],
  [7],
  'a',
  null,
  undefined,
  {},
];

test('scopes are 1 to 32 different names in the characters of a role', (t) => {
  for (const good of [['a'], many(32), ['orders:read', 'x_y-z', '0'], ['x'.repeat(64)]])
    t.strictSame(parseScopes(good), { ok: true, value: good });
  for (const bad of BAD) {
    const parsed = parseScopes(bad);
    t.match(parsed, { ok: false, message: /^must / }, JSON.stringify(bad));
    t.notMatch(parsed, { message: /Orders|orders read/ }, 'no value that was sent');
  }
  t.end();
});

test('a text holds scopes only if all of it has their form', (t) => {
  t.strictSame(scopesIn('a,b:c', ','), ['a', 'b:c']);
  for (const text of [
    '',
    ',',
    'a,',
    ',a',
    'a,,b',
    'a,a',
    'a b',
    'A',
    'a\u0000',
    many(33).join(),
    null,
    ['a'],
  ])
    t.equal(scopesIn(text, ','), null, JSON.stringify(text));
  t.end();
});

test('all scopes that are needed have to be given', (t) => {
  t.ok(isInScope(['a', 'b'], ['b', 'a']));
  t.ok(isInScope(['a', 'b'], ['b']));
  t.notOk(isInScope(['a'], ['a', 'b']));
  // No wildcard, no prefix, and no name means more than itself.
  for (const given of ['*', 'orders', 'orders:', 'orders:rea', 'orders:read:x', 'admin', 'all'])
    t.notOk(isInScope([given], ['orders:read']), given);
  t.end();
});
