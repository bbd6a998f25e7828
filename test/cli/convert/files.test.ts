import { readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { test } from 'tap';
import { UsageError } from '../../../src/cli/arguments.ts';
import { testFolder } from '../../support/folder.ts';
import { latchkey } from '../../support/latchkey.ts';
import {
  convert,
  converted,
  filesOf,
  refused,
  SYSTEM_NAMES,
  textOf,
  type Fields,
  type SystemName,
} from './exports.ts';

// A file of each form stands for all systems: keycloak's list is in a document, django's is one, auth0's has lines.

test('UTF-16, as PowerShell writes it, and a compressed file are refused with what to do', async (t) => {
  for (const system of ['keycloak', 'auth0'] as const) {
    const little = Buffer.from(textOf(system), 'utf16le');
    const marked = Buffer.from(`\ufeff${textOf(system)}`, 'utf16le');
    for (const content of [marked, Buffer.from(little).swap16(), little])
      await t.rejects(
        converted(t, system, content),
        refused(/is UTF-16, as PowerShell's > writes it.*another shell/),
      );
    await t.rejects(converted(t, system, gzipSync(textOf(system))), refused(/is compressed: .*gunzip$/));
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
  const { lines, findings } = await use('auth0', hashes.replaceAll('"passwordHash"', '"custom"'));
  t.ok(lines.every(({ password_hash }) => password_hash === null));
  t.match(
    findings.find(({ kind }) => kind === 'without_password'),
    { reason: 'the file of --with has no hash for it' },
    'only the passwords are missing',
  );
  for (const [content, message] of [
    [hashes.slice(0, 500), /^line 2 of the file of --with is not a JSON object$/],
    [textOf('auth0'), /^line 1 of the file of --with lacks the fields/],
    ['', /holds no accounts/],
  ] as const)
    await t.rejects(use('auth0', content), refused(message));
});

test('arguments and files that do not fit', async (t) => {
  const { input } = filesOf('django');
  for (const [args, message] of [
    [[input], /--from names the system: keycloak, auth0,/],
    [['--from', 'constructor', input], /--from names the system/],
    [['--from', 'django', input, '--with', input], /--from django takes no --with/],
    [['--from', 'firebase', filesOf('firebase').input], /needs --with FILE: the password hash parameters/],
  ] as const)
    await t.rejects(convert(args), { constructor: UsageError, message });

  const output = join(testFolder(t), 'out');
  await convert(['--from', 'django', input, output], { RESERVED_USERNAMES: 'ada' });
  const written = readFileSync(output, 'utf8');
  t.match(written, '"username":"admin"');
  t.notMatch(written, '"username":"ada"', "the service's reserved names");
  t.equal(statSync(output).mode & 0o777, 0o600, 'for its owner only');
  await t.rejects(convert(['--from', 'django', input, output]), refused(/cannot be created \(EEXIST\)/));
  t.equal(readFileSync(output, 'utf8'), written, 'a file is never replaced');

  const piped = await latchkey(['user', 'convert', '--from', 'django', '-'], {}, undefined, textOf('django'));
  t.match(piped, { code: 1, stderr: /^converted 5 accounts, left out 1\n/, audit: [] });
});
