import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { problemsOf } from '../support/config-problems.ts';
import { testFolder } from '../support/folder.ts';

const ADA = { username: 'ada', email: 'ada@example.com', password: 'difference engine' };
const ORDERS = { name: 'orders', id: `lkc_${'o'.repeat(22)}`, secret: 'known-to-the-team' };

type Settings = Readonly<Record<string, string>>;

/** Settings with a file of this content. */
function seedOf(t: Test, content: unknown): { SEED_FILE: string } {
  const file = join(testFolder(t), 'seed.json');
  writeFileSync(
    file,
    typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content),
  );
  return { SEED_FILE: file };
}

test('a seed is read in the forms in which it is stored', (t) => {
  const full = {
    users: [
      ADA,
      {
        username: 'GRACE',
        email: 'Grace@Example.com',
        password: 'nanoseconds of wire',
        name: ' Grace ',
        roles: ['billing:admin'],
        external_id: 'crm-1',
        email_verified: true,
        totp_secret: 'GEZDGNBVGY3TQOJQ',
      },
    ],
    services: [
      ORDERS,
      {
        ...ORDERS,
        name: 'b',
        id: `lkc_${'b'.repeat(22)}`,
        may: ['call:orders', 'users.read'],
        audience: 'b',
        roles: ['r'],
      },
    ],
  };
  const text = JSON.stringify(full);
  for (const content of [text, `\ufeff${text}\r\n`]) {
    const { seed } = loadConfig(seedOf(t, content));
    t.match(seed?.users, [
      { ...ADA, name: 'ada', totpSecret: null },
      { username: 'grace', email: 'Grace@Example.com', name: 'Grace', roles: ['billing:admin'] },
    ]);
    t.match(seed?.users[1], {
      externalId: 'crm-1',
      emailVerified: true,
      totpSecret: Buffer.from('1234567890'),
    });
    t.match(seed?.services, [
      {
        name: 'orders',
        serviceId: ORDERS.id,
        rights: ['introspect', 'revoke', 'revocations'],
        audience: null,
        roles: [],
      },
      { rights: ['users.read', 'call:orders'], audience: 'b', roles: ['r'] },
    ]);
  }
  t.equal(loadConfig({ SEED_FILE: ' \n' }).seed, null);
  t.strictSame(loadConfig(seedOf(t, {})).seed, { users: [], services: [] });
  t.end();
});

