import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { test } from 'tap';
import { NEAREST } from '../../../src/infra/crypto/nearest-hash.ts';
import { makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';
import { CHEAP } from './cheap-formats.ts';

const COST = { logN: 4, r: 8, p: 1 };
const hasher = makePasswordHasher(COST, 28 * 1024 ** 2);
const readHash = makeReadHash(COST, 28 * 1024 ** 2);
const IMPORTING = new URL('../../../../docs/importing.md', import.meta.url);

/** What is stored for a `password_hash`; null if it is refused. */
function storedOf(value: unknown): string | null {
  const read = readHash(value);
  return read.ok ? (read.value.imported?.hash ?? null) : null;
}

/** Changes the fields that hold base64; null if there is none, or the change is none. */
function inFields(hash: string, begins: string, change: (field: string) => string): string | null {
  // bcrypt and phpass have alphabets of their own.
  if (/\$(2.|wp\$2y|P|H)\$$/.test(begins)) return null;
  const fields = /(?<=,s[sk]=)[^,$]+|(?<=^|\$)[A-Za-z0-9+/.]{6,}={0,2}(?=$|\$)/g;
  const changed = begins + hash.slice(begins.length).replace(fields, change);
  return changed === hash ? null : changed;
}

const bareOf = (field: string) => field.replace(/=+$/, '');
const isBcrypt = (begins: string) => begins.startsWith('$2');

/** A way to write a hash of this beginning; null where there is none. */
const SPELLINGS: Record<string, (hash: string, begins: string) => string | null> = {
  'in capitals': (hash, begins) => {
    const scheme = begins.replace(/[^$}]*$/, '');
    return scheme.toUpperCase() + hash.slice(scheme.length);
  },
  'in small letters': (hash, begins) => begins.toLowerCase() + hash.slice(begins.length),
  'in the alphabet for URLs': (hash, begins) =>
    inFields(hash, begins, (field) => field.replace(/[+.]/g, '-').replaceAll('/', '_')),
  'with a plus for a full stop': (hash, begins) =>
    inFields(hash, begins, (field) => field.replaceAll('.', '+')),
  'without padding': (hash, begins) => inFields(hash, begins, bareOf),
  'with padding': (hash, begins) =>
    inFields(hash, begins, (field) => bareOf(field).padEnd(Math.ceil(bareOf(field).length / 4) * 4, '=')),
  'behind {CRYPT} of LDAP': (hash, begins) => (isBcrypt(begins) ? `{CRYPT}${hash}` : null),
  'behind {BCRYPT} of LDAP': (hash, begins) => (isBcrypt(begins) ? `{BCRYPT}${hash}` : null),
  'behind {blf-crypt} of Dovecot': (hash, begins) => (isBcrypt(begins) ? `{blf-crypt}${hash}` : null),
  'behind {ARGON2} of LDAP': (hash, begins) => (begins.startsWith('$argon2') ? `{ARGON2}${hash}` : null),
};

test('every spelling of every format is stored as the one that older replicas read', async (t) => {
  let spelled = 0;
  for (const [begins, hashOf] of Object.entries(CHEAP)) {
    const hash = await hashOf('x');
    t.equal(storedOf(hash), hash, `${begins} is its own form`);
    for (const [name, spell] of Object.entries(SPELLINGS)) {
      const text = spell(hash, begins);
      if (text === null || text === hash) continue;
      spelled++;
      t.equal(storedOf(text), hash, `${begins} ${name}`);
    }
    t.equal(await hasher.verify(Buffer.from(hash), 'x'), true);
    t.equal(await hasher.verify(Buffer.from(hash), 'X'), false);
  }
  t.ok(spelled > 50, `${spelled} spellings`);
});

test('so is what Spring, ASP.NET and Keycloak write', (t) => {
  const aspNet =
    'AQAAAAEAA9CQAAAAIESkQuj2Du8Y+kbc5lcN/W/3NiAZFEm11P27nrSN5/tId+bR1SwV8CO1Jd72r4C08OLvplNlCDc3oQZ8efcW+jQ=';
  const scrypt = '$e0801$8bWJaSu2IKSn9Z9kM+TPXQ==$OAOec05+bXxvuu/1qZ6NUR+xQYvYv7BeL1QxwRpY5Pc=';
  const forUrls = (text: string) => text.replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
  const keycloak = (change: (text: string) => string) => ({
    credentialData: { hashIterations: 1, algorithm: 'pbkdf2-sha256' },
    secretData: { salt: change('c2FsdC+/'), value: change('OAOec05+bXxvuu/1qZ6NUR+xQYvYv7BeL1QxwRpY5Pc=') },
  });
  const pairs: [unknown, unknown][] = [
    [aspNet, forUrls(aspNet)],
    [`{scrypt}${scrypt}`, `{SCRYPT@springsecurity_v5_8}${forUrls(scrypt)}`],
    [`{pbkdf2}${'5d'.repeat(40)}`, `{PBKDF2}${'5d'.repeat(40)}`],
    [keycloak(String), keycloak(forUrls)],
  ];
  for (const [one, other] of pairs) {
    t.not(storedOf(one), null);
    t.equal(storedOf(other), storedOf(one), JSON.stringify(other));
  }
  t.equal(storedOf(keycloak((text) => text.replace('/', '_'))), null, 'two alphabets in one field');
  t.end();
});

