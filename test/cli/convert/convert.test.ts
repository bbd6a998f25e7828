import { existsSync, mkdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { UsageError } from '../../../src/cli/arguments.ts';
import { CommandError } from '../../../src/cli/command.ts';
import { testFolder } from '../../support/folder.ts';
import { latchkey } from '../../support/latchkey.ts';
import { convert, filesOf, SYSTEM_NAMES, type SystemName } from './exports.ts';

type Fields = Record<string, unknown>;

const textOf = (system: SystemName) => readFileSync(filesOf(system).input, 'utf8');

/** Converts a file with this content. @returns the report, and the lines that were written */
async function converted(t: Test, system: SystemName, content: string | Buffer, ...more: string[]) {
  const folder = testFolder(t);
  const [input, output] = [join(folder, 'in'), join(folder, 'out')];
  writeFileSync(input, content);
  const { withFile } = filesOf(system);
  const args = more.includes('--with') || withFile === undefined ? more : [...more, '--with', withFile];
  try {
    const { findings, outcome } = await convert(['--from', system, input, output, ...args]);
    const lines = readFileSync(output, 'utf8').split('\n').slice(0, -1);
    return { findings, outcome, lines: lines.map((line) => JSON.parse(line) as Fields) };
  } catch (error) {
    t.notOk(existsSync(output), 'nothing is left of a conversion that failed');
    throw error;
  }
}

const refused = (message: RegExp) => ({ constructor: CommandError, message });

/** The first account of an export, once with each of these changes and an address of its own, as an export. */
function exportWith(system: SystemName, ...changes: Fields[]): string {
  const text = textOf(system);
  const isOfLines = system === 'auth0' || system === 'supabase';
  const document = JSON.parse(isOfLines ? (text.split('\n')[0] ?? '') : text) as Fields;
  const [first] = (Array.isArray(document) ? document : (document.users ?? [document])) as Fields[];
  const address = system === 'wordpress' ? 'user_email' : 'email';
  const accounts = changes.map((change, i) => ({ ...first, [address]: `u${i}@example.com`, ...change }));
  return isOfLines
    ? accounts.map((account) => JSON.stringify(account)).join('\n')
    : JSON.stringify(Array.isArray(document) ? accounts : { ...document, users: accounts });
}

const namesIn = (lines: Fields[]) => lines.map(({ email }) => String(email).split('@')[0]);

// A file of each form stands for all systems: keycloak's list is in a document, django's is one, auth0's has lines.

test('UTF-16, as PowerShell writes it, is refused with what to do', async (t) => {
  for (const system of ['keycloak', 'auth0'] as const) {
    const little = Buffer.from(textOf(system), 'utf16le');
    const marked = Buffer.from(`\ufeff${textOf(system)}`, 'utf16le');
    for (const content of [marked, Buffer.from(little).swap16(), little])
      await t.rejects(
        converted(t, system, content),
        refused(/is UTF-16, as PowerShell's > writes it.*another shell/),
      );
  }
});

test('a byte order mark and CRLF change nothing', async (t) => {
  for (const system of ['keycloak', 'auth0'] as const) {
    const plain = await converted(t, system, textOf(system));
    const other = await converted(t, system, `\ufeff\r\n${textOf(system).replaceAll('\n', '\r\n')}`);
    t.strictSame(other.lines, plain.lines, system);
  }
});

test('of a file that is cut off, a document is refused, and of lines the last is left out', async (t) => {
  const cut = (system: SystemName) => textOf(system).slice(0, textOf(system).length * 0.55);
  await t.rejects(converted(t, 'django', cut('django')), refused(/is not JSON: it may be cut off/));
  const { findings } = await converted(t, 'auth0', cut('auth0'));
  t.match(
    findings.find(({ reason }) => reason === 'is not a JSON object'),
    { kind: 'left_out', places: [`line ${cut('auth0').split('\n').length}`] },
  );
});

test('what is no list of accounts, or an empty one, says what it should be', async (t) => {
  for (const system of ['keycloak', 'django', 'auth0'] as const)
    for (const content of [
      '',
      '\n \n',
      '[]',
      '{}',
      '{"users":[]}',
      '"x"',
      'null',
      '[null, 7]',
      '{"users":{}}',
    ])
      await t.rejects(
        converted(t, system, content),
        refused(/(is not|should be) (a|Django's) /),
        `${system}: ${content}`,
      );
  const realm = JSON.parse(textOf('keycloak')) as Fields;
  await t.rejects(
    converted(t, 'keycloak', JSON.stringify({ ...realm, users: undefined })),
    refused(/is not a realm with its users.*the admin console exports none/),
  );
});

test('the export of another system is named', async (t) => {
  for (const from of SYSTEM_NAMES)
    for (const other of SYSTEM_NAMES.filter((name) => name !== from))
      await t.rejects(
        converted(t, from, textOf(other)),
        refused(new RegExp(`looks like one of ${other}$`)),
        `${other} as ${from}`,
      );
});

test('a document of more than 512 MiB says how the tool writes smaller ones; lines may be longer', async (t) => {
  for (const [system, split] of [
    ['keycloak', /--users different_files/],
    ['supabase', /one object a line/],
  ] as const) {
    const path = join(testFolder(t), 'in');
    writeFileSync(path, '[{');
    truncateSync(path, 512 * 1024 ** 2);
    await t.rejects(
      convert(['--from', system, path, `${path}.out`]),
      refused(new RegExp(`is larger than 512 MiB and has no line for each account: .*${split.source}`)),
    );
  }
});

test('a document that would fill the heap says how much it needs', async (t) => {
  const path = join(testFolder(t), 'in');
  writeFileSync(path, '[{');
  truncateSync(path, 100 * 1024 ** 2);
  const NODE_OPTIONS = '--max-old-space-size=128';
  t.match(await latchkey(['user', 'convert', '--from', 'django', path], { NODE_OPTIONS }), {
    code: 1,
    stdout: '',
    stderr: /in has no line .* set NODE_OPTIONS=--max-old-space-size=400, or dump with --format jsonl/,
  });
});

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
  t.strictSame(namesIn(lines), ['u0', 'u1', 'u2', 'u4', 'u5', 'u6', 'u9']);
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

const OTP = { subType: 'totp', digits: 6, period: 30, algorithm: 'HmacSHA1' };
/** A credential of Keycloak. */
const otp = (value: unknown, data: object = {}) => ({
  type: 'otp',
  credentialData: JSON.stringify({ ...OTP, ...data }),
  secretData: JSON.stringify({ value }),
});
const keycloak = (...credentials: object[]) => ({ credentials });
const SUPABASE_OTP = { factor_type: 'totp', secret: 'JBSWY3DPEHPK3PXP' };
const supabase = (mfa_factors: unknown) => ({ mfa_factors });

/** Whether the second factor of such an account is an app that comes, none, lost, or not known. */
const FACTORS: [SystemName, 'app' | 'none' | 'lost' | 'unknown', ...Fields[]][] = [
  [
    'keycloak',
    'app',
    keycloak(otp('x'.repeat(10))),
    keycloak(otp('JBSWY3DPEHPK3PXP', { secretEncoding: 'base32' })),
    keycloak({ type: 'webauthn' }, otp('short'), otp('x'.repeat(20))),
  ],
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
  ['supabase', 'app', supabase([{ status: 'verified' }, { ...SUPABASE_OTP, status: 'verified' }])],
  [
    'supabase',
    'lost',
    ...[JSON.stringify([SUPABASE_OTP]), { ...SUPABASE_OTP, status: 'verified' }, '', false].map(supabase),
    ...[SUPABASE_OTP, 7].map((row) => supabase([row])),
  ],
];

test('an account whose factor cannot come is left out, and an unknown one is no success, unless it is dropped', async (t) => {
  for (const [system, becomes, ...accounts] of FACTORS) {
    const shown = `${system}, ${becomes}`;
    const one = exportWith(system, ...accounts);
    const { lines, findings, outcome } = await converted(t, system, one);
    t.equal(lines.length, becomes === 'lost' ? 0 : accounts.length, shown);
    t.ok(
      lines.every((line) => 'totp_secret' in line === (becomes === 'app')),
      shown,
    );
    t.equal(
      findings.filter(({ kind }) => kind === 'unknown_factor').length,
      becomes === 'unknown' ? 1 : 0,
      shown,
    );
    t.equal(outcome.isWell, becomes === 'app' || becomes === 'none', shown);
    const dropped = await converted(t, system, one, '--drop-factors');
    t.equal(dropped.lines.length, accounts.length, shown);
    const dropping = dropped.findings.filter(({ reason }) =>
      reason.startsWith('its second factor stays behind'),
    );
    t.equal(dropping.length, becomes === 'lost' ? 1 : 0, shown);
    if (becomes !== 'lost') t.strictSame(dropped.lines, lines, shown);
    t.equal(dropped.outcome.isWell, true, shown);
  }
});

test('of several factors, the first app that can come does, and the report says so', async (t) => {
  for (const [system, several, one] of [
    ['keycloak', keycloak(otp('x'.repeat(20)), otp('y'.repeat(20))), keycloak(otp('x'.repeat(20)))],
    [
      'supabase',
      supabase(
        ['KRSXG5DSNFXGOIDB', 'JBSWY3DPEHPK3PXP'].map((secret) => ({
          ...SUPABASE_OTP,
          secret,
          status: 'verified',
        })),
      ),
      supabase([{ ...SUPABASE_OTP, secret: 'KRSXG5DSNFXGOIDB', status: 'verified' }]),
    ],
  ] as const) {
    const { lines, findings } = await converted(t, system, exportWith(system, several));
    const single = await converted(t, system, exportWith(system, one));
    t.strictSame(lines, single.lines);
    const notes = [findings, single.findings].map(
      (all) =>
        all.filter(({ kind, reason }) => kind === 'note' && reason.startsWith('has several second')).length,
    );
    t.strictSame(notes, [1, 0]);
  }
});

test('a long secret takes no time', async (t) => {
  const long = 'A'.repeat(4 * 1024 ** 2);
  for (const [system, account] of [
    ['keycloak', keycloak(otp(long))],
    ['keycloak', keycloak(otp(long, { secretEncoding: 'BASE32' }))],
    ['supabase', supabase([{ ...SUPABASE_OTP, status: 'verified', secret: long }])],
  ] as const) {
    const before = process.cpuUsage();
    const { findings } = await converted(t, system, exportWith(system, account));
    const { user, system: inKernel } = process.cpuUsage(before);
    t.match(findings, [{ kind: 'left_out', reason: /second factor cannot come/ }]);
    // To convert the secret takes several seconds.
    t.ok(user + inKernel < 1_500_000, `${system} took ${(user + inKernel) / 1e6} s of CPU time`);
  }
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

test('the file of --with: what it may be, and what is missing', async (t) => {
  const path = join(testFolder(t), 'with');
  const use = (system: SystemName, content: string) => {
    writeFileSync(path, content);
    return converted(t, system, textOf(system), '--with', path);
  };
  const plain = await converted(t, 'firebase', textOf('firebase'));
  const hashConfig = {
    algorithm: 'SCRYPT',
    signerKey: 'jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==',
    saltSeparator: 'Bw==',
    rounds: 8,
    memoryCost: 14,
  };
  for (const config of [hashConfig, { hashConfig }, { signIn: { hashConfig } }])
    t.strictSame((await use('firebase', JSON.stringify(config))).lines, plain.lines, 'as the API answers');
  for (const [content, message] of [
    [JSON.stringify({ ...hashConfig, signerKey: undefined }), /lacks base64_signer_key: it should hold/],
    ['', /lacks base64_signer_key, .*, mem_cost/],
    [JSON.stringify({ ...hashConfig, algorithm: 'BCRYPT' }), /another algorithm/],
    ['x'.repeat(70_000), /longer than 65536 bytes/],
  ] as const)
    await t.rejects(use('firebase', content), refused(message));
  const wrong = await use('firebase', JSON.stringify({ ...hashConfig, signerKey: 'AAAA' }));
  t.match(wrong.findings, [{}, { kind: 'without_password', reason: /^its hash /, places: ['[0] to [2]'] }]);

  const hashes = readFileSync(filesOf('auth0').withFile ?? '', 'utf8');
  for (const [content, message] of [
    [hashes.slice(0, 500), /^line 2 of the file of --with is not a JSON object$/],
    [textOf('auth0'), /^line 1 of the file of --with lacks the fields/],
    ['', /holds no accounts/],
  ] as const)
    await t.rejects(use('auth0', content), refused(message));
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
  const account = keycloak({ type: 'webauthn-passwordless' }, otp('x'.repeat(20)));
  const { lines, findings } = await converted(t, 'keycloak', exportWith('keycloak', account, keycloak()));
  t.match(lines, [{ totp_secret: /./ }, { password_hash: null }]);
  t.match(
    findings.filter(({ reason }) => reason.includes('passkey')),
    [{ kind: 'note', places: ['[0]'] }],
  );
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

test('arguments and files that do not fit', async (t) => {
  const folder = testFolder(t);
  const path = (name: string) => join(folder, name);
  mkdirSync(path('folder'));
  writeFileSync(path('mine'), 'mine');
  const { input } = filesOf('django');
  for (const [args, message] of [
    [[input], /--from names the system: keycloak, auth0,/],
    [['--from', 'constructor', input], /--from names the system/],
    [['--from', 'django', input, '--with', input], /--from django takes no --with/],
    [['--from', 'firebase', filesOf('firebase').input], /needs --with FILE: the password hash parameters/],
  ] as const)
    await t.rejects(convert(args), { constructor: UsageError, message });
  for (const [files, message] of [
    [['none', 'new'], /none cannot be read \(ENOENT\)/],
    [['folder', 'new'], /folder cannot be read/],
  ] as const)
    await t.rejects(convert(['--from', 'django', ...files.map(path)]), refused(message));
  await t.rejects(
    convert(['--from', 'django', input, path('mine')]),
    refused(/cannot be created \(EEXIST\)/),
  );
  t.equal(readFileSync(path('mine'), 'utf8'), 'mine', 'a file is never replaced');

  await convert(['--from', 'django', input, path('out')], { RESERVED_USERNAMES: 'ada' });
  t.match(readFileSync(path('out'), 'utf8'), '"username":"admin"');
  t.notMatch(readFileSync(path('out'), 'utf8'), '"username":"ada"', "the service's reserved names");
  t.equal(statSync(path('out')).mode & 0o777, 0o600, 'for its owner only');

  const piped = await latchkey(['user', 'convert', '--from', 'django', '-'], {}, undefined, textOf('django'));
  t.match(piped, { code: 1, stderr: /^converted 5 accounts, left out 1\n/, audit: [] });
});
