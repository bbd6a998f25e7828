import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { test } from 'tap';
import { NEAREST } from '../../../src/infra/crypto/nearest-hash.ts';
import { makeReadHash } from '../../../src/infra/crypto/new-stored-hash.ts';
import { CHEAP } from './cheap-formats.ts';

const readHash = makeReadHash({ logN: 4, r: 8, p: 1 }, 28 * 1024 ** 2);
const IMPORTING = new URL('../../../../docs/importing.md', import.meta.url);

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
  ['{PBKDF2}$1$secretsalt$5000$0123', /Dovecot/],
  ['{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=', /without a salt/],
  ['{noop}secret', /without a salt/],
  ['{SSHA256.hex}secret', /Dovecot/],
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
