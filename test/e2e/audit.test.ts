import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'tap';
import { assertDocumented } from '../support/audit-schema.ts';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { bareEnvironment } from '../support/environment.ts';
import { logLines } from '../support/log-lines.ts';
import { testDatabase } from '../support/postgres.ts';
import { failedStart, readyService, type Service } from '../support/service.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const OWNER = '192.0.2.10';
const THIEF = '198.51.100.66';
const CLI = new URL('../../src/cli.js', import.meta.url).pathname;
const run = promisify(execFile);

function send(
  { url }: Service,
  line: string,
  address: string,
  options: { token?: string; body?: object } = {},
) {
  const [method = '', path = ''] = line.split(' ');
  return fetch(url + path, {
    method,
    headers: {
      'content-type': 'application/json',
      'x-forwarded-for': address,
      ...(options.token && bearer(options.token)),
    },
    ...(options.body && { body: JSON.stringify(options.body) }),
  });
}

/** The shell blocks of the runbook's entry about theft. */
function theftCommands(): string[] {
  const entry = readFileSync('docs/runbook.md', 'utf8')
    .split('### LatchkeyReuseSpike')[1]
    ?.split('\n### ')[0];
  return [...(entry ?? '').matchAll(/^```sh\n(.*?)^```/gms)].map(([, block = '']) => block);
}

test('the runbook leads from a theft to both addresses and the user, by the audit trail alone', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const folder = t.testdir({});
  const AUDIT = join(folder, 'audit.jsonl');
  const service = await readyService(t, {
    DATABASE_URL,
    AUDIT_LOG: `file:${AUDIT}`,
    LOG_LEVEL: 'info',
    TRUST_PROXY: 'loopback',
    REFRESH_RETRY_WINDOW: '0',
  });
  const bystander = await send(service, 'POST /api/auth/signup', '192.0.2.200', { body: anAccount() });
  t.equal(bystander.status, 200);
  const account = anAccount();
  await send(service, 'POST /api/auth/signup', OWNER, { body: account });
  const { username, password } = account;
  const login = await send(service, 'POST /api/auth', OWNER, { body: { username, password } });
  const stolen = (await login.json()) as Pair;
  const refreshed = await send(service, 'GET /api/auth/refresh', OWNER, { token: stolen.refresh_token });
  const owners = (await refreshed.json()) as Pair;
  t.equal((await send(service, 'GET /api/auth/verify', OWNER, { token: owners.access_token })).status, 200);
  const theft = await send(service, 'GET /api/auth/refresh', THIEF, { token: stolen.refresh_token });
  t.match(await theft.json(), { code: 'token_reused' });

  // The operator has the audit trail, and the commands of the runbook.
  const bin = join(folder, 'bin');
  mkdirSync(bin);
  writeFileSync(join(bin, 'npx'), `#!/bin/sh\nshift\nexec "${process.execPath}" "${CLI}" "$@"\n`);
  chmodSync(join(bin, 'npx'), 0o755);
  const shell = async (block: string, env: Record<string, string> = {}) => {
    const PATH = `${bin}:${process.env.PATH ?? ''}`;
    const options = { env: bareEnvironment({ DATABASE_URL, AUDIT, ...env, PATH }) };
    return (await run('sh', ['-eu', '-c', block], options)).stdout;
  };
  const [findThefts = '', investigate = ''] = theftCommands();
  await until(() => readFileSync(AUDIT, 'utf8').includes('session.reuse_detected'));
  const [found, ...others] = logLines(await shell(findThefts));
  t.strictSame(others, []);
  t.match(found, { event: 'session.reuse_detected', address: THIEF });
  const output = await shell(investigate, {
    SESSION: String(found?.token_id),
    USER_ID: String((found?.subject as { user_id?: number } | undefined)?.user_id),
    ADDRESS: String(found?.address),
  });
  const lines = logLines(output);
  assertDocumented(t, lines);
  const opened = lines.find(
    ({ event, token_id: id }) => event === 'session.created' && id === found?.token_id,
  );
  t.match(opened, { address: OWNER, actor: { type: 'user', user_id: stolen.user.id } });
  t.strictSame(new Set(lines.map(({ address }) => address)), new Set([OWNER, THIEF]));
  t.notOk(output.includes('192.0.2.200'), 'of other users nothing is shown');
  t.match(output, new RegExp(`^${String(found?.token_id)} .*: reuse$`, 'm'), 'the token list names the end');
});

test('the trail goes to standard output at any LOG_LEVEL, and a reader that is gone refuses no request', async (t) => {
  const service = await readyService(t, { LOG_LEVEL: 'info' });
  const level = await fetch(`${service.opsUrl}/log-level/warn`, { method: 'PUT' });
  t.equal(level.status, 200);
  t.equal((await send(service, 'POST /api/auth/signup', OWNER, { body: anAccount() })).status, 200);
  const trail = () => logLines(service.log()).filter(({ log }) => log === 'audit');
  await until(() => trail().length > 0);
  assertDocumented(t, trail());
  t.match(trail(), [{ event: 'user.signed_up', address: '127.0.0.1' }]);

  service.process.stdout?.destroy();
  const failures = async () =>
    Number(
      /^latchkey_audit_write_failures_total (\d+)$/m.exec(
        await (await fetch(`${service.opsUrl}/metrics`)).text(),
      )?.[1],
    );
  await until(async () => {
    t.equal((await send(service, 'POST /api/auth/signup', OWNER, { body: anAccount() })).status, 200);
    return (await failures()) > 0;
  });
  t.equal(await service.stop(), 0);
});

test('a start with an audit file that cannot be written says what to do', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = join(t.testdir({}), 'missing', 'audit.jsonl');
  const { code, stderr } = await failedStart(t, { DATABASE_URL, AUDIT_LOG: `file:${file}` });
  t.equal(code, 1);
  t.match(stderr, /^AUDIT_LOG: cannot write file:.* \(ENOENT\): create its folder/);
  t.notMatch(stderr, /^\s+at /m, 'no stack');
});
