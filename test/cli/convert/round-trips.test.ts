import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call, pairOf } from '../../support/client.ts';
import { anApp, loginTokenOf, secondStep } from '../../support/factors.ts';
import { testFolder } from '../../support/folder.ts';
import { latchkey } from '../../support/latchkey.ts';
import { IMPORTED_PASSWORD } from '../../support/users-file.ts';
import '../../support/watch-leaks.ts';
import { filesOf, FOLDER, type SystemName } from './exports.ts';

const FACTOR_KEYS = Buffer.alloc(32, 1).toString('base64url');

/** What the account with this address opens by, if it is another password. */
const PASSWORDS: Record<string, string> = { 'user1@example.com': 'user1password' };

interface Account {
  email: string;
  /** Only for a user without a password. */
  password_hash?: null;
  disabled?: true;
  totp_secret?: string;
  [field: string]: unknown;
}

const linesOf = (text: string) =>
  text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Account);

/** What an export becomes: exports/converted/ has each line without its hash. */
const expectedOf = (system: SystemName) =>
  linesOf(readFileSync(join(FOLDER, 'converted', `${system}.jsonl`), 'utf8'));

const NO_FACTOR =
  'its second factor cannot come, so it would open by its password alone: --drop-factors takes it';
const UNKNOWN_FACTOR =
  /^the export does not say whether it has a second factor; .* before you import \(.+\), or/;
const ROLES = 'roles are left out that have other characters than a-z, 0-9, :, _ and -, or are too many';
const BY_ADDRESS = 'its username is left out, so its user logs in by address: must not';
const NO_ADDRESS = 'has no e-mail address';

type Expected = [kind: string, reason: string | RegExp, ...places: string[]];

/** What the report says of each export. */
const REPORTS: Record<SystemName, Expected[]> = {
  keycloak: [
    ['left_out', NO_FACTOR, '[3] to [4]'],
    ['left_out', NO_ADDRESS, '[6]'],
    ['left_out', 'is the service account of a client', '[8]'],
    ['note', ROLES, '[0]'],
    ['note', `${BY_ADDRESS} hold whitespace, control characters or @`, '[1]'],
  ],
  auth0: [
    ['left_out', NO_FACTOR, 'line 5'],
    ['without_password', 'the file of --with has no hash for it', 'line 7'],
    ['unknown_factor', UNKNOWN_FACTOR, 'line 1', 'line 3', 'line 6'],
  ],
  firebase: [
    ['left_out', NO_ADDRESS, '[3]'],
    ['unknown_factor', UNKNOWN_FACTOR, '[0] to [2]'],
  ],
  django: [
    ['left_out', NO_ADDRESS, '[5]'],
    ['unknown_factor', UNKNOWN_FACTOR, '[0] to [2]', '[4]'],
    ['note', ROLES, '[0]'],
    ['note', `${BY_ADDRESS} hold whitespace, control characters or @`, '[1]'],
    ['note', `${BY_ADDRESS} be, or look like, a reserved name`, '[2]'],
  ],
  wordpress: [
    ['left_out', NO_ADDRESS, '[4]'],
    ['without_password', /^its hash /, '[3]'],
    ['unknown_factor', UNKNOWN_FACTOR, '[0] to [2]', '[5]'],
    ['note', 'is an administrator of WordPress, and gets no role for it', '[0]'],
    ['note', `${BY_ADDRESS} be, or look like, a reserved name`, '[0]'],
    ['note', `${BY_ADDRESS} hold whitespace, control characters or @`, '[2]'],
  ],
  supabase: [
    ['left_out', NO_FACTOR, 'line 3'],
    ['left_out', NO_ADDRESS, 'line 6'],
    ['left_out', 'is deleted', 'line 7'],
  ],
};

for (const [system, findings] of Object.entries(REPORTS) as [SystemName, Expected[]][])
  test(`the users of ${system} log in after convert and import`, async (t) => {
    const env = { FACTOR_KEYS, HASH_MEMORY: '64' };
    const { input, withFile } = filesOf(system);
    const args = ['user', 'convert', '--from', system, input, ...(withFile ? ['--with', withFile] : [])];
    // The leak watch searches the report for what standard output holds.
    const { code, stdout, stderr } = await latchkey([...args, '--json']);
    t.equal(code, 1, 'something was left out');
    const report = JSON.parse(stderr) as { converted: number; findings: object[] };
    t.match(
      report.findings,
      findings.map(([kind, reason, ...places]) => ({ kind, reason, places })),
    );
    t.equal(report.findings.length, findings.length);
    const accounts = linesOf(stdout).map(({ password_hash, ...rest }) => ({
      ...rest,
      ...(password_hash === null && { password_hash }),
    }));
    t.strictSame(accounts, expectedOf(system));
    t.equal(report.converted, accounts.length);

    const target = await buildTestApp(t, { env });
    const file = join(testFolder(t), 'users.jsonl');
    writeFileSync(file, stdout);
    const imported = await latchkey(['user', 'import', file], { DATABASE_URL: target.databaseUrl, ...env });
    t.equal(imported.stdout, `imported ${accounts.length}, refused 0, skipped 0\n`, imported.stderr);
    const logIn = (username: string, password: string) =>
      call(target, 'POST /api/auth', { payload: { username, password } });
    const [one] = accounts;
    t.equal((await logIn(one?.email ?? '', `${IMPORTED_PASSWORD}!`)).statusCode, 401, 'not the password');
    for (const { email, disabled, password_hash, totp_secret } of accounts) {
      const first = await logIn(email, PASSWORDS[email] ?? IMPORTED_PASSWORD);
      if (disabled || password_hash === null) t.equal(first.statusCode, 401, `${email} does not open`);
      else if (totp_secret === undefined) t.ok(pairOf(first).access_token, `${email} opens`);
      else {
        const login = { login_token: loginTokenOf(first), code: anApp(totp_secret)() };
        t.ok(pairOf(await secondStep(target, login)).access_token, `${email} opens with the code of its app`);
      }
    }
  });
