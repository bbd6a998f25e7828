import { test } from 'tap';
import { CLOCK_TOLERANCE } from '../../../src/domain/clock.ts';
import {
  hasExpired,
  isLongExpired,
  isLongLived,
  isTooOld,
  lifetimesOf,
  limitedClaims,
  longLivedClaims,
  longLivedExpiry,
  pairClaims,
  readClaims,
  readLimits,
  readServiceClaims,
  sessionExpiry,
  usedSince,
} from '../../../src/domain/tokens/claims.ts';
import { aUser, NO_FACTOR } from '../../support/token.ts';

const key = { userId: 7, tokenId: 11, generation: 1_795_000_000_999_999 };
const identity = { ...key, acr: null };
const lifetimes = { accessToken: 900, refreshToken: 2_592_000, session: 0 };
const createdAt = 1_794_000_000_999;
const IAT = 1_795_000_000;
const AUTH_TIME = 1_794_000_000;
const AMR = ['pwd', 'otp', 'mfa'];

test('the claims of a pair follow from its generation', (t) => {
  const base = { sub: '7', sid: 11, gen: identity.generation, jti: '11.1795000000999999', iat: IAT };
  const roles = ['editor', 'billing:read'];
  t.strictSame(pairClaims(identity, createdAt, lifetimes, aUser({ roles })), {
    access: { ...base, exp: IAT + 900, auth_time: AUTH_TIME, roles },
    refresh: { ...base, exp: IAT + 2_592_000 },
  });
  t.strictSame(
    pairClaims(identity, createdAt, lifetimes, aUser()).access,
    { ...base, exp: IAT + 900, auth_time: AUTH_TIME },
    'no claim for none',
  );
  t.strictSame(pairClaims(identity, createdAt, lifetimes, aUser({ emailVerified: true })), {
    access: { ...base, exp: IAT + 900, auth_time: AUTH_TIME, email_verified: true },
    refresh: { ...base, exp: IAT + 2_592_000 },
  });
  t.strictSame(
    pairClaims(identity, createdAt, lifetimes, aUser({ roles })),
    pairClaims({ ...identity }, createdAt, lifetimes, aUser({ roles: [...roles] })),
  );
  t.strictSame(pairClaims({ ...identity, acr: 'mfa' }, createdAt, lifetimes, aUser()), {
    access: { ...base, exp: IAT + 900, auth_time: AUTH_TIME, acr: 'mfa', amr: AMR },
    refresh: { ...base, exp: IAT + 2_592_000, amr: AMR },
  });
  t.end();
});

test('no token outlives the greatest age of its session', (t) => {
  const { access, refresh } = pairClaims(identity, createdAt, { ...lifetimes, session: 1_000_500 }, aUser());
  t.equal(access.exp, 1_794_000_000 + 1_000_500);
  t.equal(refresh.exp, 1_794_000_000 + 1_000_500);
  const later = pairClaims(identity, createdAt, { ...lifetimes, session: 1_100_000 }, aUser());
  t.equal(later.access.exp, IAT + 900);
  t.equal(later.refresh.exp, 1_794_000_000 + 1_100_000);
  t.end();
});

test('a long-lived token has no generation, and an expiry only on request', (t) => {
  const claims = { sub: '7', sid: 12, jti: '12', iat: IAT };
  t.strictSame(longLivedClaims(7, 12, 1_795_000_000_999, null), claims);
  const expiring = longLivedClaims(7, 12, 1_795_000_000_999, 1_795_000_060_000);
  t.strictSame(expiring, { ...claims, exp: IAT + 60 });
  const read = { userId: 7, tokenId: 12, generation: 0, expiresAt: IAT + 60, ...NO_FACTOR };
  t.strictSame(readClaims({ ...expiring }, 'llt'), read);
  t.end();
});

