import { test } from 'tap';
import { longLivedClaims, pairClaims, readClaims } from '../../../src/domain/access-tokens/claims.ts';

const identity = { userId: 7, tokenId: 11, generation: 1_795_000_000_999_999 };
const lifetimes = { accessToken: 900, refreshToken: 2_592_000, session: 0 };
const createdAt = 1_794_000_000_999;
const IAT = 1_795_000_000;

test('the claims of a pair follow from its generation', (t) => {
  const base = { sub: '7', sid: 11, gen: identity.generation, jti: '11.1795000000999999', iat: IAT };
  t.strictSame(pairClaims(identity, createdAt, lifetimes), {
    access: { ...base, exp: IAT + 900 },
    refresh: { ...base, exp: IAT + 2_592_000 },
  });
  t.strictSame(pairClaims(identity, createdAt, lifetimes), pairClaims({ ...identity }, createdAt, lifetimes));
  t.end();
});

test('no token outlives the greatest age of its session', (t) => {
  const { access, refresh } = pairClaims(identity, createdAt, { ...lifetimes, session: 1_000_500 });
  t.equal(access.exp, 1_794_000_000 + 1_000_500);
  t.equal(refresh.exp, 1_794_000_000 + 1_000_500);
  const later = pairClaims(identity, createdAt, { ...lifetimes, session: 1_100_000 });
  t.equal(later.access.exp, IAT + 900);
  t.equal(later.refresh.exp, 1_794_000_000 + 1_100_000);
  t.end();
});

test('a long-lived token has neither generation nor expiry', (t) => {
  t.strictSame(longLivedClaims(7, 12, 1_795_000_000_999), { sub: '7', sid: 12, jti: '12', iat: IAT });
  t.end();
});

test('what was made is read back', (t) => {
  const { access, refresh } = pairClaims(identity, createdAt, lifetimes);
  t.strictSame(readClaims({ ...access }, 'access'), identity);
  t.strictSame(readClaims({ ...refresh }, 'refresh'), identity);
  const longLived = longLivedClaims(7, 12, createdAt);
  t.strictSame(readClaims({ ...longLived }, 'llt'), { userId: 7, tokenId: 12, generation: 0 });
  const greatest = Number.MAX_SAFE_INTEGER;
  const far = pairClaims({ userId: greatest, tokenId: greatest, generation: greatest }, createdAt, lifetimes);
  t.strictSame(readClaims({ ...far.access }, 'access'), {
    userId: greatest,
    tokenId: greatest,
    generation: greatest,
  });
  t.end();
});

test('whatever is not shaped like ours is not read', (t) => {
  const access = { ...pairClaims(identity, createdAt, lifetimes).access };
  const longLived = { ...longLivedClaims(7, 12, createdAt) };
  t.equal(readClaims(longLived, 'access'), null);
  t.equal(readClaims(longLived, 'refresh'), null);
  t.equal(readClaims(access, 'llt'), null);
  const spoilt: Record<string, unknown[]> = {
    sub: [undefined, 7, '', '0', '-7', '07', '7.0', '1e3', ' 7', '9007199254740992', '99999999999999999'],
    sid: [undefined, '11', 0, -1, 1.5, 2 ** 53, NaN, null],
    gen: [undefined, '5', 0, -1, 1.5, 2 ** 53, null],
    jti: [undefined, '', '11', '11.5', `12.${identity.generation}`, 11],
    iat: [undefined, '5', null],
    exp: [undefined, '5', null],
  };
  t.strictSame(Object.keys(spoilt).sort(), Object.keys(access).sort(), 'every claim');
  for (const [claim, values] of Object.entries(spoilt)) {
    for (const value of values) {
      t.equal(readClaims({ ...access, [claim]: value }, 'access'), null, `${claim}: ${String(value)}`);
    }
  }
  for (const spoiltClaims of [{ jti: '13' }, { jti: undefined }, { gen: 5 }, { sid: '12' }, { sub: 7 }]) {
    t.equal(readClaims({ ...longLived, ...spoiltClaims }, 'llt'), null, JSON.stringify(spoiltClaims));
  }
  t.end();
});
