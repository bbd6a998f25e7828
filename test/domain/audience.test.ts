import { test } from 'tap';
import { isAudience } from '../../src/domain/audience.ts';

test('an audience can stand in a path, a query and a configuration as it is', (t) => {
  for (const good of ['a', '7', 'orders', 'orders.example.com', 'urn:orders', 'A_b-c', 'x'.repeat(64)]) {
    t.equal(isAudience(good), true, good);
    t.equal(encodeURI(good), good);
    t.equal(new URL(`http://x/${good}/verify`).pathname, `/${good}/verify`);
  }
  for (const bad of [
    '',
    '.',
    '..',
    '-a',
    ':a',
    'a b',
    'a/b',
    'a?',
    'a#',
    'a%20',
    'a,b',
    'é',
    'a\n',
    'x'.repeat(65),
  ])
    t.equal(isAudience(bad), false, JSON.stringify(bad));
  t.end();
});
