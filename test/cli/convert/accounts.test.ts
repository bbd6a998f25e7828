import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { converted, exportWith, filesOf, otp, textOf } from './exports.ts';

test('the second account of an address, of a name that looks the same, or of an id', async (t) => {
  const { lines, findings } = await converted(
    t,
    'keycloak',
    exportWith(
      'keycloak',
      { email: 'ada@example.com' },
      { email: 'ADA@Example.com', username: 'other', id: '2' },
      { username: 'аda', id: '3' },
      { username: 'c' },
    ),
  );
  t.match(lines, [{ email: 'ada@example.com' }, { external_id: '3' }, { username: 'c' }]);
  t.notOk('username' in (lines[1] ?? {}));
  t.notOk('external_id' in (lines[2] ?? {}));
  t.match(
    findings.filter(({ reason }) => !reason.startsWith('roles')),
    [
      { kind: 'left_out', reason: 'email is that of an earlier account', places: ['[1]'] },
      {
        kind: 'note',
        reason: /logs in by address: .*several scripts|looks like an earlier/,
        places: ['[2]'],
      },
      { kind: 'note', reason: /id is left out: is that of an earlier account/, places: ['[3]'] },
    ],
  );
});

test('fields of any size and kind leave the field or the account out, and no value in the report', async (t) => {
  const huge = 'secret'.repeat(1_800_000);
  const long = 'secret'.repeat(10_000);
  const { lines, findings, outcome } = await converted(
    t,
    'wordpress',
    exportWith(
      'wordpress',
      { user_login: long },
      { display_name: huge },
      { user_pass: huge },
      { user_email: huge },
      { ID: long },
      { roles: long },
      { user_registered: long },
      { user_email: ['secret@example.com'] },
      { user_email: 'secret\ud800@example.com' },
      { user_login: { secret: 1 }, display_name: 7, user_pass: 8, ID: true, roles: [] },
    ),
  );
  t.strictSame(
    lines.map(({ email }) => String(email).split('@')[0]),
    ['u0', 'u1', 'u2', 'u4', 'u5', 'u6', 'u9'],
  );
  t.ok(lines.every((line) => JSON.stringify(line).length < 1000));
  const placesOf = (wanted: string) =>
    findings.flatMap(({ kind, places }) => (kind === wanted ? places : [])).sort();
  t.strictSame(placesOf('left_out'), ['[3]', '[7]', '[8]']);
  t.strictSame(placesOf('without_password'), ['[2]', '[9]']);
  t.notMatch(outcome.text, /secret|@example/);

  const line = exportWith('supabase', { raw_user_meta_data: { full_name: 'x'.repeat(17 * 1024 ** 2) } });
  const { findings: others } = await converted(t, 'supabase', `${line}\n${textOf('supabase')}`);
  t.match(others[0], { kind: 'left_out', reason: 'is longer than 16777216 bytes', places: ['line 1'] });
});

test('of several names the first that fits comes', async (t) => {
  const names = { name: null, given_name: 'x'.repeat(129), family_name: '' };
  const { lines, findings } = await converted(
    t,
    'auth0',
    exportWith('auth0', { ...names, nickname: 'Ada' }, { ...names, nickname: null }),
  );
  t.strictSame(
    lines.map(({ name }) => name),
    ['Ada', undefined],
  );
  t.match(
    findings.find(({ reason }) => reason.startsWith('its name is left out')),
    { places: ['line 2'] },
  );
});

test('__proto__ and constructor are fields as any other', async (t) => {
  const account = exportWith('auth0', {}).replace(
    /"email":"[^"]*",/,
    '"__proto__":{"email":"evil@example.com","blocked":true},"constructor":{"name":"x"},',
  );
  const good = exportWith('auth0', { email: 'good@example.com' });
  const { lines, findings } = await converted(t, 'auth0', `${account}\n${good}`);
  t.strictSame(
    lines.map(({ email, disabled }) => [email, disabled]),
    [['good@example.com', undefined]],
  );
  t.match(findings[0], { reason: 'has no e-mail address', places: ['line 1'] });
});

