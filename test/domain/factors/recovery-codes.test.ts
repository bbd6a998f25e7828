import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { hashRecoveryCode, newRecoveryCodes } from '../../../src/domain/factors/recovery-codes.ts';

test('ten codes of 120 bits, in groups of four', (t) => {
  const codes = newRecoveryCodes(randomBytes);
  t.equal(codes.length, 10);
  for (const code of codes) t.match(code, /^[A-Z2-7]{4}(-[A-Z2-7]{4}){5}$/);
  const hashes = new Set(codes.map((code) => hashRecoveryCode(code)?.toString('hex')));
  t.equal(hashes.size, 10, 'each with a hash of its own');
  t.end();
});

test('case, separators and scripts of digits do not count, and everything else does', (t) => {
  const [code = ''] = newRecoveryCodes(randomBytes);
  const hash = hashRecoveryCode(code);
  t.equal(hash?.length, 32);
  const plain = code.replaceAll('-', '');
  const inArabic = code.replace(/\d/g, (digit) => String.fromCodePoint(0x660 + Number(digit)));
  const dashed = code.replaceAll('-', '\u2013');
  for (const same of [
    code.toLowerCase(),
    plain,
    ` ${code.replaceAll('-', ' ')} `,
    inArabic,
    dashed,
    `\ufeff${code}\n`,
  ])
    t.strictSame(hashRecoveryCode(same), hash);
  t.strictSame(hashRecoveryCode(code.padEnd(128)), hash);
  t.equal(hashRecoveryCode(code.padEnd(129)), null, 'nobody writes it at such length');
  for (const other of ['', plain.slice(1), `${plain}A`, `${plain}AAAA`, plain.replace(/^./, '1')])
    t.equal(hashRecoveryCode(other), null, other);
  t.not(
    hashRecoveryCode(plain.replace(/^./, plain.startsWith('A') ? 'B' : 'A'))?.equals(hash ?? Buffer.alloc(0)),
    true,
  );
  t.end();
});