test('damage of every format is refused by the nearest one, or leaves the hash as it was', async (t) => {
  for (const [begins, hashOf] of Object.entries(CHEAP)) {
    const hash = await hashOf('x');
    const mixed = hash
      .replace(/[+/.](?=[^$]*$)|.(?=.{3}$)/, '-')
      .replace(/.(?=.{5}$)/, '+')
      .replace(/.(?=.{7}$)/, '_');
    const damaged: [name: string, text: string][] = [
      ['with a line break', `${hash}\n`],
      ['with one inside', `${hash.slice(0, 12)}\n${hash.slice(12)}`],
      ['of 2,049 characters', hash + 'A'.repeat(2049 - hash.length)],
      ['with both alphabets', mixed],
      ['without salt', hash.replace(/(?<=\$)[^$]+(?=\$[^$]+$)/, '')],
      ['twice', hash + hash],
    ];
    for (const [name, text] of damaged) {
      if (name === 'without salt' && !hash.includes('$', 10)) continue;
      const read = readHash(text);
      t.match(
        read,
        { ok: false, message: /^has none of the formats that can be imported/ },
        `${begins} ${name}`,
      );
    }
    // Padding may be cut off, and then nothing is missing.
    const cut = storedOf(hash.slice(0, -1));
    t.ok(cut === null || (cut === hash && hash.endsWith('=')), `${begins} cut by one character`);
  }
});