test('an id that JSON has rounded is left out', async (t) => {
  for (const [id, comes] of [
    ['9007199254740991', '9007199254740991'],
    ['"1234567890123456789"', '1234567890123456789'],
    ['1234567890123456789', undefined],
    ['9007199254740992', undefined],
    ['1.5', undefined],
  ] as const) {
    const one = exportWith('wordpress', { ID: 'here' }).replace('"here"', id);
    const { lines, findings } = await converted(t, 'wordpress', one);
    t.equal(lines[0]?.external_id, comes, id);
    t.equal(
      findings.some(({ reason }) => reason.endsWith('write it as text')),
      comes === undefined,
    );
  }
});

test('a password that cannot come is one that is left out', async (t) => {
  const password = [{ providerId: 'google.com' }, { providerId: 'password' }];
  const { credentials: stored } = (JSON.parse(textOf('keycloak')) as { users: [{ credentials: object[] }] })
    .users[0];
  for (const [system, changes, reason] of [
    [
      'firebase',
      { passwordHash: '', providerUserInfo: password },
      /logs in with a password, but has no hash/,
    ],
    ['firebase', { passwordHash: undefined, providerUserInfo: password }, /a password, but has no hash/],
    ['firebase', { passwordHash: 'UkVEQUNURUQ=' }, /firebaseauth\.configs\.getHashConfig/],
    ['firebase', { passwordHash: '', providerUserInfo: [{ providerId: 'google.com' }] }, null],
    [
      'keycloak',
      { requiredActions: ['VERIFY_EMAIL', 'UPDATE_PASSWORD'] },
      /^has to be changed .*reset token$/,
    ],
    ['keycloak', { requiredActions: ['UPDATE_PASSWORD'], credentials: stored.slice(1) }, null],
  ] as const) {
    const { lines, findings, outcome } = await converted(t, system, exportWith(system, changes));
    t.match(lines, [{ password_hash: null }]);
    const found = findings.filter(({ kind }) => kind !== 'note');
    t.equal(found.length, reason === null ? 0 : 1);
    if (reason !== null) t.match(found, [{ kind: 'without_password', reason }]);
    t.equal(outcome.isWell, reason === null);
  }
  const { lines } = await converted(
    t,
    'keycloak',
    exportWith('keycloak', { requiredActions: ['VERIFY_EMAIL'] }),
  );
  t.match(lines, [{ password_hash: /^\$argon2id/ }], 'another action leaves the password');
});

test('a passkey that stands for the password stays behind with a note', async (t) => {
  const credentials = [{ type: 'webauthn-passwordless' }, otp('x'.repeat(20))];
  const accounts = exportWith('keycloak', { credentials }, { credentials: [] });
  const { lines, findings } = await converted(t, 'keycloak', accounts);
  t.match(lines, [{ totp_secret: /./ }, { password_hash: null }]);
  t.match(
    findings.filter(({ reason }) => reason.includes('passkey')),
    [{ kind: 'note', places: ['[0]'] }],
  );
});

test('the roles of those who manage Keycloak itself stay behind', async (t) => {
  const realmOf = (realm: string | undefined, realmRoles: string[]) => {
    const document = JSON.parse(exportWith('keycloak', { realmRoles })) as { users: object[] };
    return realm === undefined ? JSON.stringify(document.users[0]) : JSON.stringify({ ...document, realm });
  };
  for (const [realm, given, taken] of [
    ['master', ['admin', 'staff'], ['staff']],
    ['master', ['create-realm', 'staff'], ['staff']],
    ['shop', ['admin', 'create-realm'], ['admin', 'create-realm']],
    [undefined, ['admin', 'staff'], ['admin', 'staff']],
    [undefined, ['admin', 'create-realm', 'staff'], ['staff']],
    [undefined, ['default-roles-master', 'admin', 'staff'], ['staff']],
  ] as const) {
    const { lines } = await converted(t, 'keycloak', realmOf(realm, [...given]));
    t.strictSame(lines[0]?.roles, taken, `${realm}: ${given.join()}`);
  }
});

test('groups that Django numbers are named in the report', async (t) => {
  const numbered = readFileSync(filesOf('django').input.replace('.json', '-numbered-groups.jsonl'), 'utf8');
  const { lines, findings } = await converted(t, 'django', numbered);
  const named = await converted(t, 'django', textOf('django'));
  t.strictSame(
    lines.map(({ roles: _, ...line }) => line),
    named.lines.map(({ roles: _, ...line }) => line),
    'lines of JSON are as good as a document',
  );
  t.match(
    findings.find(({ reason }) => reason.includes('--natural-foreign')),
    { kind: 'note', places: ['line 1'] },
  );
});
