import { test } from 'tap';
import { makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { makePasswordHasher } from '../../../src/infra/crypto/password-hasher.ts';
import { CHEAP } from './cheap-formats.ts';

const COST = { logN: 4, r: 8, p: 1 };
const hasher = makePasswordHasher(COST, 28 * 1024 ** 2);
const readHash = makeReadHash(COST, 28 * 1024 ** 2);

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
