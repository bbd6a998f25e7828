import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { checkConfiguration, checkMemory, checkNode } from '../../src/doctor/configuration.ts';
import { generateSigningKey } from '../../src/infra/crypto/keys.ts';
import { aConfig } from '../support/doctor.ts';
import { testFolder } from '../support/folder.ts';

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
  const folder = testFolder(t);
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

const MIB = 1024 ** 2;

test('the memory of all concurrent hashes against the limit', (t) => {
  const config = aConfig({ SCRYPT_LOG_N: '17', HASH_CONCURRENCY: '2' });
  t.match(checkMemory(config, 768 * MIB), {
    state: 'ok',
    found: /^2 hashes .* 128 MiB .* 640 MiB of 768 MiB$/,
  });
  t.match(checkMemory(config, 700 * MIB), {
    state: 'warn',
    found: /640 MiB of 700 MiB$/,
    todo: /HASH_CONCURRENCY/,
  });
  t.end();
});

test('a release of Node is supported until the end of its last day', (t) => {
  const at = (time: string) => Date.parse(time);
  t.match(checkNode('24.1.0', at('2026-11-24')), {
    state: 'ok',
    found: 'Node 24.1.0 gets fixes until 2028-04-30',
  });
  t.match(checkNode('20.19.0', at('2026-04-30T23:00:00Z')), { state: 'ok' });
  t.match(checkNode('20.19.0', at('2026-05-01')), {
    state: 'warn',
    found: 'Node 20.19.0 has had no security fixes since 2026-04-30',
  });
  t.match(checkNode('99.0.0', at('2026-11-24')), { state: 'ok' }, 'newer than this release of Latchkey');
  t.end();
});
