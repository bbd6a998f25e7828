import { test } from 'tap';
import { makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';

const COST = { logN: 4, r: 8, p: 1 };
const MEMORY = 128 * 1024 ** 2;
const hasher = makePasswordHasher(COST, MEMORY);
const readHash = makeReadHash(COST, MEMORY);

interface Published {
  password: string;
  /** Where the hashes are published. */
  from: string;
  /** Each with the cost as which it is stored. */
  hashes: [hash: string, cost: string][];
}

const PUBLISHED: Published[] = [
  {
    password: 'password',
    from: 'Spring Security, PasswordEncoderFactoriesTests',
    hashes: [
      ['{bcrypt}$2a$10$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3.HZWzG3YB1tlRy.fqvM/BG', 'bcrypt 10'],
      [
        '{argon2}$argon2d$v=19$m=1024,t=1,p=1$c29tZXNhbHQ$Li5eBf5XrCz0cuzQRe9oflYqmA/VAzmzichw4ZYrvEU',
        'argon2d 1024/1/1',
      ],
      [
        '{pbkdf2}5d923b44a6d129f3ddf3e3c8d29412723dcbde72445e8ef6bf3b508fbf17fa4ed4d6b99ca763d8dc',
        'pbkdf2-sha1 370000',
      ],
      [
        '{scrypt}$e0801$8bWJaSu2IKSn9Z9kM+TPXfOc/9bdYSrN1oD9qfVThWEwdRTnO7re7Ei+fUZRJ68k9lTyuTeUp4of4g24hHnazw==$OAOec05+bXxvuu/1qZ6NUR+xQYvYv7BeL1QxwRpY5Pc=',
        'scrypt 14/8/1',
      ],
    ],
  },
  {
    password: 'password',
    from: "the JDK's SecretKeyFactory, which Spring Security calls, with the parameters of its version 5.8",
    hashes: [
      [
        '{pbkdf2@SpringSecurity_v5_8}00112233445566778899aabbccddeeff0a215b9d93a21decc4902e8721d4ec2b35b6d5016eb9927cc1f8ce15852e9893',
        'pbkdf2-sha256 310000',
      ],
    ],
  },
  {
    password: 'my password',
    from: 'ASP.NET Core, PasswordHasherTest',
    hashes: [
      ['AQAAAAAAAAD6AAAAEAhftMyfTJylOlZT+eEotFXd1elee8ih5WsjXaR3PA9M', 'pbkdf2-sha1 250'],
      [
        'AQAAAAEAA9CQAAAAIESkQuj2Du8Y+kbc5lcN/W/3NiAZFEm11P27nrSN5/tId+bR1SwV8CO1Jd72r4C08OLvplNlCDc3oQZ8efcW+jQ=',
        'pbkdf2-sha256 250000',
      ],
      [
        'AQAAAAIAAYagAAAAEAABAgMEBQYHCAkKCwwNDg/Q8A0WMKbtHQJQ2DHCdoEeeFBrgNlldq6vH4qX/CGqGQ==',
        'pbkdf2-sha512 100000',
      ],
    ],
  },
  {
    password: 'user1password',
    from: 'the README of firebase/scrypt, in the text form of Supabase',
    hashes: [
      [
        '$fbscrypt$v=1,n=14,r=8,p=1,ss=Bw==,sk=jxspr8Ki0RYycVU8zykbdLGjFQ3McFUH0uiiTvC8pVMXAn210wjLNmdZJzxUECKbm0QsEmYUSDzZvpjeJ9WmXA==$42xEC+ixf3L2lw==$lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==',
        'scrypt 14/8/1',
      ],
    ],
  },
  {
    password: 'admin',
    from: 'a demonstration of WordPress 6.8, which pins the hash of its administrator',
    hashes: [['$wp$2y$10$Q1xinFjrZeLWJBvxviIL6u834Fu.evIEFHAUVisQ5O.w9Dm0sMdES', 'bcrypt 10']],
  },
  {
    password: 'test12345',
    from: "phpass's own test program",
    hashes: [['$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0', 'phpass 11']],
  },
];

for (const { password, from, hashes } of PUBLISHED)
  test(`hashes of ${from} open for their password and no other`, async (t) => {
    for (const [text, cost] of hashes) {
      const read = readHash(text);
      t.match(read, { ok: true, value: { imported: { cost } } }, text);
      const stored = Buffer.from(read.ok ? (read.value.imported?.hash ?? '') : '');
      t.equal(hasher.costOf(stored), cost);
      t.equal(await hasher.verify(stored, password), true, text);
      t.equal(await hasher.verify(stored, `${password}x`), false, text);
      t.equal(hasher.isOutdated(stored, password), true);
    }
  });

test('what other systems write is read to its end, or not at all', (t) => {
  const damaged = [
    '{bcrypt}',
    '{bcrypt}{bcrypt}$2a$10$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3.HZWzG3YB1tlRy.fqvM/BG',
    '{bcrypt@SpringSecurity_v5_9}$2a$10$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3.HZWzG3YB1tlRy.fqvM/BG',
    '{noop}password',
    '{sha256}97cde38028ad898ebc02e690819fa220e88c62e0699403e94fff291cfffaf8410849f27605abcbc0',
    `{pbkdf2}${'0'.repeat(81)}`,
    `{pbkdf2}${'0'.repeat(88)}`,
    `{pbkdf2}${'A'.repeat(80)}`,
    '{scrypt}$e0801$c2FsdA==$',
    '{scrypt}$801$c2FsdA==$OAOec05+bXxvuu/1qZ6NUR+xQYvYv7BeL1QxwRpY5Pc=',
    // ASP.NET: version 2, an unknown digest, a salt longer than the rest, cut off.
    'AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggHIVY0sdEUfdyeM+E1LtH1uJg==',
    'AQAAAAMAAAD6AAAAEAhftMyfTJylOlZT+eEotFXd1elee8ih5WsjXaR3PA9M',
    'AQAAAAAAAAD6AQAAEAhftMyfTJylOlZT+eEotFXd1elee8ih5WsjXaR3PA9M',
    'AQAAAAAAAAD6AAAAEAhf',
    'AQAAAAAA',
    // Firebase: a signer key of another length than the hash, no signer key, another version.
    `$fbscrypt$v=1,n=14,r=8,p=1,sk=${'A'.repeat(40)}$42xEC+ixf3L2lw==$${'A'.repeat(88)}`,
    `$fbscrypt$v=1,n=14,r=8,p=1$42xEC+ixf3L2lw==$${'A'.repeat(88)}`,
    `$fbscrypt$v=2,n=14,r=8,p=1,sk=${'A'.repeat(88)}$42xEC+ixf3L2lw==$${'A'.repeat(88)}`,
    '{SSHA}',
    '{SSHA}qZk+NkcGgWq6PiVxeFDCbJzQ2J0=',
    '{SSHA384}qZk+NkcGgWq6PiVxeFDCbJzQ2J0AAAAA',
    '$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L',
    '$wp$P$9IQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0',
    'bcrypt_sha256$2b$04$LJ/MSOxR0Mr0CPsqQw69VOtcXKQXKBos2DH4BPraGYlgNv5JvjvI.',
    'bcrypt$bcrypt$$2b$04$LJ/MSOxR0Mr0CPsqQw69VOtcXKQXKBos2DH4BPraGYlgNv5JvjvI.',
  ];
  for (const text of damaged) t.match(readHash(text), { ok: false, message: /formats/ }, text);
  for (const value of [7, true]) t.match(readHash(value), { ok: false, message: /formats/ });
  for (const value of [[], {}]) t.match(readHash(value), { ok: false, message: /Keycloak/ });
  t.match(readHash(undefined), { ok: false, message: 'is required' });
  t.match(readHash('$P$TIQRaTwmfeRo7ud9Fh4E2PdI0S3r.L0'), { ok: false, message: /many seconds/ });
  t.end();
});

test('without a hash, the account gets one that no password opens', async (t) => {
  for (const none of [null, '!', '!kAVi5UqI3WqfTZBOQLaLMeZK8MBKoQv6rNrWtEjQ']) {
    const read = readHash(none);
    t.ok(read.ok && read.value.imported === undefined, String(none));
    const stored = read.ok ? read.value.passwordHash : new Uint8Array();
    t.equal(hasher.costOf(stored), hasher.cost, 'at the cost of any other');
    for (const password of ['', '!', String(none)]) t.equal(await hasher.verify(stored, password), false);
  }
});