test('lifetimes are the settings of their names', (t) => {
  const config = { ACCESS_TOKEN_TTL: 900, REFRESH_TOKEN_TTL: 2_592_000, SESSION_MAX_AGE: 7 };
  t.strictSame(lifetimesOf(config), { ...lifetimes, session: 7 });
  t.end();
});

test('a limited token says what it may do, and always expires', (t) => {
  const limits = { scopes: ['orders:read', 'billing'], audience: 'orders' };
  const at = { createdAt: 1_795_000_000_999, expiresAt: 1_795_000_060_999 };
  const claims = limitedClaims({ userId: 7, tokenId: 12, ...at, ...limits });
  t.strictSame(claims, {
    sub: '7',
    sid: 12,
    jti: '12',
    iat: IAT,
    exp: IAT + 60,
    aud: 'orders#limited',
    scope: 'orders:read billing',
  });
  t.strictSame(readLimits(claims), limits);
  for (const other of [
    { aud: 'orders' },
    { aud: ['orders#limited'] },
    { aud: undefined },
    { aud: 'orders#limited#limited' },
    { scope: undefined },
    { scope: '' },
    { scope: 'orders:read  billing' },
  ])
    t.equal(readLimits({ ...claims, ...other }), null, JSON.stringify(other));
  const endless = { ...claims, exp: undefined };
  t.match(readClaims({ ...claims }, 'limited'), { tokenId: 12, expiresAt: IAT + 60 });
  t.equal(readClaims(endless, 'limited'), null);
  t.match(readClaims(endless, 'llt'), { tokenId: 12, expiresAt: null });
  for (const type of ['limited', 'llt'] as const) t.equal(isLongLived(type), true, type);
  for (const type of ['access', 'refresh', 'exchanged'] as const) t.equal(isLongLived(type), false, type);
  t.end();
});

test('issued claims can be read back', (t) => {
  const { access, refresh } = pairClaims(identity, createdAt, lifetimes, aUser({ roles: ['editor'] }));
  const authTime = AUTH_TIME;
  t.strictSame(readClaims({ ...access }, 'access'), { ...identity, authTime, expiresAt: IAT + 900 });
  t.strictSame(readClaims({ ...refresh }, 'refresh'), {
    ...key,
    ...NO_FACTOR,
    expiresAt: IAT + 2_592_000,
  });
  const proven = pairClaims({ ...key, acr: 'mfa' }, createdAt, lifetimes, aUser());
  t.match(readClaims({ ...proven.access }, 'access'), { acr: 'mfa', authTime });
  t.match(readClaims({ ...proven.refresh }, 'refresh'), { acr: 'mfa', authTime: null });
  const phr = pairClaims({ ...key, acr: 'phr' }, createdAt, lifetimes, aUser());
  t.match(phr.access, { acr: 'phr', amr: ['pop', 'user', 'mfa'] });
  t.match(readClaims({ ...phr.access }, 'access'), { acr: 'phr', authTime });
  t.match(readClaims({ ...phr.refresh }, 'refresh'), { acr: 'phr', authTime: null });
  for (const amr of [
    ['pop', 'mfa'],
    ['pop', 'user', 'pwd', 'mfa'],
    ['user', 'pop', 'mfa'],
    ['hwk', 'mfa'],
  ])
    t.match(readClaims({ ...phr.refresh, amr }, 'refresh'), { acr: 'mfa' }, 'of a later release');
  t.match(readClaims({ ...phr.access, acr: 'phrh' }, 'access'), { acr: 'mfa' });
  const longLived = longLivedClaims(7, 12, createdAt, null);
  t.strictSame(readClaims({ ...longLived }, 'llt'), {
    userId: 7,
    tokenId: 12,
    generation: 0,
    expiresAt: null,
    ...NO_FACTOR,
  });
  const greatest = Number.MAX_SAFE_INTEGER;
  const ids = { ...identity, userId: greatest, tokenId: greatest, generation: greatest };
  const far = pairClaims(ids, createdAt, lifetimes, aUser());
  t.strictSame(readClaims({ ...far.access }, 'access'), {
    ...ids,
    authTime,
    expiresAt: far.access.exp,
  });
  t.end();
});

