import { test } from 'tap';
import { keyIn, keyOf } from '../../../src/cli/convert/system.ts';
import { converted, exportWith, otp, refused, textOf, type Fields, type SystemName } from './exports.ts';

const keycloak = (...credentials: object[]) => ({ credentials });
const SUPABASE_OTP = { factor_type: 'totp', secret: 'JBSWY3DPEHPK3PXP', status: 'verified' };
const supabase = (mfa_factors: unknown) => ({ mfa_factors });

/** Ten bytes of x, the shortest secret that comes. */
const [TEXT, BASE32] = ['x'.repeat(10), 'PB4HQ6DYPB4HQ6DY'];

/** Whether the second factor of such an account is an app that comes, the first of several, none, lost, or not known. */
const FACTORS: [SystemName, 'app' | 'first' | 'none' | 'lost' | 'unknown', ...Fields[]][] = [
  ['keycloak', 'app', keycloak(otp(TEXT)), keycloak(otp(BASE32, { secretEncoding: 'base32' }))],
  ['keycloak', 'first', keycloak({ type: 'webauthn' }, otp('short'), otp(TEXT), otp('y'.repeat(20)))],
  // A passkey that stands for the password is no second factor, and an unknown credential is one.
  [
    'keycloak',
    'none',
    keycloak(),
    ...['password-history', 'webauthn-passwordless'].map((type) => keycloak({ type })),
  ],
  ['keycloak', 'lost', ...['webauthn', 'sms'].map((type) => keycloak({ type }))],
  ['keycloak', 'lost', ...['x'.repeat(9), 'x'.repeat(65), '', 7].map((secret) => keycloak(otp(secret)))],
  [
    'keycloak',
    'lost',
    ...[{ subType: 'hotp' }, { digits: 8 }, { period: 60 }, { algorithm: 'HmacSHA256' }].map((data) =>
      keycloak(otp('x'.repeat(20), data)),
    ),
    keycloak(otp('0189', { secretEncoding: 'BASE32' })),
    keycloak(otp('JBSWY3DPEHPK3PXP', { secretEncoding: 'BASE64' })),
  ],
  ['auth0', 'unknown', { multifactor: undefined }, { multifactor: null }],
  ['auth0', 'none', { multifactor: [] }],
  [
    'auth0',
    'lost',
    ...['guardian', { provider: 'guardian' }, '', false].map((multifactor) => ({ multifactor })),
  ],
  ['firebase', 'unknown', {}, { mfaInfo: null }, { mfaInfo: [] }],
  ['firebase', 'lost', ...[{ phoneInfo: '+15555550100' }, '[]', false].map((mfaInfo) => ({ mfaInfo }))],
  ['django', 'unknown', {}],
  ['wordpress', 'unknown', { roles: '' }],
  ['supabase', 'unknown', supabase(undefined)],
  ['supabase', 'none', supabase(null), supabase([]), supabase([{ ...SUPABASE_OTP, status: 'unverified' }])],
  ['supabase', 'app', supabase([{ ...SUPABASE_OTP, secret: BASE32 }])],
  [
    'supabase',
    'first',
    supabase([{ status: 'verified' }, { ...SUPABASE_OTP, secret: BASE32 }, SUPABASE_OTP]),
  ],
  [
    'supabase',
    'lost',
    ...[JSON.stringify([SUPABASE_OTP]), SUPABASE_OTP, '', false].map(supabase),
    ...[{ ...SUPABASE_OTP, status: undefined }, 7].map((row) => supabase([row])),
  ],
];

