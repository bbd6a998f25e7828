import { existsSync, mkdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { UsageError } from '../../../src/cli/arguments.ts';
import { CommandError } from '../../../src/cli/command.ts';
import { testFolder } from '../../support/folder.ts';
import { latchkey } from '../../support/latchkey.ts';
import { convert, filesOf, SYSTEM_NAMES, type SystemName } from './exports.ts';

const textOf = (system: SystemName) => readFileSync(filesOf(system).input, 'utf8');

/** Converts a file with this content. @returns the report, and the lines that were written */
async function converted(t: Test, system: SystemName, content: string | Buffer, ...more: string[]) {
  const folder = testFolder(t);
  const [input, output] = [join(folder, 'in'), join(folder, 'out')];
  writeFileSync(input, content);
  const { withFile } = filesOf(system);
  const args = more.includes('--with') || withFile === undefined ? more : [...more, '--with', withFile];
  try {
    const { findings, outcome } = await convert('--from', system, input, output, ...args);
    const lines = readFileSync(output, 'utf8').split('\n').slice(0, -1);
    return { findings, outcome, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
  } catch (error) {
    t.notOk(existsSync(output), 'nothing is left of a conversion that failed');
    throw error;
  }
}

const refused = (message: RegExp) => ({ constructor: CommandError, message });

/** The first account of an export with other fields, as an export of its own. */
function exportWith(system: SystemName, ...changes: Record<string, unknown>[]): string {
  const text = textOf(system);
  const isOfLines = system === 'auth0' || system === 'supabase';
  const document = JSON.parse(isOfLines ? (text.split('\n')[0] ?? '') : text) as Record<string, unknown>;
  const list = (Array.isArray(document) ? document : (document.users ?? [document])) as Record<
    string,
    unknown
  >[];
  const accounts = changes.map((change) => ({ ...list[0], ...change }));
  return isOfLines
    ? accounts.map((account) => JSON.stringify(account)).join('\n')
    : JSON.stringify(Array.isArray(document) ? accounts : { ...document, users: accounts });
}

test('UTF-16, as PowerShell writes it, is refused with what to do', async (t) => {
  for (const system of SYSTEM_NAMES) {
    const little = Buffer.from(textOf(system), 'utf16le');
    for (const content of [
      Buffer.from(`\ufeff${textOf(system)}`, 'utf16le'),
      Buffer.from(little).swap16(),
      little,
    ])
      await t.rejects(
        converted(t, system, content),
        refused(/is UTF-16, as PowerShell's > writes it.*another shell/),
      );
  }
});

test('a byte order mark and CRLF change nothing', async (t) => {
  for (const system of SYSTEM_NAMES) {
    const plain = await converted(t, system, textOf(system));
    const other = await converted(t, system, `\ufeff\r\n${textOf(system).replaceAll('\n', '\r\n')}`);
    t.strictSame(other.lines, plain.lines, system);
    t.equal(other.findings.length, plain.findings.length);
  }
});

test('of a file that is cut off, a document is refused, and of lines the last is left out', async (t) => {
  for (const system of SYSTEM_NAMES) {
    const text = textOf(system);
    const cut = text.slice(0, text.length * 0.55);
    if (system === 'auth0' || system === 'supabase') {
      const { findings } = await converted(t, system, cut);
      const last = findings.find(({ reason }) => reason === 'is not a JSON object');
      t.match(last, { kind: 'left_out', places: [`line ${cut.split('\n').length}`] });
    } else await t.rejects(converted(t, system, cut), refused(/is not JSON: it may be cut off/), system);
  }
});

test('what is no list of accounts, or an empty one, says what it should be', async (t) => {
  for (const system of SYSTEM_NAMES)
    for (const content of [
      '',
      '\n \n',
      '[]',
      '{}',
      '{"users":[]}',
      '"x"',
      'null',
      '7',
      '[[]]',
      '[null, 7]',
      '{"users":{}}',
    ])
      await t.rejects(
        converted(t, system, content),
        refused(/(is not|should be) (a|the|Django's|WordPress's) /),
        content,
      );
  const realm = JSON.parse(textOf('keycloak')) as { users: object[] };
  await t.rejects(
    converted(t, 'keycloak', JSON.stringify(realm.users)),
    refused(/is not a realm with its users/),
  );
  await t.rejects(
    converted(t, 'keycloak', JSON.stringify({ ...realm, users: undefined })),
    refused(/the admin console exports none/),
  );
});

test('the export of another system is named', async (t) => {
  for (const from of SYSTEM_NAMES)
    for (const other of SYSTEM_NAMES)
      if (from !== other)
        await t.rejects(
          converted(t, from, textOf(other)),
          refused(new RegExp(`looks like one of ${other}$`)),
          `${other} as ${from}`,
        );
});

test('the second account of an address, of a name that looks the same, or of an id', async (t) => {
  const { lines, findings } = await converted(
    t,
    'keycloak',
    exportWith(
      'keycloak',
      {},
      { email: 'ADA@Example.com', username: 'other', id: '2' },
      { email: 'b@example.com', username: 'аda', id: '3' },
      { email: 'c@example.com', username: 'c' },
    ),
  );
  t.match(lines, [
    { email: 'ada@example.com' },
    { email: 'b@example.com', external_id: '3' },
    { username: 'c' },
  ]);
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
  const fields: Record<string, unknown>[] = [
    { user_login: long, user_email: 'a@example.com', ID: 11 },
    { display_name: huge, user_email: 'b@example.com', ID: 12 },
    { user_pass: huge, user_email: 'c@example.com', ID: 13 },
    { user_email: huge },
    { ID: long, user_email: 'd@example.com', user_login: 'd' },
    { roles: long, user_email: 'e@example.com', user_login: 'e', ID: 14 },
    { user_registered: long, user_email: 'f@example.com', user_login: 'f', ID: 15 },
    { user_email: ['secret@example.com'] },
    { user_email: 'secret\ud800@example.com' },
    {
      user_email: 'g@example.com',
      user_login: { secret: 1 },
      display_name: 7,
      user_pass: 8,
      ID: true,
      roles: [],
    },
  ];
  const { lines, findings, outcome } = await converted(t, 'wordpress', exportWith('wordpress', ...fields));
  t.strictSame(
    lines.map(({ email }) => email),
    ['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => `${name}@example.com`),
  );
  t.ok(lines.every((line) => JSON.stringify(line).length < 1000));
  t.strictSame(
    findings.flatMap(({ kind, places }) => (kind === 'left_out' ? places : [])),
    ['[3]', '[7]', '[8]'].toSorted(),
  );
  t.strictSame(
    findings.flatMap(({ kind, places }) => (kind === 'without_password' ? places : [])),
    ['[2]', '[9]'],
  );
  t.notMatch(outcome.text, /secret|@example/);

  const line = exportWith('supabase', { raw_user_meta_data: { full_name: 'x'.repeat(17 * 1024 ** 2) } });
  const { findings: others } = await converted(t, 'supabase', `${line}\n${textOf('supabase')}`);
  t.match(others[0], { kind: 'left_out', reason: 'is longer than 16777216 bytes', places: ['line 1'] });
});

test('__proto__ and constructor are fields as any other', async (t) => {
  const account = exportWith('auth0', { user_id: 'auth0|x' }).replace(
    /"email":"[^"]*",/,
    '"__proto__":{"email":"evil@example.com","blocked":true},"constructor":{"name":"x"},',
  );
  const good = exportWith('auth0', { email: 'good@example.com' });
  const { lines, findings } = await converted(t, 'auth0', `${account}\n${good}`);
  t.strictSame(
    lines.map(({ email, disabled }) => [email, disabled]),
    [['good@example.com', undefined]],
  );
  t.match(findings, [{ reason: 'has no e-mail address', places: ['line 1'] }]);
  t.notOk('email' in {});
});

test('a document of more than 512 MiB says how the tool writes smaller ones; lines may be longer', async (t) => {
  for (const [system, split] of [
    ['keycloak', /--users different_files/],
    ['auth0', /the format json/],
    ['firebase', /jq/],
    ['django', /--format jsonl/],
    ['wordpress', /--number/],
    ['supabase', /one object a line/],
  ] as const) {
    const path = join(testFolder(t), 'in');
    writeFileSync(path, '[{');
    truncateSync(path, 512 * 1024 ** 2);
    const { withFile } = filesOf(system);
    const args = withFile === undefined ? [] : ['--with', withFile];
    await t.rejects(
      convert('--from', system, path, `${path}.out`, ...args),
      refused(new RegExp(`is larger than 512 MiB and has no line for each account: .*${split.source}`)),
    );
  }
});

test('--drop-factors takes the accounts whose second factor cannot come, and says so', async (t) => {
  const { lines, findings } = await converted(t, 'keycloak', textOf('keycloak'), '--drop-factors');
  const dropped = lines.filter(({ email }) => /^(dave|erin)@/.test(String(email)));
  t.equal(dropped.length, 2);
  t.ok(dropped.every((line) => !('totp_secret' in line)));
  t.match(
    findings.filter(({ reason }) => reason.startsWith('its second factor')),
    [{ kind: 'note', reason: /stays behind/, places: ['[3] to [4]'] }],
  );
});

test('an unknown factor ends with code 1 unless --drop-factors is given', async (t) => {
  for (const [system, changes, isKnown] of [
    ['keycloak', {}, true],
    ['auth0', { multifactor: undefined }, false],
    ['auth0', { multifactor: [] }, true],
    ['firebase', {}, false],
    ['django', {}, false],
    ['wordpress', { roles: '' }, false],
    ['supabase', { mfa_factors: undefined }, false],
    ['supabase', { mfa_factors: null }, true],
  ] as const) {
    const one = exportWith(system, changes);
    const plain = await converted(t, system, one);
    const unknown = plain.findings.filter(({ kind }) => kind === 'unknown_factor');
    t.match(
      [plain.lines.length, unknown.length, plain.outcome.isWell],
      [1, isKnown ? 0 : 1, isKnown],
      system,
    );
    const accepted = await converted(t, system, one, '--drop-factors');
    t.strictSame(accepted.lines, plain.lines);
    t.equal(accepted.outcome.isWell, true);
  }
});

test('secrets that no app of ours has are factors that cannot come', async (t) => {
  const otp = { subType: 'totp', digits: 6, period: 30, algorithm: 'HmacSHA1' };
  const factors: [data: object, secret: unknown, comes: boolean][] = [
    [otp, 'x'.repeat(10), true],
    [otp, 'x'.repeat(9), false],
    [otp, 'x'.repeat(65), false],
    [otp, '', false],
    [otp, 7, false],
    [{ ...otp, subType: 'hotp' }, 'x'.repeat(20), false],
    [{ ...otp, period: 60 }, 'x'.repeat(20), false],
    [{ ...otp, algorithm: 'HmacSHA256' }, 'x'.repeat(20), false],
    [{ ...otp, secretEncoding: 'base32' }, 'JBSWY3DPEHPK3PXP', true],
    [{ ...otp, secretEncoding: 'BASE32' }, '0189', false],
    [{ ...otp, secretEncoding: 'BASE64' }, 'JBSWY3DPEHPK3PXP', false],
  ];
  const accounts = factors.map(([data, value], i) => ({
    email: `u${i}@example.com`,
    username: `u${i}`,
    id: String(i),
    credentials: [
      { type: 'otp', credentialData: JSON.stringify(data), secretData: JSON.stringify({ value }) },
    ],
  }));
  const { lines } = await converted(t, 'keycloak', exportWith('keycloak', ...accounts));
  t.strictSame(
    lines.map(({ username, totp_secret }) => [username, typeof totp_secret]),
    factors.flatMap(([, , comes], i) => (comes ? [[`u${i}`, 'string']] : [])),
  );
  // A passwordless key is no second factor, and an unknown credential is one.
  for (const [type, comes] of [
    ['webauthn-passwordless', 1],
    ['password-history', 1],
    ['webauthn', 0],
    ['sms', 0],
  ] as const) {
    const one = exportWith(
      'keycloak',
      { credentials: [{ type }] },
      { email: 'b@example.com', username: 'b', id: '2' },
    );
    t.equal((await converted(t, 'keycloak', one)).lines.length, 1 + comes, type);
  }
});

test('a long secret takes no time', async (t) => {
  const long = 'A'.repeat(4 * 1024 ** 2);
  const otp = { subType: 'totp', digits: 6, period: 30, algorithm: 'HmacSHA1' };
  const keycloak = (data: object) => [
    { type: 'otp', credentialData: JSON.stringify(data), secretData: JSON.stringify({ value: long }) },
  ];
  for (const [system, changes] of [
    ['keycloak', { credentials: keycloak(otp) }],
    ['keycloak', { credentials: keycloak({ ...otp, secretEncoding: 'BASE32' }) }],
    ['supabase', { mfa_factors: [{ factor_type: 'totp', status: 'verified', secret: long }] }],
  ] as const) {
    const before = process.cpuUsage();
    const { findings } = await converted(t, system, exportWith(system, changes));
    const { user, system: inKernel } = process.cpuUsage(before);
    t.match(findings, [{ kind: 'left_out', reason: /second factor cannot come/ }]);
    // To convert the secret takes several seconds.
    t.ok(user + inKernel < 1_500_000, `${system} took ${(user + inKernel) / 1e6} s of CPU time`);
  }
});

test('a list of factors that cannot be read counts as a factor', async (t) => {
  const totp = { factor_type: 'totp', secret: 'JBSWY3DPEHPK3PXP' };
  const unverified = { ...totp, status: 'unverified' };
  for (const [system, field, comes, stays] of [
    [
      'supabase',
      'mfa_factors',
      [null, [], [unverified]],
      [JSON.stringify([totp]), { ...totp, status: 'verified' }, [totp], [unverified, totp], [7], '', false],
    ],
    ['auth0', 'multifactor', [null, []], ['guardian', { provider: 'guardian' }, '', false]],
    ['firebase', 'mfaInfo', [null, []], [{ phoneInfo: '+15555550100' }, '[]', false]],
  ] as const) {
    const accounts = [...comes, ...stays].map((value, i) => ({ email: `u${i}@example.com`, [field]: value }));
    const { lines } = await converted(t, system, exportWith(system, ...accounts));
    t.strictSame(
      lines.map(({ email }) => email),
      comes.map((_, i) => `u${i}@example.com`),
      system,
    );
  }
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
  await t.rejects(
    use('firebase', JSON.stringify({ ...hashConfig, signerKey: undefined })),
    refused(/lacks base64_signer_key: it should hold/),
  );
  await t.rejects(use('firebase', ''), refused(/lacks base64_signer_key, .*, mem_cost/));
  await t.rejects(
    use('firebase', JSON.stringify({ ...hashConfig, algorithm: 'BCRYPT' })),
    refused(/another algorithm/),
  );
  await t.rejects(use('firebase', 'x'.repeat(70_000)), refused(/longer than 65536 bytes/));
  const wrong = await use('firebase', JSON.stringify({ ...hashConfig, signerKey: 'AAAA' }));
  t.match(wrong.findings, [{}, { kind: 'without_password', reason: /^its hash /, places: ['[0] to [2]'] }]);

  const hashes = readFileSync(filesOf('auth0').withFile ?? '', 'utf8');
  await t.rejects(
    use('auth0', hashes.slice(0, 500)),
    refused(/^line 2 of the file of --with is not a JSON object$/),
  );
  await t.rejects(use('auth0', textOf('auth0')), refused(/^line 1 of the file of --with lacks the fields/));
  await t.rejects(use('auth0', ''), refused(/holds no accounts/));
});

/** Entries of a Django dump, as a document and as lines. */
const dumpsOf = (...entries: object[]) => [
  JSON.stringify(entries),
  entries.map((entry) => JSON.stringify(entry)).join('\n'),
];

test('a second model with passwords, such as that of former ones, refuses the dump', async (t) => {
  const [user] = JSON.parse(textOf('django')) as [{ fields: object }];
  const current = { ...user, model: 'accounts.user' };
  const former = { ...user, model: 'accounts.historicaluser', pk: 7 };
  for (const entries of [
    [current, former],
    [former, current],
  ])
    for (const dump of dumpsOf(...entries))
      await t.rejects(
        converted(t, 'django', dump),
        refused(/accounts\.(historical)?user and accounts\.(historical)?user: .*dumpdata MODEL/),
      );
  const { lines } = await converted(t, 'django', JSON.stringify([current, { ...former, model: 'secret@x' }]));
  t.equal(lines.length, 1, 'what is no name of a model is no account');
});

test('an entry for a factor in a Django dump gives its user one', async (t) => {
  const users = JSON.parse(textOf('django')) as [{ fields: object }];
  const entry = (model: string, fields: object) => ({ model, pk: 1, fields });
  for (const [factor, comes] of [
    [entry('otp_totp.totpdevice', { user: 70, key: '00', confirmed: true }), false],
    [entry('otp_static.staticdevice', { user: ['ada70'] }), false],
    [entry('two_factor.phonedevice', { user: ['u70@example.com'], number: '+15555550100' }), false],
    [entry('mfa.authenticator', { user: 70, type: 'totp' }), false],
    [entry('mfa.user_keys', { username: 'ada70' }), false],
    [entry('otp_totp.totpdevice', { user: 70, confirmed: false }), true],
    [entry('otp_totp.totpdevice', { user: 71 }), true],
    [entry('otp_static.statictoken', { device: 70 }), true],
    [entry('blog.post', { user: 70 }), true],
  ] as const) {
    const fields = { ...users[0].fields, username: 'ada70', email: 'u70@example.com', logins: 71 };
    for (const dump of dumpsOf(...users, { ...users[0], pk: 70, fields }, factor)) {
      const { lines, findings } = await converted(t, 'django', dump);
      t.equal(lines.length, 5 + Number(comes), JSON.stringify(factor));
      t.equal(
        findings.some(({ reason }) => reason.startsWith('its second factor cannot come')),
        !comes,
      );
    }
  }
});

test('a password of Firebase whose hash is missing is one that is left out', async (t) => {
  const password = [{ providerId: 'google.com' }, { providerId: 'password' }];
  for (const [changes, reason] of [
    [{ passwordHash: '', providerUserInfo: password }, /logs in with a password, but has no hash/],
    [{ passwordHash: undefined, providerUserInfo: password }, /logs in with a password, but has no hash/],
    [{ passwordHash: 'UkVEQUNURUQ=' }, /firebaseauth\.configs\.getHashConfig/],
    [{ passwordHash: '', providerUserInfo: [{ providerId: 'google.com' }] }, null],
  ] as const) {
    const { lines, findings, outcome } = await converted(t, 'firebase', exportWith('firebase', changes));
    t.match(lines, [{ password_hash: null }]);
    t.match(findings, reason === null ? [] : [{ kind: 'without_password', reason }]);
    t.equal(outcome.isWell, reason === null);
  }
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
    [undefined, ['create-realm', 'staff'], ['staff']],
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
  t.match(findings, [{}, {}, { kind: 'note', reason: /--natural-foreign/, places: ['line 1'] }]);
});

test('a username of the service’s RESERVED_USERNAMES is one for it', async (t) => {
  const { input } = filesOf('django');
  const { stdout } = await latchkey(['user', 'convert', '--from', 'django', input], {
    RESERVED_USERNAMES: 'ada',
  });
  t.match(stdout, '"username":"admin"');
  t.notMatch(stdout, '"username":"ada"');
});

test('arguments and files that do not fit', async (t) => {
  const folder = testFolder(t);
  const path = (name: string) => join(folder, name);
  mkdirSync(path('folder'));
  writeFileSync(path('out'), 'mine');
  const { input } = filesOf('django');
  for (const [args, message] of [
    [[input], /--from names the system: keycloak, auth0,/],
    [['--from', 'constructor', input], /--from names the system/],
    [['--from', 'django', input, '--with', input], /--from django takes no --with/],
    [['--from', 'firebase', filesOf('firebase').input], /needs --with FILE: the password hash parameters/],
  ] as const)
    await t.rejects(convert(...args), { constructor: UsageError, message });
  for (const words of [[], ['a', 'b', 'c']])
    t.match(await latchkey(['user', 'convert', '--from', 'django', ...words]), { code: 2 });
  await t.rejects(
    convert('--from', 'django', path('none'), path('new')),
    refused(/none cannot be read \(ENOENT\)/),
  );
  await t.rejects(convert('--from', 'django', path('folder')), refused(/folder cannot be read/));
  await t.rejects(
    convert('--from', 'django', input, path('out')),
    refused(/out cannot be created \(EEXIST\)/),
  );
  t.equal(readFileSync(path('out'), 'utf8'), 'mine', 'a file is never replaced');

  const piped = await latchkey(['user', 'convert', '--from', 'django', '-'], {}, undefined, textOf('django'));
  t.match(piped, { code: 1, stderr: /^converted 5 accounts, left out 1\n/, audit: [] });
  const error = await latchkey(['user', 'convert', '--from', 'django', path('none'), '--json']);
  t.match(error, { code: 1, stderr: /^\{"error":".*none cannot be read/ });
});