test('a token expires with its claim plus the tolerance, to the millisecond', (t) => {
  const end = (IAT + CLOCK_TOLERANCE) * 1000;
  t.equal(hasExpired({ expiresAt: IAT }, end - 1), false);
  t.equal(hasExpired({ expiresAt: IAT }, end), true);
  t.equal(hasExpired({ expiresAt: null }, Number.MAX_SAFE_INTEGER), false);
  t.end();
});

test('a refresh token is too old after the present lifetime plus the tolerance, to the millisecond', (t) => {
  const { generation } = identity;
  const end = (IAT + lifetimes.refreshToken + CLOCK_TOLERANCE) * 1000;
  t.equal(isTooOld({ type: 'refresh', generation }, end - 1, lifetimes), false);
  t.equal(isTooOld({ type: 'refresh', generation }, end, lifetimes), true);
  t.equal(isTooOld({ type: 'access', generation }, end, lifetimes), false);
  t.end();
});

test('claims of another shape are refused', (t) => {
  const proven = pairClaims({ ...key, acr: 'mfa' }, createdAt, lifetimes, aUser());
  const access: Record<string, unknown> = { ...proven.access };
  t.ok(readClaims(access, 'access'));
  const longLived = { ...longLivedClaims(7, 12, createdAt, null) };
  t.equal(readClaims(longLived, 'access'), null);
  t.equal(readClaims(longLived, 'refresh'), null);
  t.equal(readClaims(access, 'llt'), null);
  const spoilt: Record<string, unknown[]> = {
    sub: [
      undefined,
      7,
      ['7'],
      '',
      '0',
      '-7',
      '07',
      '7.0',
      '1e3',
      ' 7',
      '9007199254740992',
      '99999999999999999',
    ],
    sid: [undefined, '11', 0, -1, 1.5, 2 ** 53, NaN, null],
    gen: [undefined, '5', 0, -1, 1.5, 2 ** 53, null],
    jti: [undefined, '', '11', '11.5', `12.${identity.generation}`, 11],
    iat: [undefined, '5', null, 1.5, 2 ** 53, 1e300],
    exp: [undefined, '5', null, 1.5, 2 ** 53, 1e300],
    auth_time: [undefined, '5', null, 0, -1, 1.5, 2 ** 53],
    acr: [undefined, null, '', 7, ['mfa']],
    amr: [
      undefined,
      null,
      'mfa',
      [],
      ['pwd', 'otp'],
      ['MFA'],
      [...AMR, 7],
      { 0: 'pwd', 1: 'otp', 2: 'mfa', length: 3 },
    ],
  };
  t.equal(readClaims({ ...access, auth_time: undefined, amr: undefined }, 'access'), null, 'acr alone');
  t.strictSame(Object.keys(spoilt).sort(), Object.keys(access).sort(), 'every claim');
  for (const [claim, values] of Object.entries(spoilt)) {
    for (const value of values) {
      t.equal(readClaims({ ...access, [claim]: value }, 'access'), null, `${claim}: ${String(value)}`);
    }
  }
  for (const spoiltClaims of [
    { jti: '13' },
    { jti: undefined },
    { gen: 5 },
    { sid: '12' },
    { sub: 7 },
    { exp: '5' },
    { exp: null },
    { auth_time: AUTH_TIME },
    { acr: 'mfa', amr: AMR },
  ]) {
    t.equal(readClaims({ ...longLived, ...spoiltClaims }, 'llt'), null, JSON.stringify(spoiltClaims));
  }
  const refresh: Record<string, unknown> = { ...proven.refresh };
  t.ok(readClaims(refresh, 'refresh'));
  for (const spoiltClaims of [{ amr: ['pwd'] }, { acr: 'mfa' }, { auth_time: AUTH_TIME }])
    t.equal(readClaims({ ...refresh, ...spoiltClaims }, 'refresh'), null, JSON.stringify(spoiltClaims));
  t.end();
});

