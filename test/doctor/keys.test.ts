import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { checkKeys } from '../../src/doctor/keys.ts';
import { aConfig, byCheck } from '../support/doctor.ts';
import { aSecret, KEYS } from '../support/keys.ts';

const DAY = 86_400_000;

/** A folder with two signing keys and a refresh secret, `days` old; nobody else may read them. */
function keys(t: Test, days: number) {
  const folder = mkdtempSync(join(tmpdir(), 'lk-doctor-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
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

test('keys as they should be', (t) => {
  t.match(keys(t, 12).findings(), {
    'signing keys': [
      { state: 'ok', found: /^2 in .*; 0002\.pem, the highest by name \(EdDSA\), is 12 days old/ },
    ],
    'refresh token secret': [{ state: 'ok', found: 'its file is 12 days old' }],
    'files with secrets': [{ state: 'ok', found: /^3, which others/ }],
  });
  t.end();
});

test('keys that are old: the highest by name counts', (t) => {
  const { signing, secret, findings } = keys(t, 400);
  t.match(findings(), {
    'signing keys': [{ state: 'warn', found: /400 days/ }],
    'refresh token secret': [{ state: 'warn', found: /400 days/ }],
  });
  for (const file of [signing, secret]) utimesSync(file, new Date(), new Date());
  t.match(findings(), { 'signing keys': [{ state: 'ok' }], 'refresh token secret': [{ state: 'ok' }] });
  t.end();
});

test('a date in the name counts, whenever the file was written', (t) => {
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

test('what a mounted Secret was written at says nothing of its age', (t) => {
  const { env, findings } = keys(t, 400);
  mkdirSync(join(env.SIGNING_KEYS_DIR, '..data'));
  t.match(findings(), {
    'signing keys': [{ state: 'ok', found: /cannot be told/ }],
    'refresh token secret': [{ state: 'ok', found: /cannot be told/ }],
  });
  writeFileSync(join(env.SIGNING_KEYS_DIR, '2020-01-01.pem'), KEYS.ES256(), { mode: 0o600 });
  t.match(findings(), { 'signing keys': [{ state: 'warn', found: /days old by its file's name/ }] });
  t.end();
});

test('files that others may read or change', (t) => {
  const { old, secret, findings } = keys(t, 1);
  const files = (state: string, file: string) => ({
    'files with secrets': [{ state, found: new RegExp(file) }],
  });
  chmodSync(old, 0o640);
  t.match(findings(), { 'files with secrets': [{ state: 'ok' }] }, 'a group may be ours alone');
  chmodSync(old, 0o604);
  t.match(findings(), files('warn', old));
  chmodSync(secret, 0o620);
  t.match(findings(), files('fail', secret));
  chmodSync(secret, 0o600);
  chmodSync(old, 0o600);
  // Whatever is given as a file counts, but for certificates.
  const url = join(tmpdir(), `lk-doctor-url-${process.pid}`);
  writeFileSync(url, 'redis://ada:sesame@127.0.0.1:6379');
  t.teardown(() => {
    rmSync(url);
  });
  chmodSync(url, 0o644);
  t.match(findings({ REDIS_URL_FILE: url }), files('warn', url));
  t.notMatch(JSON.stringify(findings({ REDIS_URL_FILE: url })), /sesame/);
  t.end();
});

test('keys that are not there yet are not made', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'lk-doctor-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
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

test('a secret given as a variable has no age', (t) => {
  const config = aConfig({ REFRESH_TOKEN_SECRET: aSecret(), DATA_DIR: '/nonexistent' });
  t.match(byCheck(checkKeys(config, {}, Date.now())), {
    'refresh token secret': [{ state: 'ok', found: /cannot be told/ }],
  });
  t.end();
});
