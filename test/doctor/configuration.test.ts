import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import { checkConfiguration } from '../../src/doctor/configuration.ts';
import { generateSigningKey } from '../../src/infra/crypto/keys.ts';

test('every problem is a finding, without the value', (t) => {
  const { config, findings } = checkConfiguration({ PORT: 'sesame', REDIS_URL: 'http://ada:sesame@host' });
  t.equal(config, null);
  t.match(findings, [
    { state: 'fail', found: /^PORT must be/ },
    { state: 'fail', found: /^REDIS_URL must be/ },
  ]);
  t.notMatch(JSON.stringify(findings), /sesame/);
  t.end();
});

test('names the embedded stores', (t) => {
  const { config, findings } = checkConfiguration({ SCRYPT_LOG_N: '4' });
  t.not(config, null);
  t.match(findings[0], { state: 'warn', found: /embedded PostgreSQL.*in-process.*signing keys.*secret/ });
  t.end();
});

test('warns if the drain leaves no time for requests', (t) => {
  const drain = (env: Record<string, string>) =>
    checkConfiguration({ SCRYPT_LOG_N: '4', ...env }).findings.find(({ check }) => check === 'drain')?.state;
  t.equal(drain({}), 'ok');
  t.equal(drain({ DRAIN_DELAY: '25', SHUTDOWN_TIMEOUT: '25' }), 'warn');
  t.end();
});

test('warns about production without TLS, once per variable', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-doctor-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  writeFileSync(join(folder, '0001.pem'), generateSigningKey());
  const { findings } = checkConfiguration({
    NODE_ENV: 'production',
    DATABASE_URL: 'postgres://ada:sesame@db.internal/latchkey',
    REDIS_URL: 'redis://ada:sesame@redis.internal',
    SIGNING_KEYS_DIR: folder,
    REFRESH_TOKEN_SECRET: Buffer.alloc(32).toString('base64url'),
    ISSUER: 'http://auth.example.com',
  });
  const transport = findings.filter(({ check }) => check === 'transport');
  t.match(transport, [
    { state: 'warn', found: /^REDIS_URL: /, todo: /rediss:/ },
    { state: 'warn', found: /^DATABASE_URL: /, todo: /sslmode=/ },
    { state: 'warn', found: /^ISSUER: /, todo: /https:/ },
  ]);
  t.equal(transport.length, 3);
  t.notMatch(JSON.stringify(findings), /sesame/);
  t.end();
});

test('warns about a proxy range that covers every address', (t) => {
  const warnings = (TRUST_PROXY: string) =>
    checkConfiguration({ SCRYPT_LOG_N: '4', TRUST_PROXY }).findings.filter(({ found }) =>
      found.startsWith('TRUST_PROXY'),
    );
  t.match(warnings('0.0.0.0/0'), [{ state: 'warn', found: /TRUST_PROXY lists 0\.0\.0\.0\/0/ }]);
  t.strictSame(warnings('loopback'), []);
  t.end();
});