test('a token of 1.0.0 says nothing of its login, and is read', (t) => {
  const { auth_time, ...access } = pairClaims(identity, createdAt, lifetimes, aUser()).access;
  t.equal(auth_time, AUTH_TIME);
  t.match(readClaims(access, 'access'), { ...key, ...NO_FACTOR });
  t.end();
});

test('an exchanged token is told by its random id', (t) => {
  const { access } = pairClaims(identity, createdAt, lifetimes, aUser());
  const exchanged = { ...access, jti: 'Aa0_-'.repeat(5).slice(3) };
  t.strictSame(readClaims(exchanged, 'exchanged'), {
    ...identity,
    authTime: AUTH_TIME,
    expiresAt: IAT + 900,
  });
  t.equal(readClaims(exchanged, 'access'), null);
  for (const jti of [access.jti, `.${exchanged.jti}`, `${exchanged.jti}.`, 'A', [exchanged.jti]])
    t.equal(readClaims({ ...exchanged, jti }, 'exchanged'), null, String(jti));
  t.end();
});

test('a session ends with its newest token or its greatest age; its record may be a lifetime behind', (t) => {
  const DAY = 86_400;
  const at = (seconds: number) => (IAT + seconds) * 1_000_000;
  const now = IAT * 1000;
  const short = { accessToken: 1, refreshToken: 60, session: 0 };
  t.equal(sessionExpiry(now, at(0) + 999_999, short), now + 60_000);
  t.equal(sessionExpiry(now, at(0), { ...short, session: 50 }), now + 50_000);
  t.equal(longLivedExpiry(now + 999, 0), null);
  t.equal(longLivedExpiry(now + 999, 60), now + 60_000);

  t.equal(usedSince(now, short), at(-60 - DAY), 'a day');
  t.equal(usedSince(now, { ...short, refreshToken: 2 * DAY }), at(-4 * DAY), 'another lifetime');
  t.equal(isLongExpired(0, at(-60 - DAY), now, short), true);
  t.equal(isLongExpired(0, at(-60 - DAY) + 1, now, short), false);
  const aged = { ...short, session: 50 };
  t.equal(isLongExpired(now - 50_000 - DAY * 1000, at(0), now, aged), false);
  t.equal(isLongExpired(now - 50_000 - DAY * 1000 - 1, at(0), now, aged), true);
  t.end();
});

test('claims of another shape are no service’s', (t) => {
  const serviceId = `lkc_${'a'.repeat(22)}`;
  const service: Record<string, unknown> = {
    sub: serviceId,
    client_id: serviceId,
    client_version: 3,
    jti: 'j'.repeat(22),
    aud: 'orders',
    iat: IAT,
    exp: IAT + 600,
  };
  const read = { type: 'service', serviceId, version: 3, audience: 'orders', expiresAt: IAT + 600 };
  t.strictSame(readServiceClaims(service), read);
  const spoilt: Record<string, unknown[]> = {
    client_version: [undefined, '3', 0, -1, 1.5, null],
    jti: [undefined, '', '11.5', 11, ['j'.repeat(22)]],
    aud: [undefined, null, ['orders']],
    iat: [undefined, '5'],
    exp: [undefined, '5'],
    sid: [1],
    gen: [1],
  };
  for (const [claim, values] of Object.entries(spoilt))
    for (const value of values) t.equal(readServiceClaims({ ...service, [claim]: value }), null, claim);
  for (const id of [undefined, 7, '7', 'latchkey', `${serviceId}a`, `a${serviceId}`, 'lkc_a', [serviceId]])
    t.equal(readServiceClaims({ ...service, sub: id, client_id: id }), null, String(id));
  t.equal(readServiceClaims({ ...service, client_id: `lkc_${'b'.repeat(22)}` }), null, 'of two clients');
  t.end();
});
