import { test } from 'tap';
import { makeVerifiedTokens } from '../../src/http/verified-tokens.ts';

test('remembers tokens up to a bound, and those in use longest', (t) => {
  const tokens = makeVerifiedTokens<number>(3);
  t.equal(tokens.get('a'), undefined);
  tokens.add('used', 0);
  for (let i = 1; i <= 12; i++) {
    tokens.add(`token-${i}`, i);
    t.equal(tokens.get(`token-${i}`), i);
    t.equal(tokens.get('used'), 0, 'a token in use stays');
  }
  const kept = Array.from({ length: 12 }, (_, i) => tokens.get(`token-${i + 1}`)).filter((found) => found);
  t.ok(kept.length <= 6, 'no more than two generations');
  t.equal(tokens.get('token-1'), undefined, 'a token that is not used is forgotten');
  t.end();
});
