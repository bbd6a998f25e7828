import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { test } from 'tap';
import { databaseProblems } from '../../src/config/config.ts';
import { connectionOf } from '../../src/infra/postgres/connection.ts';
import { testFolder } from '../support/folder.ts';

const URL_WITH_TLS = 'postgres://latchkey:secret@db.internal/latchkey?sslmode=verify-full';
const [CA] = rootCertificates;

test('a missing file of DATABASE_URL is said to be missing', (t) => {
  const problems = databaseProblems({ DATABASE_URL: `${URL_WITH_TLS}&sslrootcert=/nowhere/ca.pem` });
  t.strictSame(problems, ['DATABASE_URL: sslrootcert=/nowhere/ca.pem cannot be read (ENOENT)']);
  t.strictSame(databaseProblems({ DATABASE_URL: URL_WITH_TLS, DATABASE_CA: CA }), []);
  t.end();
});

test('DATABASE_CA is refused where it would not be used', (t) => {
  for (const url of [
    'postgres://db.internal/latchkey',
    'postgres://db.internal/latchkey?sslmode=disable',
    'postgres://db.internal/latchkey?sslmode=no-verify',
    undefined,
  ]) {
    const problems = databaseProblems({ DATABASE_URL: url, DATABASE_CA: CA });
    t.match(problems, [/sslmode=verify-full/], url ?? 'no URL');
  }
  t.end();
});

test('a client certificate is used beside DATABASE_CA', (t) => {
  const folder = testFolder(t);
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  writeFileSync(cert, 'CERT');
  writeFileSync(key, 'KEY');
  const url = `${URL_WITH_TLS}&sslcert=${cert}&sslkey=${key}&sslnegotiation=direct&application_name=latchkey`;
  t.strictSame(connectionOf(url, CA), {
    connectionString: 'postgres://latchkey:secret@db.internal/latchkey?application_name=latchkey',
    ssl: { ca: CA, cert: 'CERT', key: 'KEY' },
    sslnegotiation: 'direct',
  });
  t.strictSame(connectionOf(url, undefined), { connectionString: url }, 'pg reads the URL itself');
  t.end();
});