const EXAMPLES: [value: string, whose: RegExp][] = [
  ['userPassword:: e1NTSEF9c2VjcmV0', /LDIF: .*decode it from base64/],
  ['e1NTSEF9cVprK05rY0dnV3E2UGlWeGVGRENiSnpRMkowQUFBQUE=', /LDIF/],
  ['$2y$10$dXJ3SW6G7P50lGmMkkmwe.20cQQub\nK3.HZWzG3YB1tlRy.fqvM/BG', /wrapped/],
  ['$S$DeZl1UTVyGBHSRdBJUqxxQBVMMcRZ1jJPpgSgBLoeQYFfzwqrdJf', /Drupal .*: write null/],
  ['U$S$DeZl1UTVyGBHSRdBJUqxxQBVMMcRZ1jJPpgSgBLoeQYFfzwqrdJf', /Drupal/],
  [
    '$H\\2y$9secret12$10\\dXJ3SW6G7P50lGmMkkmwe.$20cQQubK3.HZWzG3YB1tlRy.fqvM/BG',
    /phpBB, .*hash again: write null/,
  ],
  ['$CP$5ebe2294ecd0e0f08eab7690d2a6ee69', /phpBB/],
  ['$1$secretsa$oYQfUVKT9U2bWNCEyFM0Y/', /MD5 of crypt/],
  ['{CRYPT}$6$secretsalt$abc', /SHA-2 of crypt/],
  ['$y$j9T$secret$abc', /yescrypt/],
  ['$2x$10$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3.HZWzG3YB1tlRy.fqvM/BG', /before 2011/],
  ['$argon2i$m=512,t=2,p=2$c2VjcmV0c2FsdA$xTzIIGgg', /before version 1.3/],
  ['$argon2id$v=16$m=512,t=2,p=2$c2VjcmV0c2FsdA$xTzIIGgg', /before version 1.3/],
  ['3|$argon2id$v=19$m=65536,t=4,p=1$secret$secret', /Nextcloud: leave out/],
  ['{PBKDF2-SHA256}10000$secret$secret', /OpenLDAP: write/],
  [`{pbkdf2}${'0'.repeat(81)}`, /Spring Security with other lengths/],
  ['{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=', /without a salt/],
  ['{noop}secret', /without a salt/],
  ['sha1$secret$c2VjcmV0', /Django's older/],
  ['pbkdf2:sha256:600000$secret$abcdef', /Werkzeug/],
  [':pbkdf2:sha512:30000:64:secret:secret', /MediaWiki/],
  [
    'Bcrypt:$2y$10$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3.HZWzG3YB1tlRy.fqvM/BG',
    /WoltLab Suite since 5\.4: leave out/,
  ],
  [
    'DoubleBcrypt:$2a$08$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3.HZWzG3YB1tlRy.fqvM/BG',
    /WoltLab Suite, .*: write null/,
  ],
  ['vb5:5ebe2294ecd0e0f08eab7690d2a6ee69:secret', /WoltLab Suite, .*another board/],
  ['SCRAM-SHA-256$4096:c2VjcmV0c2FsdA==$secret:secret', /PostgreSQL/],
  ['md55ebe2294ecd0e0f08eab7690d2a6ee69', /PostgreSQL/],
  ['*94BDCEBE19083CE2A1F959FD02F964C7AF4CFC29', /MySQL/],
  ['5ebe2294ecd0e0f08eab7690d2a6ee69', /a salt elsewhere or none/],
  [`${'e1'.repeat(32)}:secret:1`, /a salt elsewhere or none/],
  ['AAABAgMEBQYHCAkKCwwNDg+ukCEMDf0yyQ29NYubggHIVY0sdEUfdyeM+E1LtH1uJg==', /version 2/],
  ['lSrfV15cpx95/sZS2W9c9Kp6i/LVgQNDNC/qzrCnh1SAyZvqmZqAjTdn3aoItz+VHjoZilo78198JAdRuid5lQ==', /Firebase/],
  ['$2a$10$dXJ3SW6G7P50lGmMkkmwe.20cQQubK3', /a known system, but cut off/],
];

test('a refusal names the nearest format and the remedy, without a value', (t) => {
  const named = new Set<string>();
  for (const [value, whose] of EXAMPLES) {
    const read = readHash(value);
    t.match(read, { ok: false, message: whose }, value);
    const message = read.ok ? '' : read.message;
    named.add(NEAREST.find((each) => message.includes(`${each.whose}: ${each.remedy}`))?.begins ?? '');
    t.notMatch(message, /secret/);
    for (const part of value.replace('userPassword', '').match(/[A-Za-z0-9+/]{12,}/g) ?? [])
      t.notOk(message.includes(part), value);
  }
  t.strictSame(
    NEAREST.map(({ begins }) => begins).filter((begins) => !named.has(begins)),
    [],
    'every row has an example',
  );
  for (const unknown of ['', 'x', 'pass', '$', '{', '§§§'])
    t.strictSame(
      readHash(unknown),
      { ok: false, message: 'has none of the formats that can be imported' },
      unknown,
    );
  t.end();
});

test('what is mutated ends in a refusal or in a hash that is read', (t) => {
  const rows = fc.constantFrom(...EXAMPLES.map(([value]) => value));
  fc.assert(
    fc.property(rows, fc.nat(), fc.string({ maxLength: 3 }), (value, at, text) => {
      const cut = at % (value.length + 1);
      const read = readHash(value.slice(0, cut) + text + value.slice(cut + 1));
      return read.ok || typeof read.message === 'string';
    }),
  );
  t.end();
});

/** The rows of the table below a heading, by cell. */
function tableBelow(heading: string): string[][] {
  const [, page = ''] = readFileSync(IMPORTING, 'utf8').split(`\n${heading}\n`);
  const lines = page.slice(0, page.search(/\n##/)).split('\n');
  const rows = lines.filter((line) => line.startsWith('|')).slice(2);
  return rows.map((row) =>
    row
      .slice(1, -1)
      .split(/(?<!\\)\|/)
      .map((cell) => cell.trim().replaceAll('\\|', '|')),
  );
}

test('docs/importing.md lists what is read and what is not', (t) => {
  t.strictSame(
    tableBelow('### Formats that stay out'),
    NEAREST.map(({ begins, whose, remedy }) => [begins, whose, remedy]),
  );
  const listed = tableBelow('## Formats').flatMap(([first = '']) =>
    [...first.matchAll(/`([^`]+)`/g)].map(([, each = '']) => each),
  );
  const heads = listed.map((each) => each.replace(/…$/, '').replace(/v=\d+(\$|,)$/, ''));
  for (const begins of Object.keys(CHEAP))
    t.ok(
      heads.some((head) => head.replace('$N$', '$') === begins),
      `${begins} is on the page`,
    );
  t.end();
});
