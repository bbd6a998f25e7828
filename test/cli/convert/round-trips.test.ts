import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { call, pairOf } from '../../support/client.ts';
import { anApp, loginTokenOf, secondStep } from '../../support/factors.ts';
import { testFolder } from '../../support/folder.ts';
import { latchkey } from '../../support/latchkey.ts';
import { sql } from '../../support/sql.ts';
import { IMPORTED_PASSWORD } from '../../support/users-file.ts';
import '../../support/watch-leaks.ts';
import { filesOf, type SystemName } from './exports.ts';

const FACTOR_KEYS = Buffer.alloc(32, 1).toString('base64url');
const GENERATED = /^user-[a-z2-7]{12}$/;
const CREATED = '2024-01-02T03:04:05.678Z';

interface Row {
  username: string | RegExp;
  name?: string;
  email: string;
  id: string;
  created?: string;
  roles?: string[];
  disabled?: true;
  verified?: true;
  /** What opens the account, if not IMPORTED_PASSWORD; null: nothing. */
  password?: string | null;
  /** Base32. */
  secret?: string;
}

/** Every account of each export that is converted, by its e-mail address, which always logs in. */
const ACCOUNTS: Record<SystemName, Row[]> = {
  keycloak: [
    {
      username: 'ada',
      name: 'Ada Example',
      email: 'ada@example.com',
      id: '2a117809-8285-4718-a131-000000000001',
      created: '2020-09-13T12:26:40.001Z',
      roles: ['staff'],
      verified: true,
      // The text of Keycloak's secret, as its QR code has it.
      secret: 'GJNEITKTNNKEMTCCJJTUGVTDGBNGON2P',
    },
    { username: GENERATED, email: 'bob@example.com', id: '2a117809-8285-4718-a131-000000000002' },
    {
      username: 'carol',
      email: 'carol@example.com',
      id: '2a117809-8285-4718-a131-000000000003',
      secret: 'JBSWY3DPEHPK3PXPJBSWY3DP',
    },
    {
      username: 'frank',
      email: 'frank@example.com',
      id: '2a117809-8285-4718-a131-000000000006',
      disabled: true,
    },
    {
      username: 'heidi',
      email: 'heidi@example.com',
      id: '2a117809-8285-4718-a131-000000000008',
      password: null,
    },
  ],
  auth0: [
    {
      username: 'ada',
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      id: 'auth0|5dea9f9c82dd7c0e76e4ec91',
      created: '2021-03-05T16:34:16.775Z',
      verified: true,
    },
    { username: GENERATED, name: 'bob', email: 'bob@example.com', id: 'auth0|euclid', verified: true },
    {
      username: GENERATED,
      name: 'carol',
      email: 'carol@example.com',
      id: 'google-oauth2|103547991597142817347',
      verified: true,
    },
    {
      username: GENERATED,
      email: 'dave@example.com',
      id: 'google-oauth2|103547991597142817348',
      verified: true,
      password: null,
    },
    {
      username: GENERATED,
      email: 'frank@example.com',
      id: 'auth0|5dea9f9c82dd7c0e76e4ec96',
      verified: true,
      disabled: true,
    },
    { username: GENERATED, email: 'grace@example.com', id: 'auth0|5dea9f9c82dd7c0e76e4ec97', password: null },
  ],
  firebase: [
    {
      username: GENERATED,
      name: 'Test User 1',
      email: 'user1@example.com',
      id: 'kYi4EvWQlQTKSfnJ3dRSP6IH3ed2',
      created: '2017-10-25T01:12:05.000Z',
      password: 'user1password',
    },
    { username: GENERATED, email: 'ada@example.com', id: 'XDfXjqUr2wbjLpAJpDBz1aFCxnk1', verified: true },
    { username: GENERATED, email: 'bob@example.com', id: 'XDfXjqUr2wbjLpAJpDBz1aFCxnk2', disabled: true },
    {
      username: GENERATED,
      email: 'carol@example.com',
      id: 'XDfXjqUr2wbjLpAJpDBz1aFCxnk4',
      verified: true,
      password: null,
    },
  ],
  django: [
    {
      username: 'ada',
      name: 'Ada Lovelace',
      email: 'Ada@example.com',
      id: '1',
      created: CREATED,
      roles: ['editors'],
    },
    { username: GENERATED, email: 'bob@example.com', id: '2' },
    // A superuser, and with a reserved username.
    { username: GENERATED, email: 'admin@example.com', id: '3' },
    { username: 'carol', email: 'carol@example.com', id: '4', password: null },
    { username: 'dave', email: 'dave@example.com', id: '5', disabled: true },
  ],
  wordpress: [
    { username: GENERATED, name: 'admin', email: 'admin@example.com', id: '1' },
    {
      username: 'ada',
      name: 'ada',
      email: 'ada@example.com',
      id: '2',
      created: '2019-05-06T07:08:09.000Z',
      roles: ['editor', 'shop_manager'],
    },
    { username: GENERATED, name: 'Bob Baker', email: 'bob@example.com', id: '3', roles: ['customer'] },
    { username: 'carol', email: 'carol@example.com', id: '4', roles: ['subscriber'], password: null },
    {
      username: 'erin',
      name: 'Zoë / Erin',
      email: 'erin@example.com',
      id: '6',
      roles: ['subscriber'],
      disabled: true,
    },
  ],
  supabase: [
    {
      username: GENERATED,
      name: 'User 1',
      email: 'ada@example.com',
      id: 'f1d0c5b4-7a52-4a5c-9a6e-000000000001',
      created: CREATED,
      verified: true,
      secret: 'JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP',
    },
    {
      username: GENERATED,
      email: 'bob@example.com',
      id: 'f1d0c5b4-7a52-4a5c-9a6e-000000000002',
      verified: true,
    },
    {
      username: GENERATED,
      email: 'dave@example.com',
      id: 'f1d0c5b4-7a52-4a5c-9a6e-000000000004',
      verified: true,
      disabled: true,
    },
    { username: GENERATED, email: 'erin@example.com', id: 'f1d0c5b4-7a52-4a5c-9a6e-000000000005' },
    {
      username: GENERATED,
      email: 'grace@example.com',
      id: 'f1d0c5b4-7a52-4a5c-9a6e-000000000008',
      verified: true,
      password: null,
    },
  ],
};

