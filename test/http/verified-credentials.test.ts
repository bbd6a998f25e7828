import { test } from 'tap';
import { REMEMBERED_BYTES } from '../../src/domain/sizing/remembered-tokens.ts';
import { makeIdentityPacking, type Identity } from '../../src/http/identity-packing.ts';
import { ENTRY_BYTES, makeVerifiedCredentials, type Packing } from '../../src/http/verified-credentials.ts';
import { collectGarbage } from '../support/collect-garbage.ts';

/** Numbers below 100 are kept as numbers, all others as objects of two entries. */
const NUMBER: Packing<number> = {
  pack: (identity, into, at) => {
    into[at] = identity;
    return identity < 100;
  },
  unpack: (from, at) => from[at] ?? NaN,
  sizeOf: () => ENTRY_BYTES,
};

for (const [what, first, most] of [
  ['numbers', 1, 6],
  ['objects, which count by their size', 101, 2],
] as const)
  test(`remembers tokens up to a bound, and those in use longest: ${what}`, (t) => {
    const tokens = makeVerifiedCredentials(3, NUMBER);
    t.equal(tokens.get('a'), undefined);
    tokens.add('used', 0);
    const added = Array.from({ length: 12 }, (_, i) => first + i);
    for (const i of added) {
      tokens.add(`token-${i}`, i);
      t.equal(tokens.get(`token-${i}`), i);
      t.equal(tokens.get('used'), 0, 'a token in use stays');
    }
    t.equal(tokens.get(`token-${first}`), undefined, 'a token that is not used is forgotten');
    const kept = added.filter((i) => tokens.get(`token-${i}`) !== undefined);
    t.ok(kept.length <= most, `${kept.length} in two generations`);
    tokens.clear();
    t.strictSame(
      added.filter((i) => tokens.get(`token-${i}`) !== undefined),
      [],
    );
    t.end();
  });

test('surely remembers as many as its capacity, in the memory that plan and replicas count with', async (t) => {
  t.equal(REMEMBERED_BYTES, 2 * ENTRY_BYTES);
  const capacity = 20_000;
  await collectGarbage();
  const bytes = () => process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
  const before = bytes();
  const tokens = makeVerifiedCredentials(capacity, makeIdentityPacking());
  const identity = (i: number): Identity => ({
    userId: i,
    tokenId: 2 ** 52 + i,
    generation: 1_764_000_000_000_000 + i,
    expiresAt: i % 3 === 0 ? null : 1_764_000_000 + i,
    acr: ([null, 'mfa', 'phr'] as const)[i % 3] ?? null,
    authTime: i % 5 === 0 ? null : 1_764_000_000 - i,
    type: i % 3 === 0 ? 'llt' : 'access',
  });
  for (let i = 1; i <= 5 * capacity; i++) tokens.add(`a-token-of-${i}`, identity(i));
  await collectGarbage();
  const grown = bytes() - before;
  t.ok(grown < 1.2 * capacity * REMEMBERED_BYTES, `${Math.round(grown / capacity)} bytes a token`);
  for (let i = 4 * capacity + 1; i <= 5 * capacity; i++) {
    const known = tokens.get(`a-token-of-${i}`);
    if (i % 997 === 0 || !known) t.strictSame(known, identity(i));
  }
});

test('keeps what tokens for services say, and knows a bounded number of names', (t) => {
  const tokens = makeVerifiedCredentials(10_000, makeIdentityPacking());
  const exchanged = (i: number): Identity => ({
    userId: i,
    tokenId: i,
    generation: i,
    expiresAt: i,
    acr: null,
    authTime: i,
    type: 'exchanged',
    audience: `https://service-${i}.example`,
    actor: i % 2 === 0 ? `actor-${i}` : '',
  });
  const service = (i: number) =>
    ({
      type: 'service',
      serviceId: `actor-${i}`,
      version: i,
      audience: `audience-${i}`,
      expiresAt: i,
    }) as const;
  const limited: Identity = { ...exchanged(1), type: 'limited', scopes: ['a', 'b'] };
  for (let i = 1; i <= 5000; i += 3) {
    tokens.add(`exchanged-${i}`, exchanged(i));
    tokens.add(`service-${i}`, service(i));
    tokens.add('limited', limited);
    t.strictSame(tokens.get(`exchanged-${i}`), exchanged(i));
    t.strictSame(tokens.get(`service-${i}`), service(i));
  }
  t.strictSame(tokens.get('limited'), limited);
  t.end();
});

test('a limited token counts by its scopes, so that many long ones take no more memory', async (t) => {
  const capacity = 20_000;
  await collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const tokens = makeVerifiedCredentials(capacity, makeIdentityPacking());
  for (let i = 1; i <= 3000; i++) {
    const scopes = Array.from({ length: 32 }, (_, n) => `${i}-${n}-`.padEnd(64, 'x'));
    const limits = { scopes: scopes.join(' ').split(' '), audience: 'latchkey' };
    const dates = { userId: i, tokenId: i, generation: 0, expiresAt: i, acr: null, authTime: null };
    tokens.add(`a-token-of-${i}`, { ...dates, ...limits, type: 'limited' });
  }
  await collectGarbage();
  const grown = process.memoryUsage().heapUsed - before;
  // Twice as much, because other parts of the process allocate too. Uncounted, the scopes would take 14 MB.
  t.ok(grown < 2 * capacity * REMEMBERED_BYTES, `${Math.round(grown / 1000)} kB`);
  t.ok(tokens.get('a-token-of-3000'));
  t.equal(tokens.get('a-token-of-1'), undefined);
});
