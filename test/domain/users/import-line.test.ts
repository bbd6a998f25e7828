import { test } from 'tap';
import { makeReadLine } from '../../../src/domain/users/import-line.ts';
import { makeNewNames } from '../../../src/domain/users/new-names.ts';

const NOW = Date.parse('2026-01-02T03:04:05Z');
const NO_PASSWORD = Buffer.from('nothing opens it');
const GOOD = { username: 'Ada', name: 'Ada L.', email: 'ADA@example.com', password_hash: 'good' };

const readLine = makeReadLine({
  newNames: makeNewNames(['admin']),
  readHash: (value) =>
    value === 'good'
      ? { ok: true, value: { passwordHash: Buffer.from('hash') } }
      : value === null
        ? { ok: true, value: { passwordHash: NO_PASSWORD } }
        : { ok: false, message: 'is not a hash' },
  readTotpSecret: (value) =>
    value === 'short' ? { ok: false, message: 'is too short' } : { ok: true, value: null },
  randomUsername: () => 'user-u6t2pj5hu6t2',
  now: () => NOW,
});
const read = (line: unknown) => readLine(Buffer.from(typeof line === 'string' ? line : JSON.stringify(line)));

test('a line has its fields, and the optional ones their defaults', (t) => {
  t.strictSame(read(GOOD), {
    ok: true,
    user: {
      username: 'ada',
      name: 'Ada L.',
      email: 'ADA@example.com',
      externalId: null,
      hash: { passwordHash: Buffer.from('hash') },
      createdAt: null,
      roles: [],
      disabled: false,
      emailVerified: false,
      locale: null,
      totpSecret: null,
    },
  });
  const all = {
    external_id: 'crm-7',
    created_at: '2020-01-01T00:00:00.5+01:00',
    roles: ['a'],
    disabled: true,
    email_verified: true,
    locale: 'PT-br',
  };
  t.match(read({ ...GOOD, ...all }), {
    ok: true,
    user: {
      externalId: 'crm-7',
      createdAt: Date.parse('2019-12-31T23:00:00.5Z'),
      roles: ['a'],
      disabled: true,
      emailVerified: true,
      locale: 'pt-BR',
    },
  });
  t.match(read(`  ${JSON.stringify(GOOD)}\r`), { ok: true }, 'with white space and the line end of Windows');
  t.match(read(`\ufeff${JSON.stringify(GOOD)}`), { ok: true }, 'with a byte order mark');
  t.end();
});

test('null stands for a field that the other system lacks, and as a hash for no password', (t) => {
  const optional = [
    'username',
    'name',
    'external_id',
    'created_at',
    'roles',
    'disabled',
    'email_verified',
    'totp_secret',
  ];
  const { email, password_hash } = GOOD;
  const nulls = Object.fromEntries(optional.map((name) => [name, null]));
  t.strictSame(read({ ...nulls, email, password_hash }), read({ email, password_hash }));
  const refusal = read({ email: null, password_hash });
  t.strictSame(refusal, { ok: false, problem: 'email is required' });
  t.strictSame(read({ password_hash }), refusal);
  t.match(read({ email, password_hash: null }), { ok: true, user: { hash: { passwordHash: NO_PASSWORD } } });
  t.match(read({ email }), { ok: false, problem: 'password_hash is not a hash' });
  t.end();
});

test('a user whom the other system gave no username gets a random one, which stands for a missing name too', (t) => {
  const random = 'user-u6t2pj5hu6t2';
  const bare = { email: GOOD.email, password_hash: GOOD.password_hash };
  t.match(read(bare), { ok: true, user: { username: random, name: random } });
  t.match(read({ ...bare, name: 'Ada L.' }), { ok: true, user: { username: random, name: 'Ada L.' } });
  t.match(read({ ...bare, username: 'ADA' }), { ok: true, user: { username: 'ada', name: 'ada' } });
  t.match(read({ ...bare, username: '' }), {
    ok: false,
    problem: 'username must not be blank, but may be left out',
  });
  t.end();
});

test('every problem of a line is named by its field, without a value', (t) => {
  const problems: [unknown, RegExp][] = [
    [{}, /^email is required; password_hash is not a hash$/],
    [{ ...GOOD, username: 5 }, /^username must be a string, but may be left out$/],
    [{ ...GOOD, username: 'a d a' }, /^username must not hold whitespace/],
    [
      { ...GOOD, username: 'admin' },
      /^username must not be, or look like, a reserved name, but may be left out$/,
    ],
    [
      { ...GOOD, username: 'p\u0430y' },
      /^username must not mix letters of several scripts, but may be left out$/,
    ],
    [{ ...GOOD, username: '\ud800' }, /^username must be well-formed Unicode, but may be left out$/],
    [{ ...GOOD, name: ' ' }, /^name must not be blank$/],
    [{ ...GOOD, name: 'x'.repeat(129) }, /^name must have at most 128 characters$/],
    [{ ...GOOD, email: 'secret' }, /^email must be an e-mail address$/],
    [{ ...GOOD, password_hash: 'secret' }, /^password_hash is not a hash$/],
    [{ ...GOOD, password: 'secret' }, /^holds 1 unknown fields; known are username, /],
    [{ ...GOOD, locale: 'en_secret' }, /^locale must be a language tag of BCP 47/],
    [{ ...GOOD, locale: 5 }, /^locale must be a string$/],
    [{ ...GOOD, invite: true }, /^holds 1 unknown fields/],
    [{ ...GOOD, totp_secret: 'short' }, /^totp_secret is too short$/],
    [{ ...GOOD, roles: 'a' }, /^roles must be a list$/],
    [{ ...GOOD, roles: null, disabled: 1 }, /^disabled must be true or false$/],
    [{ ...GOOD, disabled: 'no', email_verified: 0 }, /^disabled must .*; email_verified must/],
    ...['2020-01-01', 'yesterday', 5, '2020-13-01T00:00:00Z', '2020-01-01T00:00:00'].map(
      (created_at): [unknown, RegExp] => [
        { ...GOOD, created_at },
        /^created_at must be a time as in RFC 3339$/,
      ],
    ),
    [{ ...GOOD, created_at: '2026-01-02T03:04:06Z' }, /^created_at must be a time from 1970 until now$/],
    [{ ...GOOD, created_at: '1969-12-31T23:59:59Z' }, /^created_at must be a time from 1970 until now$/],
    ...['secret', '', '[]', 'null', '"secret"', '{"a":', '{}{}'].map((line): [unknown, RegExp] => [
      line,
      line === '{}' ? /required/ : /^is not a JSON object$/,
    ]),
  ];
  for (const [line, expected] of problems) {
    const result = read(line);
    t.match(result, { ok: false, problem: expected }, JSON.stringify(line));
    t.notMatch(JSON.stringify(result).replace('totp_secret', ''), /secret/);
  }
  t.match(readLine(Buffer.from([0x7b, 0xff, 0x7d])), { ok: false, problem: 'is not UTF-8' });
  t.end();
});