test('an account whose factor cannot come is left out, and an unknown one is no success, unless it is dropped', async (t) => {
  for (const [system, becomes, ...accounts] of FACTORS) {
    const shown = `${system}, ${becomes}`;
    const comes = becomes === 'app' || becomes === 'first';
    const one = exportWith(system, ...accounts);
    const { lines, findings, outcome } = await converted(t, system, one);
    const dropped = await converted(t, system, one, '--drop-factors');
    const secret = comes ? BASE32 : undefined;
    const all = accounts.map(() => secret);
    t.strictSame(secretsIn(lines), becomes === 'lost' ? [] : all, shown);
    t.strictSame(secretsIn(dropped.lines), all, shown);
    t.equal(outcome.isWell, comes || becomes === 'none', shown);
    t.equal(dropped.outcome.isWell, true, shown);
    const found = [...findings, ...dropped.findings].map(({ kind, reason }) => `${kind} ${reason}`);
    const count = (begins: string) => found.filter((each) => each.startsWith(begins)).length;
    t.strictSame(
      [count('unknown_factor'), count('note its second factor stays'), count('note has several second')],
      [Number(becomes === 'unknown'), Number(becomes === 'lost'), becomes === 'first' ? 2 : 0],
      shown,
    );
  }
});

const secretsIn = (lines: Fields[]) => lines.map(({ totp_secret }) => totp_secret);

test('a secret is measured before it is converted', (t) => {
  t.strictSame([keyOf('x'.repeat(64))?.length, keyOf('x'.repeat(65))], [64, null]);
  t.strictSame([keyIn('A'.repeat(200))?.length, keyIn('A'.repeat(208))], [125, null]);
  t.end();
});

/** Entries of a Django dump, as a document and as lines. */
const dumpsOf = (...entries: object[]) => [
  JSON.stringify(entries),
  entries.map((entry) => JSON.stringify(entry)).join('\n'),
];

test('an entry for a factor in a Django dump gives its user one', async (t) => {
  const [user] = JSON.parse(textOf('django')) as [{ fields: object }];
  const fields = { ...user.fields, username: 'ada70', email: 'u70@example.com', logins: 71 };
  for (const [model, owner, comes] of [
    ['otp_totp.totpdevice', { user: 70, key: '00', confirmed: true }, false],
    ['otp_static.staticdevice', { user: ['ada70'] }, false],
    ['two_factor.phonedevice', { user: ['u70@example.com'], number: '+15555550100' }, false],
    ['mfa.authenticator', { user: 70, type: 'totp' }, false],
    ['mfa.user_keys', { username: 'ada70' }, false],
    ['otp_totp.totpdevice', { user: 70, confirmed: false }, true],
    ['otp_totp.totpdevice', { user: 71 }, true],
    ['otp_static.statictoken', { device: 70 }, true],
    ['blog.post', { user: 70 }, true],
  ] as const)
    for (const dump of dumpsOf(user, { ...user, pk: 70, fields }, { model, pk: 1, fields: owner })) {
      const { lines, findings } = await converted(t, 'django', dump);
      t.equal(lines.length, 1 + Number(comes), model);
      t.not(
        findings.some(({ reason }) => reason.startsWith('its second factor cannot come')),
        comes,
      );
    }
  // --natural-primary leaves the keys out, and this entry has no user either.
  const backup = { model: 'otp_static.statictoken', pk: 1, fields: { device: 1 } };
  const { lines } = await converted(t, 'django', JSON.stringify([{ ...user, pk: undefined }, backup]));
  t.equal(lines.length, 1, 'it is nobody’s');
});

test('a second model with passwords, such as that of former ones, refuses the dump', async (t) => {
  const [user] = JSON.parse(textOf('django')) as [object];
  const current = { ...user, model: 'accounts.user' };
  const former = { ...user, model: 'accounts.historicaluser', pk: 7 };
  for (const dump of [...dumpsOf(current, former), ...dumpsOf(former, current)])
    await t.rejects(
      converted(t, 'django', dump),
      refused(/accounts\.(historical)?user and accounts\.(historical)?user: .*dumpdata MODEL/),
    );
  const { lines } = await converted(t, 'django', JSON.stringify([current, { ...former, model: 'secret@x' }]));
  t.equal(lines.length, 1, 'what is no name of a model is no account');
});