const NO_FACTOR =
  'its second factor cannot come, so it would open by its password alone: --drop-factors takes it';
const UNKNOWN_FACTOR =
  /^the export does not say whether it has a second factor; .* before you import \(.+\), or/;
const ROLES = 'roles are left out that have other characters than a-z, 0-9, :, _ and -, or are too many';
const BY_ADDRESS = 'its username is left out, so its user logs in by address: must not';
const NO_ADDRESS = 'has no e-mail address';

/** What the report says of each export: kind, reason and places. */
const REPORTS: Record<SystemName, [kind: string, reason: string | RegExp, ...places: string[]][]> = {
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

for (const [system, accounts] of Object.entries(ACCOUNTS) as [SystemName, Row[]][])
  test(`the users of ${system} log in after convert and import`, async (t) => {
    const env = { FACTOR_KEYS, HASH_MEMORY: '64' };
    const target = await buildTestApp(t, { env });
    const { databaseUrl: DATABASE_URL } = target;
    const { input, withFile } = filesOf(system);
    const args = ['user', 'convert', '--from', system, input, ...(withFile ? ['--with', withFile] : [])];
    // The leak watch searches the report for what standard output holds.
    const { code, stdout, stderr } = await latchkey([...args, '--json']);
    t.equal(code, 1, 'something was left out');
    const { converted, left_out, findings } = JSON.parse(stderr) as Record<string, unknown>;
    const places = REPORTS[system].filter(([kind]) => kind === 'left_out').flatMap(([, , ...each]) => each);
    t.equal(converted, accounts.length);
    t.ok(Number(left_out) >= places.length && places.length > 0);
    t.match(
      findings,
      REPORTS[system].map(([kind, reason, ...each]) => ({ kind, reason, places: each })),
    );
    t.equal((findings as object[]).length, REPORTS[system].length);

    const output = join(testFolder(t), 'users.jsonl');
    writeFileSync(output, stdout);
    const imported = await latchkey(['user', 'import', output], { DATABASE_URL, ...env });
    t.match(
      imported,
      {
        code: 0,
        stdout: `imported ${accounts.length}, refused 0, skipped 0
`,
      },
      imported.stderr,
    );
    const rows = await sql<{ id: string }>(
      DATABASE_URL,
      `SELECT username, name, coalesce(email_given, email) AS email, external_id AS id, roles, created_at AS created,
        disabled_at IS NOT NULL AS disabled, email_verified_at IS NOT NULL AS verified FROM users`,
    );
    const expected = accounts.map(({ password: _, secret: __, created, ...row }) => ({
      roles: [],
      disabled: false,
      verified: false,
      ...row,
      ...(created !== undefined && { created: new Date(created) }),
    }));
    // An import may insert the lines of a batch in any order.
    const place = ({ id }: { id: string }) => accounts.findIndex((account) => account.id === id);
    t.match(
      rows.sort((one, other) => place(one) - place(other)),
      expected,
    );
    const logIn = (username = '', password: string) =>
      call(target, 'POST /api/auth', { payload: { username, password } });
    t.equal((await logIn(accounts[0]?.email, `${IMPORTED_PASSWORD}!`)).statusCode, 401, 'not the password');
    for (const { email, disabled, password = IMPORTED_PASSWORD, secret } of accounts) {
      const first = await logIn(email, password ?? IMPORTED_PASSWORD);
      if (disabled || password === null) t.equal(first.statusCode, 401, `${email} does not open`);
      else if (secret === undefined) t.ok(pairOf(first).access_token, `${email} opens`);
      else {
        const login = { login_token: loginTokenOf(first), code: anApp(secret)() };
        t.ok(pairOf(await secondStep(target, login)).access_token, `${email} opens with the code of its app`);
      }
    }
  });
