import fc from 'fast-check';
import { test } from 'tap';
import {
  codeOf,
  fromBase32,
  otpauthUri,
  readCode,
  stepOf,
  toBase32,
} from '../../../src/domain/factors/totp.ts';

const SECRET = Buffer.from('12345678901234567890');

test('codes are those of RFC 6238, appendix B, and RFC 4226, appendix D', (t) => {
  const at: [seconds: number, code: string][] = [
    [59, '287082'],
    [1111111109, '081804'],
    [1111111111, '050471'],
    [1234567890, '005924'],
    [2000000000, '279037'],
    [20000000000, '353130'],
  ];
  for (const [seconds, code] of at) {
    t.equal(codeOf(SECRET, Math.floor(seconds / 30)), code);
    t.equal(stepOf(SECRET, code, seconds * 1000), Math.floor(seconds / 30));
  }
  const first = Array.from({ length: 10 }, (_, step) => codeOf(SECRET, step));
  const expected = '755224 287082 359152 969429 338314 254676 287922 162583 399871 520489';
  t.equal(first.join(' '), expected);
  t.end();
});

test('a code is good one step early or late, and in no other form', (t) => {
  const now = 100 * 30_000 + 12_345;
  for (const step of [99, 100, 101]) t.equal(stepOf(SECRET, codeOf(SECRET, step), now), step);
  for (const step of [0, 98, 102]) t.equal(stepOf(SECRET, codeOf(SECRET, step), now), null);
  const code = codeOf(SECRET, 100);
  const fullWidth = code.replace(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)));
  for (const other of [`${code}0`, `0${code}`, code.slice(1), ` ${code}`, fullWidth, '', '\0'.repeat(6)])
    t.equal(stepOf(SECRET, other, now), null, other);
  t.end();
});

test('base32 is that of RFC 4648, section 10, without padding, and is read as people copy it', (t) => {
  const vectors = {
    '': '',
    f: 'MY',
    fo: 'MZXQ',
    foo: 'MZXW6',
    foob: 'MZXW6YQ',
    fooba: 'MZXW6YTB',
    foobar: 'MZXW6YTBOI',
  };
  for (const [text, encoded] of Object.entries(vectors)) {
    t.equal(toBase32(Buffer.from(text)), encoded);
    t.equal(fromBase32(encoded)?.toString(), text);
    t.equal(fromBase32(encoded.padEnd(Math.ceil(encoded.length / 8) * 8, '='))?.toString(), text);
  }
  t.equal(fromBase32('mzxw 6ytb-OI')?.toString(), 'foobar');
  for (const text of ['MZXW1', 'MZXW8', 'M=Y', 'MZXW6YTBOIA', 'M', 'ＭＹ', 'MY\n'])
    t.equal(fromBase32(text), null, text);
  t.equal(fromBase32(`${'='.repeat(2 ** 20)}A`), null, 'in linear time');
  t.end();
});

/** What people type or paste between the digits of a code, by its name in Unicode. */
const SEPARATORS = {
  space: ' ',
  'no-break space': '\u00a0',
  'narrow no-break space': '\u202f',
  'ideographic space': '\u3000',
  tab: '\t',
  'line break': '\r\n',
  hyphen: '-',
  'non-breaking hyphen': '\u2011',
  'en dash': '\u2013',
  'em dash': '\u2014',
  'fullwidth hyphen': '\uff0d',
  'minus sign': '\u2212',
  'zero width space': '\u200b',
  'byte order mark': '\ufeff',
  'left-to-right mark': '\u200e',
  'soft hyphen': '\u00ad',
  'word joiner': '\u2060',
  'variation selector': '\ufe0f',
  NUL: '\0',
};

/** Every system of decimal digits that Node knows: ten of one block each. */
const DIGITS = Intl.supportedValuesOf('numberingSystem')
  .map((numberingSystem) =>
    Array.from({ length: 10 }, (_, n) => new Intl.NumberFormat('en', { numberingSystem }).format(n)),
  )
  .filter((digits) => digits.every((digit) => /^\p{Nd}$/u.test(digit)));

test('a code is read without what separates its digits', (t) => {
  for (const [name, separator] of Object.entries(SEPARATORS))
    for (const typed of [
      `287${separator}082`,
      `${separator}287082${separator}`,
      '287082'.split('').join(separator),
    ])
      t.strictSame(readCode(typed), { ok: true, value: '287082' }, name);
  t.strictSame(readCode('287082'.padEnd(128)), { ok: true, value: '287082' });
  t.end();
});

test('a code is read in the digits of every script, and of several in one', (t) => {
  t.ok(DIGITS.length > 50, `${DIGITS.length} scripts`);
  for (const digits of DIGITS)
    for (const code of ['012345', '678901'])
      t.strictSame(readCode(code.replace(/\d/g, (digit) => digits[Number(digit)] ?? '')), {
        ok: true,
        value: code,
      });
  t.strictSame(readCode('\u0662\u0968\uff17082'), { ok: true, value: '227082' });
  t.end();
});

test('what is no code of six digits is refused as such', (t) => {
  const none = [
    '',
    ' ',
    '28708',
    '2870820',
    '28708200',
    '\u00b2\u2088\u2466082',
    '28708x',
    '287.082',
    '+287082',
    '1e5000',
  ];
  for (const text of [
    ...none,
    '287082'.padEnd(129),
    '1'.repeat(10_000),
    '\ud835'.repeat(6),
    'MFRG-GZDF-MZTW-Q2LK-NNWG-2ZLB',
  ])
    t.match(
      readCode(text),
      { ok: false, code: 'format', message: 'must be the 6 digits that the app shows' },
      text,
    );
  t.end();
});

test('an app gets the secret, and whose it is', (t) => {
  const uri = otpauthUri(SECRET, 'Example & Co', 'zoë:100%');
  t.equal(
    uri,
    'otpauth://totp/Example%20%26%20Co:zo%C3%AB.100%25?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Example%20%26%20Co&algorithm=SHA1&digits=6&period=30',
  );
  t.end();
});

test('the URI has the Key URI format, and the phone reads it back, for every name', (t) => {
  const issuers = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 64 })
    .filter((text) => !text.includes(':'));
  const usernames = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 64 });
  // https://github.com/google/google-authenticator/wiki/Key-Uri-Format: neither part of the label holds a colon.
  const part = "(?:[A-Za-z0-9_.!~*'()-]|%(?!3A)[0-9A-F]{2})+";
  const grammar = new RegExp(
    `^otpauth://totp/${part}:${part}\\?secret=[A-Z2-7]{32}&issuer=${part}&algorithm=SHA1&digits=6&period=30$`,
  );
  fc.assert(
    fc.property(issuers, usernames, (issuer, username) => {
      const uri = otpauthUri(SECRET, issuer, username);
      t.match(uri, grammar);
      const [, labelled = '', account = ''] = /^otpauth:\/\/totp\/([^:]+):([^?]+)/.exec(uri) ?? [];
      return (
        decodeURIComponent(labelled) === issuer &&
        decodeURIComponent(account) === username.replaceAll(':', '.') &&
        new URL(uri).searchParams.get('issuer') === issuer
      );
    }),
  );
  t.end();
});
