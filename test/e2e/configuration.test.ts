import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import { testDatabase } from '../support/postgres.ts';
import { failedStart, ready, startService } from '../support/service.ts';
import { until } from '../support/until.ts';

test('a bad configuration ends the start with every problem, exit code 1 and no stack', async (t) => {
  const { code, stdout, stderr } = await failedStart(t, {
    PORT: '70000',
    DATABASE_URL: 'mysql://ada:hunter2@localhost/x',
    REDIS_URL: 'hunter2',
    REFRESH_TOKEN_SECRET: 'hunter2',
    SIGNING_KEYS_DIR: '/nowhere',
    TRUST_PROXY: 'everybody',
    LOG_LEVEL: 'loud',
    RATE_LIMIT_LOGIN: 'many',
    ISSUER_FILE: '/nowhere/issuer',
  });
  t.equal(code, 1);
  t.equal(stdout, '');
  const names = [
    'PORT',
    'DATABASE_URL',
    'REDIS_URL',
    'REFRESH_TOKEN_SECRET',
    'SIGNING_KEYS_DIR',
    'TRUST_PROXY',
  ];
  for (const name of [...names, 'LOG_LEVEL', 'RATE_LIMIT_LOGIN', 'ISSUER_FILE']) t.match(stderr, `- ${name}`);
  t.notMatch(stderr, /^\s+at /m, 'no stack');
  t.notMatch(stderr, 'hunter2', 'no secret');
});

test('production refuses what is missing or weak', async (t) => {
  const { code, stderr } = await failedStart(t, { NODE_ENV: 'production', SCRYPT_LOG_N: '13' });
  t.equal(code, 1);
  for (const name of ['DATABASE_URL', 'REDIS_URL', 'SIGNING_KEYS_DIR', 'REFRESH_TOKEN_SECRET', 'ISSUER']) {
    t.match(stderr, `- ${name} is required in production`);
  }
  t.match(stderr, /SCRYPT_LOG_N.*OWASP/);
});

test('a port that is taken ends the start in one line', async (t) => {
  const { url } = await testDatabase(t);
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.teardown(() => taken.close());
  const port = String((taken.address() as AddressInfo).port);
  for (const name of ['PORT', 'OPS_PORT']) {
    const { code, stderr } = await failedStart(t, { DATABASE_URL: url, [name]: port });
    t.equal(code, 1);
    t.match(stderr, /^cannot listen: .*EADDRINUSE.*\n$/);
  }
});

test('a signing key that cannot be used ends the start in one line', async (t) => {
  const { url } = await testDatabase(t);
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-e2e-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  mkdirSync(join(folder, 'keys/2027.pem'), { recursive: true });
  const { code, stderr } = await failedStart(t, { DATABASE_URL: url, DATA_DIR: folder });
  t.equal(code, 1);
  t.equal(stderr, 'the signing keys cannot be used: 2027.pem cannot be read (EISDIR)\n');
});

test('a data folder that cannot be used ends the start in one line', async (t) => {
  const { url } = await testDatabase(t);
  const folder = mkdtempSync(join(tmpdir(), 'latchkey-e2e-'));
  t.teardown(() => {
    rmSync(folder, { recursive: true });
  });
  const file = join(folder, 'file');
  writeFileSync(file, '');
  for (const env of [{}, { DATABASE_URL: url }]) {
    const { code, stderr } = await failedStart(t, { ...env, DATA_DIR: join(file, 'data') });
    t.equal(code, 1);
    t.match(stderr, 'file/data');
    t.notMatch(stderr, /^\s+at /m, 'no stack');
  }
});

test('a forwarded address from a peer that is not listed is warned about once', async (t) => {
  const { url } = await testDatabase(t);
  const service = await startService(t, { DATABASE_URL: url });
  await ready(service);
  const warnings = () =>
    service
      .log()
      .split('\n')
      .filter((line) => line.includes('TRUST_PROXY'));
  for (let i = 0; i < 3; i++) {
    await fetch(`${service.url}/api/auth`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'x-forwarded-for': '192.0.2.1',
        'x-request-id': `r${i}`,
      },
      body: JSON.stringify({ username: 'nobody', password: 'x' }),
    });
  }
  await until(() => service.log().includes('"reqId":"r2"'));
  t.equal(warnings().length, 1);
  t.notMatch(service.log(), '192.0.2.1');
});
