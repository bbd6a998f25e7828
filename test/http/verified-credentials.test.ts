import { test } from 'tap';
import { makeVerifiedCredentials } from '../../src/http/verified-credentials.ts';
import { collectGarbage } from '../support/collect-garbage.ts';

test('remembers tokens up to a bound, and those in use longest', (t) => {
  const tokens = makeVerifiedCredentials<number>(3);
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

test('keeps a token in memory without the header around it', async (t) => {
  const tokens = makeVerifiedCredentials<number>();
  const count = 3000;
  await collectGarbage();
  const before = process.memoryUsage().heapUsed;
  for (let i = 0; i < count; i++) {
    const header = Buffer.from(`Bearer ${' '.repeat(15_000)}token-of-more-than-a-dozen-characters-${i}`);
    const [, token = ''] = /^Bearer +(.*)$/.exec(header.toString('latin1')) ?? [];
    tokens.add(token, i);
  }
  await collectGarbage();
  const grown = process.memoryUsage().heapUsed - before;
  t.ok(grown < (count * 15_000) / 3, `${Math.round(grown / count)} bytes each`);
  t.equal(tokens.get('token-of-more-than-a-dozen-characters-7'), 7);
});
