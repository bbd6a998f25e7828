import { test } from 'tap';
import { readToken, tokenTypeOf } from '../../packages/verifier/src/verified-token.ts';

const CLAIMS = { iss: 'i', aud: 'a', sub: '7', sid: 11, gen: 90, jti: '11.90', iat: 1, exp: 2 };

test('accepts access tokens and long-lived ones by their type', (t) => {
  t.equal(tokenTypeOf('at+jwt'), 'access');
  t.equal(tokenTypeOf('llt+jwt'), 'llt');
  for (const typ of ['rt+jwt', 'JWT', 'AT+JWT', 'constructor', '', undefined, ['at+jwt']])
    t.equal(tokenTypeOf(typ), null, String(typ));
  t.end();
});

test('reads the claims', (t) => {
  const token = { userId: 7, sid: 11, tokenType: 'access', roles: [], claims: CLAIMS };
  t.strictSame(readToken(CLAIMS, 'access'), token);
  const withRoles = { ...CLAIMS, roles: ['editor', 'billing:read'] };
  t.strictSame(readToken(withRoles, 'access'), { ...token, roles: withRoles.roles, claims: withRoles });
  const exchanged = { ...CLAIMS, client_id: 'shop', act: { sub: 'shop' } };
  t.strictSame(readToken(exchanged, 'access'), {
    ...{ ...token, clientId: 'shop', act: { sub: 'shop' } },
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
  const read = readToken({ ...CLAIMS, roles: ['editor'], act: { sub: 'shop' } }, 'access');
  t.throws(() => Object.assign(read?.claims ?? {}, { sub: '8' }), TypeError);
  t.throws(() => (read?.roles as string[]).push('admin'), TypeError);
  t.throws(() => Object.assign(read?.act ?? {}, { sub: 'billing' }), TypeError);
  t.end();
});
