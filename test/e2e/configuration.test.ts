import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { test } from 'tap';
import { generateSigningKey } from '../../src/infra/crypto/keys.ts';
import { goThrough } from '../support/all-operations.ts';
import { runDoctor } from '../support/doctor.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { logLines } from '../support/log-lines.ts';
import { CHANGED, HARMLESS, makeOwnRole } from '../support/own-role.ts';
import { testDatabase } from '../support/postgres.ts';
import { failedStart, startService } from '../support/service.ts';
import '../support/watch-leaks.ts';

test('a bad configuration ends the start with every problem, exit code 1 and no stack', async (t) => {
  const env = {
    PORT: '70000',
    DATABASE_URL: 'mysql://ada:hunter2@localhost/x',
    REDIS_URL: 'hunter2',
    REFRESH_TOKEN_SECRET: 'hunter2',
    SIGNING_KEYS_DIR: '/nowhere',
    TRUST_PROXY: 'everyone',
    LOG_LEVEL: 'loud',
    RATE_LIMIT_LOGIN: 'many',
    ISSUER_FILE: '/nowhere/issuer',
  };
  const { code, stdout, stderr } = await failedStart(t, env);
  t.equal(code, 1);
  t.equal(stdout, '');
  for (const name of Object.keys(env)) t.match(stderr, `- ${name}`);
  t.notMatch(stderr, /^\s+at /m, 'no stack');
  t.notMatch(stderr, 'hunter2', 'no secret');
});

test('settings of the database are changed or named, and change no answer', async (t) => {
  const { url, set } = await makeOwnRole(t);
  const env = { DATABASE_URL: url };
  await set({ ...HARMLESS, ...CHANGED });
  t.match(await latchkey(['migrate'], env), { code: 0 });
  const service = await startService(t, env);
  await goThrough(t, service);
  t.match((await runDoctor(env)).findings, {
    'database settings': [{ state: 'ok' }],
    'database commits': [{ state: 'ok' }],
  });

  await set({ session_replication_role: 'replica' });
  const mend = /session_replication_role = replica.* ALTER ROLE .* SET session_replication_role = 'origin'/;
  for (const { code, stderr } of [
    await failedStart(t, env),
    await latchkey(['purge'], env),
    await latchkey(['migrate'], env),
    await latchkey(['user', 'tokens', 'ada'], env),
  ]) {
    t.equal(code, 1);
    t.match(stderr, mend);
    t.notMatch(stderr, /^\s+at /m, 'no stack');
  }
  t.match((await runDoctor(env)).findings, { 'database settings': [{ state: 'fail', todo: /ALTER ROLE/ }] });
});

const HOLDER =
  process.platform === 'linux' ? ` by process ${process.pid} \\(.+\\)` : ' \\(.*lsof -i :\\d+.*\\)';

test('a port already in use ends the start with the setting and the process, and nothing after that', async (t) => {
  const { url } = await testDatabase(t);
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  t.teardown(() => taken.close());
  const port = String((taken.address() as AddressInfo).port);
  // The embedded database has to end without a complaint.
  for (const env of [{ PORT: port }, { OPS_PORT: port, DATABASE_URL: url }]) {
    const { code, stdout, stderr } = await failedStart(t, env);
    const [name = ''] = Object.keys(env);
    t.equal(code, 1);
    t.match(
      stderr,
      new RegExp(`^${name}: port ${port} is in use${HOLDER}: .*set ${name} to another port\n$`),
    );
    t.notMatch(stdout, /fatal/i);
  }
  await new Promise((resolve) => taken.close(resolve));
  const both = await failedStart(t, { PORT: port, OPS_PORT: port, DATABASE_URL: url });
  t.equal(both.stderr, `PORT and OPS_PORT are both ${port}: set one to another port\n`);
  const elsewhere = await failedStart(t, { HOST: '192.0.2.1', DATABASE_URL: url });
  t.equal(elsewhere.stderr, 'HOST: this machine has no address 192.0.2.1\n');
});

test('an unusable signing key ends the start in one line', async (t) => {
  const { url } = await testDatabase(t);
  const folder = testFolder(t);
  mkdirSync(join(folder, 'keys/2027.pem'), { recursive: true });
  const { code, stderr } = await failedStart(t, { DATABASE_URL: url, DATA_DIR: folder });
  t.equal(code, 1);
  t.equal(stderr, 'the keys cannot be used: 2027.pem cannot be read (EISDIR)\n');
});

test('an unusable data folder ends the start in one line', async (t) => {
  const { url } = await testDatabase(t);
  const folder = testFolder(t);
  const file = join(folder, 'file');
  writeFileSync(file, '');
  for (const env of [{}, { DATABASE_URL: url }]) {
    const { code, stderr } = await failedStart(t, { ...env, DATA_DIR: join(file, 'data') });
    t.equal(code, 1);
    t.match(stderr, 'file/data');
    t.notMatch(stderr, /^\s+at /m, 'no stack');
  }
});

test('production without TLS warns at startup, and shows no secret', async (t) => {
  const { url } = await testDatabase(t);
  const folder = testFolder(t);
  writeFileSync(join(folder, '0001.pem'), generateSigningKey());
  const service = await startService(t, {
    NODE_ENV: 'production',
    DATABASE_URL: url,
    SCRYPT_LOG_N: '17',
    // No server listens there; the start does not need one.
    REDIS_URL: 'redis://ada:hunter2@192.0.2.1',
    SIGNING_KEYS_DIR: folder,
    REFRESH_TOKEN_SECRET: Buffer.alloc(32).toString('base64url'),
    ISSUER: 'http://auth.example.com',
  });
  const warnings = logLines(service.log()).filter(({ msg }) => String(msg).includes('TLS'));
  t.match(warnings, [
    { level: 'warn', msg: /^REDIS_URL: .*rediss:/ },
    { level: 'warn', msg: /^ISSUER: .*https:/ },
  ]);
  t.equal(warnings.length, 2, 'PostgreSQL is on this host');
  t.notMatch(service.log(), 'hunter2');
});
