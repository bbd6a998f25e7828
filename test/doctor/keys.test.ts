import { spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rootCertificates } from 'node:tls';
import { test, type Test } from 'tap';
import { checkKeys } from '../../src/doctor/keys.ts';
import { aConfig, byCheck } from '../support/doctor.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { toolsMissing } from '../support/tools.ts';

const DAY = 86_400_000;

/** A folder with two signing keys and a refresh secret, `days` old, readable only by their owner. */
function keys(t: Test, days: number) {
  const folder = testFolder(t);
  const files = {
    old: join(folder, '0001.pem'),
    signing: join(folder, '0002.pem'),
    secret: join(folder, 'secret'),
  };
  writeFileSync(files.old, KEYS.ES256());
  writeFileSync(files.signing, KEYS.EdDSA());
  writeFileSync(files.secret, aSecret());
  const date = new Date(Date.now() - days * DAY);
  for (const file of Object.values(files)) {
    chmodSync(file, 0o600);
    utimesSync(file, date, date);
  }
  const env = { SIGNING_KEYS_DIR: folder, REFRESH_TOKEN_SECRET_FILE: files.secret };
  return {
    ...files,
    env,
    findings: (more = {}) =>
      byCheck(checkKeys(aConfig({ ...env, ...more }), { ...env, ...more }, Date.now())),
  };
}

test('healthy keys', (t) => {
  t.match(keys(t, 12).findings(), {
    'signing keys': [
      { state: 'ok', found: /^2 in .*; 0002\.pem, the highest by name \(EdDSA\), is 12 days old/ },
    ],
    'refresh token secret': [{ state: 'ok', found: 'its file is 12 days old' }],
    'files with secrets': [{ state: 'ok', found: /^3, which other users/ }],
  });
  t.end();
});

test('old keys: the highest name counts', (t) => {
  const { signing, secret, findings } = keys(t, 400);
  t.match(findings(), {
    'signing keys': [{ state: 'warn', found: /400 days/ }],
    'refresh token secret': [{ state: 'warn', found: /400 days/ }],
  });
  for (const file of [signing, secret]) utimesSync(file, new Date(), new Date());
  t.match(findings(), { 'signing keys': [{ state: 'ok' }], 'refresh token secret': [{ state: 'ok' }] });
  t.end();
});

test('a date in the file name takes precedence over the file’s own time', (t) => {
  const { env, findings } = keys(t, 1);
  const named = (days: number) => `${new Date(Date.now() - days * DAY).toISOString().slice(0, 10)}.pem`;
  for (const days of [400, 30]) {
    writeFileSync(join(env.SIGNING_KEYS_DIR, named(days)), KEYS.ES256(), { mode: 0o600 });
    const state = days > 365 ? 'warn' : 'ok';
    t.match(findings(), {
      'signing keys': [{ state, found: new RegExp(`\\(ES256\\), is ${days} days old by its file's name`) }],
    });
  }
  t.end();
});

test('the mtime of a mounted Secret does not show the secret’s age', (t) => {
  const { env, findings } = keys(t, 400);
  mkdirSync(join(env.SIGNING_KEYS_DIR, '..data'));
  t.match(findings(), {
    'signing keys': [{ state: 'ok', found: /unknown/ }],
    'refresh token secret': [{ state: 'ok', found: /unknown/ }],
  });
  writeFileSync(join(env.SIGNING_KEYS_DIR, '2020-01-01.pem'), KEYS.ES256(), { mode: 0o600 });
  t.match(findings(), { 'signing keys': [{ state: 'warn', found: /days old by its file's name/ }] });
  t.end();
});

test('files that others may read or write', (t) => {
  const { old, secret, findings } = keys(t, 1);
  const files = (state: string, file: string) => ({
    'files with secrets': [{ state, found: new RegExp(file) }],
  });
  chmodSync(old, 0o640);
  t.match(findings(), { 'files with secrets': [{ state: 'ok' }] }, 'the group may be ours alone');
  chmodSync(old, 0o604);
  t.match(findings(), files('warn', old));
  chmodSync(secret, 0o620);
  t.match(findings(), files('fail', secret));
  chmodSync(secret, 0o600);
  chmodSync(old, 0o600);
  // Every variable given as a file counts, except the certificates of CAs.
  const url = join(tmpdir(), `lk-doctor-url-${process.pid}`);
  writeFileSync(url, 'redis://ada:sesame@127.0.0.1:6379');
  t.teardown(() => {
    rmSync(url);
  });
  chmodSync(url, 0o644);
  t.match(findings({ REDIS_URL_FILE: url }), files('warn', url));
  t.notMatch(JSON.stringify(findings({ REDIS_URL_FILE: url })), /sesame/);
  writeFileSync(url, rootCertificates[0] ?? '');
  for (const authority of [
    { REDIS_CA_FILE: url, REDIS_URL: 'rediss://127.0.0.1' },
    { DATABASE_CA_FILE: url, DATABASE_URL: 'postgres://127.0.0.1/x?sslmode=verify-full' },
  ])
    t.match(findings(authority), { 'files with secrets': [{ state: 'ok' }] });
  t.end();
});

test(
  'the doctor accepts the files that the commands of docs/keys.md create',
  { skip: toolsMissing('bash', 'openssl') },
  (t) => {
    const folder = testFolder(t);
    const [commands = ''] = /(?<=```sh\n).*?(?=```)/s.exec(readFileSync('docs/keys.md', 'utf8')) ?? [];
    const made = spawnSync('bash', ['-euc', `umask 022\n${commands}`], { cwd: folder, encoding: 'utf8' });
    t.equal(made.status, 0, made.stderr);
    const env = {
      SIGNING_KEYS_DIR: join(folder, 'keys'),
      REFRESH_TOKEN_SECRET_FILE: join(folder, 'refresh-token-secret'),
    };
    t.match(byCheck(checkKeys(aConfig(env), env, Date.now())), {
      'signing keys': [{ state: 'ok', found: /^1 in / }],
      'refresh token secret': [{ state: 'ok' }],
      'files with secrets': [{ state: 'ok', found: /^2, which other users/ }],
    });
    t.end();
  },
);

test('the doctor does not create missing keys', (t) => {
  const folder = testFolder(t);
  const DATA_DIR = join(folder, 'data');
  const findings = () => byCheck(checkKeys(aConfig({ DATA_DIR }), {}, Date.now()));
  t.match(findings(), {
    'signing keys': [{ state: 'ok', found: /first start/ }],
    'refresh token secret': [{ state: 'ok', found: /first start/ }],
    'files with secrets': [{ state: 'ok', found: 'none' }],
  });
  t.strictSame(readdirSync(folder), []);

  mkdirSync(join(DATA_DIR, 'keys'), { recursive: true });
  writeFileSync(join(DATA_DIR, 'keys/0001.pem'), KEYS.ES256(), { mode: 0o600 });
  writeFileSync(join(DATA_DIR, 'refresh-token-secret'), aSecret(), { mode: 0o644 });
  t.match(findings(), {
    'signing keys': [{ state: 'ok', found: /^1 in / }],
    'files with secrets': [{ state: 'warn', found: /refresh-token-secret/ }],
  });
  t.end();
});

test('a secret in a variable has no age', (t) => {
  const config = aConfig({ REFRESH_TOKEN_SECRET: aSecret(), DATA_DIR: '/nonexistent' });
  t.match(byCheck(checkKeys(config, {}, Date.now())), {
    'refresh token secret': [{ state: 'ok', found: /unknown/ }],
  });
  t.end();
});
