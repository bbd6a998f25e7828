import { test } from 'tap';
import { fits, readToken, tokenTypeOf, type UserToken } from '../src/verified-token.ts';

const CLAIMS = { iss: 'i', aud: 'a', sub: '7', sid: 11, gen: 90, jti: '11.90', iat: 1, exp: 2 };

const SERVICE = {
  iss: 'i',
  aud: 'a',
  sub: 'lkc_shop',
  client_id: 'lkc_shop',
  client_version: 3,
  jti: 'j',
  iat: 1,
  exp: 2,
  roles: ['billing:read'],
};

test('tells the types apart by header and claims', (t) => {
  t.equal(tokenTypeOf('at+jwt', CLAIMS), 'access');
  t.equal(tokenTypeOf('llt+jwt', CLAIMS), 'llt');
  t.equal(tokenTypeOf('at+jwt', SERVICE), 'service');
  for (const [typ, type] of [
    ['at+jwt', 'access'],
    ['at+jwt', 'service'],
    ['llt+jwt', 'llt'],
  ] as const)
    t.ok(fits(typ, [type]), type);
  for (const typ of ['llt+jwt', 'rt+jwt', 'JWT', 'AT+JWT', 'constructor', '', undefined, ['at+jwt']])
    t.notOk(fits(typ, ['access', 'service']), String(typ));
  t.end();
});

test('reads the claims of a service’s token, which has no user and no session', (t) => {
  t.strictSame(readToken(SERVICE, 'service'), {
    tokenType: 'service',
    clientId: 'lkc_shop',
    roles: ['billing:read'],
    expiresAt: 2,
    claims: SERVICE,
  });
  t.match(readToken({ ...SERVICE, roles: [] }, 'service'), { roles: [] });
  const wrong: object[] = [
    { sub: 'lkc_another' },
    { sub: undefined, client_id: undefined },
    { sub: '', client_id: '' },
    { sub: '7', client_id: '7' },
    { client_version: '3' },
    { client_version: 1.5 },
    { client_version: -1 },
    { jti: undefined },
    { iat: undefined },
    { exp: undefined },
    { roles: undefined },
    { roles: [7] },
    { sid: 11 },
    { gen: 90 },
  ];
  for (const claims of wrong)
    t.equal(readToken({ ...SERVICE, ...claims }, 'service'), null, JSON.stringify(claims));
  t.end();
});

test('reads the claims', (t) => {
  const token = { userId: 7, sid: 11, tokenType: 'access', roles: [], emailVerified: false, claims: CLAIMS };
  t.strictSame(readToken(CLAIMS, 'access'), token);
  const withRoles = { ...CLAIMS, roles: ['editor', 'billing:read'] };
  t.strictSame(readToken(withRoles, 'access'), { ...token, roles: withRoles.roles, claims: withRoles });
  for (const email_verified of [true, false]) {
    const claims = { ...CLAIMS, email_verified };
    t.strictSame(readToken(claims, 'access'), { ...token, emailVerified: email_verified, claims });
  }
  const exchanged = { ...CLAIMS, client_id: 'shop', act: { sub: 'shop' } };
  t.strictSame(readToken(exchanged, 'access'), {
    ...token,
    clientId: 'shop',
    act: { sub: 'shop' },
    claims: exchanged,
  });
  t.match(readToken({ ...CLAIMS, exp: undefined, gen: undefined }, 'llt'), {
    userId: 7,
    sid: 11,
    tokenType: 'llt',
  });
  t.end();
});

test('refuses tokens that do not have Latchkey’s shape', (t) => {
  const wrong: object[] = [
    { sub: 7 },
    { sub: '07' },
    { sub: '7e1' },
    { sub: '9007199254740993' },
    { sub: undefined },
    { sid: '11' },
    { sid: 0 },
    { sid: 1.5 },
    { sid: 2 ** 53 },
    { iat: undefined },
    { exp: undefined },
    { roles: 'editor' },
    { roles: [7] },
    { roles: null },
    { email_verified: 'true' },
    { email_verified: 1 },
    { email_verified: null },
    { client_id: 7 },
    { client_id: null },
    { act: 'orders' },
    { act: null },
    { act: { sub: 7 } },
  ];
  for (const claims of wrong)
    t.equal(readToken({ ...CLAIMS, ...claims }, 'access'), null, JSON.stringify(claims));
  t.end();
});

test('freezes the claims, because a later check returns them again', (t) => {
  const read = readToken({ ...CLAIMS, roles: ['editor'], act: { sub: 'shop' } }, 'access') as UserToken;
  t.throws(() => Object.assign(read.claims, { sub: '8' }), TypeError);
  t.throws(() => (read.roles as string[]).push('admin'), TypeError);
  t.throws(() => Object.assign(read.act ?? {}, { sub: 'billing' }), TypeError);
  t.end();
});