/** Each with what it says. */
const BAD: [content: unknown, problem: string | RegExp][] = [
  ['{"users": [hunter2-hunter2]}', 'is not JSON'],
  ['', 'is not JSON'],
  [Buffer.from('{"users": []}', 'utf16le'), /is not (UTF-8|JSON)/],
  [Buffer.from([0x7b, 0xff, 0x7d]), 'is not UTF-8'],
  [[], 'must be an object'],
  ['null', 'must be an object'],
  [{ 'hunter2-hunter2': [] }, 'holds 1 unknown member; known are users, services'],
  [{ users: {} }, 'users must be a list'],
  [{ users: ['hunter2-hunter2'] }, 'users[0] must be an object'],
  [{ users: [{ ...ADA, 'hunter2-hunter2': 1 }] }, /^users\[0] holds 1 unknown member; known are username, /],
  [{ users: [{ ...ADA, locale: 'de', hunter2: 1 }] }, /^users\[0] holds 2 unknown members;/],
  [{ users: [ADA, { email: 'b@example.com', password: ADA.password }] }, 'users[1].username is required'],
  [{ users: [{ ...ADA, password: undefined }] }, 'users[0].password is required'],
  [{ users: [{ ...ADA, password: 5 }] }, 'users[0].password must be a string'],
  [{ users: [{ ...ADA, password: 'hunter2' }] }, 'users[0].password must have at least 8 characters'],
  [{ users: [{ ...ADA, password: 'password1' }] }, /^users\[0]\.password is one of the commonest passwords/],
  [
    { users: [{ ...ADA, username: 'admin' }] },
    /^users\[0]\.username must not be, or look like, a reserved name/,
  ],
  [{ users: [{ ...ADA, username: 'hunter2@hunter2' }] }, /^users\[0]\.username must not hold whitespace/],
  [{ users: [{ ...ADA, email: 'hunter2-hunter2' }] }, 'users[0].email must be an e-mail address'],
  [{ users: [{ ...ADA, name: null }] }, 'users[0].name must be a string'],
  [{ users: [{ ...ADA, roles: ['Hunter2-Hunter2'] }] }, /^users\[0]\.roles must hold strings of/],
  [{ users: [{ ...ADA, external_id: 'hunter2 hunter2' }] }, /^users\[0]\.external_id must hold visible/],
  [{ users: [{ ...ADA, email_verified: 'true' }] }, 'users[0].email_verified must be true or false'],
  [{ users: [{ ...ADA, totp_secret: 'hunter2-hunter2-1' }] }, 'users[0].totp_secret must be base32'],
  [{ users: [{ ...ADA, totp_secret: 'GEZDGNBV' }] }, 'users[0].totp_secret must have 80 to 512 bits'],
  [{ services: ['hunter2-hunter2'] }, 'services[0] must be an object'],
  [{ services: [{ ...ORDERS, hunter2: 1 }] }, /^services\[0] holds 1 unknown member; known are name, id, /],
  [{ services: [{ ...ORDERS, name: ' ' }] }, 'services[0].name must have 1 to 64 printable characters'],
  [{ services: [{ ...ORDERS, id: 'orders' }] }, /^services\[0]\.id must be lkc_ and 22 letters/],
  [{ services: [{ ...ORDERS, id: `lkc_${'o'.repeat(23)}` }] }, /^services\[0]\.id must be lkc_/],
  [
    { services: [{ ...ORDERS, secret: `lks_${'h'.repeat(43)}` }] },
    /^services\[0]\.secret .*not begin with lks_/,
  ],
  [
    { services: [{ ...ORDERS, secret: 'h'.repeat(15) }] },
    /^services\[0]\.secret must have 16 to 128 visible/,
  ],
  [{ services: [{ ...ORDERS, secret: 'h'.repeat(129) }] }, /^services\[0]\.secret must have 16 to 128/],
  [{ services: [{ ...ORDERS, secret: 'hunter2 hunter2-' }] }, /^services\[0]\.secret must have 16 to 128/],
  [{ services: [{ ...ORDERS, may: 'introspect' }] }, /^services\[0]\.may must be a list of introspect, /],
  [{ services: [{ ...ORDERS, may: ['introspect,revoke'] }] }, /^services\[0]\.may must be a list/],
  [{ services: [{ ...ORDERS, audience: 'hunter2 hunter2' }] }, /^services\[0]\.audience must have 1 to 64/],
  [{ services: [{ ...ORDERS, audience: 'latchkey' }] }, /^services\[0]\.audience .* not be AUDIENCE/],
  [{ services: [{ ...ORDERS, roles: [5] }] }, /^services\[0]\.roles must hold strings/],
  [
    { users: [ADA, { ...ADA, email: 'b@example.com' }] },
    'users[1].username is, or looks like, that of users[0]',
  ],
  [{ users: [ADA, { ...ADA, username: 'аdа', email: 'b@example.com' }] }, /^users\[1]\.username /],
  [
    { users: [ADA, { ...ADA, username: 'b', email: 'ADA@example.com' }] },
    'users[1].email is, or looks like, that of users[0]',
  ],
  [
    { services: [ORDERS, { ...ORDERS, id: `lkc_${'p'.repeat(22)}` }] },
    'services[1].name is, or looks like, that of services[0]',
  ],
  [{ services: [ORDERS, { ...ORDERS, name: 'b' }] }, 'services[1].id is, or looks like, that of services[0]'],
];

test('a wrong seed is refused with the place and the field, and never with a value', (t) => {
  for (const [content, problem] of BAD) {
    const problems = problemsOf(seedOf(t, content));
    const expected =
      typeof problem === 'string'
        ? `SEED_FILE: ${problem}`
        : new RegExp(problem.source.replace('^', '^SEED_FILE: '));
    t.match(problems, [expected], JSON.stringify(content));
    t.equal(problems.length, 1, JSON.stringify(problems));
    t.notMatch(problems.join(), /hunter2/i);
  }
  t.end();
});

test('all problems of a seed are listed with those of the other settings', (t) => {
  const content = { users: [{ ...ADA, email: 'x', username: 'a b' }, 5], services: [{}] };
  t.match(problemsOf({ ...seedOf(t, content), PORT: 'x' }), [
    /^PORT /,
    /^SEED_FILE: users\[0]\.username /,
    /^SEED_FILE: users\[0]\.email /,
    /^SEED_FILE: users\[1] /,
    /^SEED_FILE: services\[0]\.name /,
    /^SEED_FILE: services\[0]\.id /,
    /^SEED_FILE: services\[0]\.secret /,
  ]);
  const folder = testFolder(t);
  t.strictSame(problemsOf({ SEED_FILE: folder }), ['SEED_FILE: cannot be read (EISDIR)']);
  t.strictSame(problemsOf({ SEED_FILE: join(folder, 'x') }), ['SEED_FILE: cannot be read (ENOENT)']);
  t.end();
});

test('a TOTP secret needs a key, and production takes no seed', (t) => {
  const seed = seedOf(t, { users: [{ ...ADA, totp_secret: 'GEZDGNBVGY3TQOJQ' }] });
  const given: Settings = { ...seed, DATABASE_URL: 'postgres://localhost/latchkey' };
  t.match(problemsOf(given), ["SEED_FILE: users[0].totp_secret needs the service's FACTOR_KEYS"]);
  t.strictSame(problemsOf({ ...given, FACTOR_KEYS: Buffer.alloc(32, 1).toString('base64url') }), []);
  t.ok(
    problemsOf({ ...given, NODE_ENV: ' production\n' }).includes('SEED_FILE must not be set in production'),
  );
  t.end();
});
