import { test } from 'tap';
import { codeOf, fromBase32, otpauthUri, stepOf, toBase32 } from '../../../src/domain/factors/totp.ts';

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

test('an app gets the secret, and whose it is', (t) => {
  const uri = otpauthUri(SECRET, 'auth.example.com:8443', 'zoë & co');
  t.equal(
    uri,
    'otpauth://totp/auth.example.com%3A8443:zo%C3%AB%20%26%20co?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=auth.example.com%3A8443&algorithm=SHA1&digits=6&period=30',
  );
  t.end();
});
