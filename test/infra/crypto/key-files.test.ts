import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { nextName, pemNames, readSigningKeys } from '../../../src/infra/crypto/key-files.ts';
import { KEYS } from '../../support/keys.ts';

const DATE = Date.parse('2026-11-21T10:00:00Z');

test('names sort without their extension', (t) => {
  const names = ['0001.pem', '2026-11-21.pem', '2026-11-21-b.pem', '2026-11-22.pem', 'README'];
  const folder = t.testdir(Object.fromEntries(names.map((name) => [name, ''])));
  t.strictSame(pemNames(folder), ['2026-11-22.pem', '2026-11-21-b.pem', '2026-11-21.pem', '0001.pem']);
  t.end();
});

test('the next name holds today’s date, and is always the highest', (t) => {
  const after = (...names: string[]) => nextName(names, DATE);
  t.equal(after(), '2026-11-21.pem');
  t.equal(after('0001.pem'), '2026-11-21.pem');
  t.equal(after('2026-11-21.pem'), '2026-11-21-b.pem');
  t.equal(after('2026-11-21-b.pem', '2026-11-21.pem'), '2026-11-21-c.pem');
  t.equal(after('20261121.pem'), '20261121-b.pem');
  t.equal(after('next.pem'), 'next-b.pem');
  t.equal(after('2026-11-21-z.pem'), '2026-11-21-z-b.pem');
  const folder = t.testdir({ '0001.pem': '' });
  for (let i = 0; i < 60; i++) {
    const name = nextName(pemNames(folder), DATE);
    writeFileSync(join(folder, name), '', { flag: 'wx' });
    t.equal(pemNames(folder)[0], name);
  }
  t.end();
});

test('a key with two names counts once, under the higher', (t) => {
  const [one, two] = [KEYS.ES256(), KEYS.EdDSA()];
  const folder = t.testdir({ 'a.pem': one, 'b.pem': two, 'c.pem': one });
  t.strictSame(
    readSigningKeys(folder).map(({ algorithm }) => algorithm),
    ['ES256', 'EdDSA'],
  );
  t.end();
});
