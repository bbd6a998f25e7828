import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { hostname, userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'tap';
import { EVENTS, type EventName } from '../../src/domain/audit/event.ts';
import type { Environment } from '../../src/config/config.ts';
import { assertDocumented } from '../support/audit-schema.ts';
import { buildTestApp } from '../support/app.ts';
import { anAccount, signUp } from '../support/client.ts';
import { testFolder } from '../support/folder.ts';
import { aSecret, KEYS } from '../support/keys.ts';
import { bareEnvironment } from '../support/environment.ts';
import { latchkey } from '../support/latchkey.ts';
import { logLines } from '../support/log-lines.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { testRedis } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';

const OPERATOR = { type: 'operator', name: userInfo().username, host: hostname() };
const CLI = new URL('../../src/cli.js', import.meta.url).pathname;
const UNREACHABLE = { DATABASE_URL: 'postgres://user:sesame@127.0.0.1:1/none' };

/** Why no file system can be mounted here, or false. Root may, and users of most systems within a namespace. */
const mountMissing =
  toolsMissing('bash') ||
  (spawnSync('bash', ['-c', 'unshare -rm true']).status !== 0 && 'this user may not mount a file system');

test('every command that changes something leaves one event, also if it is refused or fails', async (t) => {
  const seen = new Set<unknown>();
  const keys = t.testdir({ '2026-01-01.pem': KEYS.ES256() });
  const target = await buildTestApp(t, { env: { SIGNING_KEYS_DIR: keys } });
  target.composition.start();
  const account = anAccount();
  const { user, access_token: token } = await signUp(target, account);
  const redis = testRedis(t);
  const env = {
    DATABASE_URL: target.databaseUrl,
    REDIS_URL: redis.url,
    REDIS_PREFIX: redis.prefix,
    SIGNING_KEYS_DIR: keys,
    REFRESH_TOKEN_SECRET: aSecret(),
  };
  const run = async (line: string, vars: Environment = env, input = '') => {
    const { code, audit, stdout, stderr } = await latchkey(line.split(' '), vars, undefined, input);
    t.equal(audit.length, 1, `${line}: ${stderr}`);
    assertDocumented(t, audit);
    for (const { event } of audit) seen.add(event);
    t.match(audit, [{ actor: OPERATOR, address: null, request_id: null }], line);
    t.equal(code === 0, audit[0]?.outcome === 'success', `${line}: ${stdout}${stderr}`);
    return audit[0];
  };

  const subject = { user_id: user.id };
  t.match(await run('explain', env, token), { event: 'explain', subject, token_id: Number });
  t.match(await run(`user disable ${user.username}`), {
    event: 'user.disable',
    subject,
    details: { ended: 1, done: true },
  });
  t.match(await run(`user enable ${account.email}`), { event: 'user.enable', subject });
  t.match(await run('user disable no-such-name'), {
    outcome: 'refused',
    subject: {},
    details: { reason: 'there is no such user' },
  });
  t.match(await run('user enable --id 999999'), { outcome: 'refused', subject: { user_id: 999999 } });
  t.match(await run(`user tokens ${account.email}`), { event: 'user.tokens', subject });
  t.match(await run(`user reset ${user.username}`), {
    event: 'user.reset',
    subject,
    details: { disabled: false },
  });
  t.match(await run(`user roles ${user.username} --set admin`), {
    event: 'user.roles',
    subject,
    details: { done: true },
  });
  t.match(await run(`user show ${user.username}`), { event: 'user.show', subject });
  t.match(await run('user list'), { event: 'user.list' });
  t.match(await run(`user factors ${user.username}`), { event: 'user.factors', subject });
  t.match(await run(`user factors ${user.username} --remove --yes`), {
    event: 'user.factors_removed',
    severity: 'warn',
    subject,
    details: { removed: 0, ended: 0, done: true },
  });
  t.match(await run('factors rekey'), { event: 'factors.rekey', outcome: 'refused' });
  t.match(await run('factors rekey', { ...env, FACTOR_KEYS: aSecret() }), {
    event: 'factors.rekey',
    details: { moved: 0, left: 0 },
  });
  t.match(await run('user create grace --display-name Grace --email grace@example.org'), {
    event: 'user.create',
    subject: { user_id: Number },
  });
  const accounts = join(testFolder(t), 'accounts.jsonl');
  t.match(await run(`user export ${accounts}`), { event: 'user.export', details: { exported: 2 } });
  const renamed = readFileSync(accounts, 'utf8').replaceAll('"username":"', '"username":"new-');
  writeFileSync(accounts, renamed.replaceAll('"email":"', '"email":"new-'));
  t.match(await run(`user import ${accounts}`), { event: 'user.import', details: { imported: 2 } });
  t.match(await run('user delete new-grace --yes'), {
    event: 'user.delete',
    details: { ended: 0, done: true },
  });
  t.match(await run('user delete new-grace --yes'), { event: 'user.delete', outcome: 'refused' });
  t.match(await run('client create billing'), { subject: { client_name: 'billing', client_id: /^lkc_/ } });
  t.match(await run('client create shop --may users.read,revoke'), {
    details: { rights: 'revoke,users.read' },
  });
  t.match(await run('client allow billing users.read'), {
    subject: { client_name: 'billing', client_id: /^lkc_/ },
    details: { rights: 'users.read' },
  });
  t.match(await run('client create billing'), { outcome: 'refused', details: { reason: /exists already/ } });
  t.match(await run('client rotate billing'), { details: { step: 'add' } });
  t.match(await run('client rotate billing --again'), { details: { step: 'again' } });
  t.match(await run('client rotate billing --finish'), { details: { step: 'finish' } });
  for (const action of ['roles', 'disable', 'enable', 'end-tokens']) {
    const event = await run(`client ${action} billing${action === 'roles' ? ' reader' : ''}`);
    t.match(event, { event: `client.${action}`, subject: { client_id: /^lkc_/ } });
  }
  t.match(await run('readers forget billing'), {
    subject: { client_name: 'billing' },
    details: { forgotten: 0 },
  });
  const drilled = {
    event: 'drill',
    outcome: 'refused',
    details: { reason: /^Redis holds no mark of this database/ },
  };
  t.match(await run('drill'), drilled);
  const pair = '--issuer https://issuer.example --subject ada@example.com';
  for (const [action, keys] of [
    ['trust', false],
    ['untrust', undefined],
  ] as const)
    t.match(await run(`client ${action} billing ${pair}`), {
      event: `client.${action}`,
      subject: { client_id: /^lkc_/ },
      details: { issuer: 'https://issuer.example', subject: '[removed]', keys },
    });
  t.match(await run(`client trust billing ${pair} --jwks /none`), { details: { keys: true } });
  t.match(await run('client delete billing'), { event: 'client.delete' });
  t.match(await run('client delete ada@example.com'), { subject: { client_name: '[removed]' } });
  t.match(await run('keys add'), { event: 'keys.add', subject: { kid: String } });
  t.match(await run('keys retire 2026-01-01.pem'), { outcome: 'refused', details: { force: false } });
  t.match(await run('keys retire 2026-01-01.pem --force'), {
    subject: { kid: String },
    details: { force: true, files: '2026-01-01.pem' },
  });
  t.match(await run('migrate'), { details: { applied: 0 } });
  t.match(await run('purge'), { details: { purged: 0 } });
  t.match(await run('settings accept --retire invented'), { event: 'settings.accept', outcome: 'refused' });
  t.match(await run('recover --end-all --yes'), { details: { end_all: true, tokens: 0 } });
  t.match(await run('purge', UNREACHABLE), {
    outcome: 'failed',
    details: { reason: 'AuthError unavailable' },
  });
  t.match(await run('migrate --wait 0', UNREACHABLE), { outcome: 'failed', details: { reason: String } });

  const names = (Object.keys(EVENTS) as EventName[]).filter((name) => EVENTS[name].actor === 'operator');
  t.strictSame([...seen].sort(), names.sort());
});

test('commands that only show settings, and wrong arguments, leave no event', async (t) => {
  for (const line of ['client list', 'keys list', 'purge --frobnicate', 'user disable']) {
    const { code, audit } = await latchkey(line.split(' '), UNREACHABLE);
    t.not(code, 0, line);
    t.strictSame(audit, [], line);
  }
});

test('a command that a signal ends tells what it has changed', async (t) => {
  // No replica confirms that the tokens are refused, so the command waits.
  const target = await buildTestApp(t);
  const { databaseUrl } = target;
  const { user } = await signUp(target);
  const file = join(t.testdir({}), 'audit.jsonl');
  const child = spawn(process.execPath, [CLI, 'user', 'disable', user.username], {
    env: bareEnvironment({ DATABASE_URL: databaseUrl, AUDIT_LOG: `file:${file}` }),
    stdio: 'ignore',
  });
  const ended = once(child, 'exit');
  // It looks for pending tokens again and again once it has disabled the user.
  await withClient(databaseUrl, (client) =>
    until(async () => {
      const { rowCount } = await client.query(
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pending%' AND state = 'idle' AND pid <> pg_backend_pid()",
      );
      return rowCount === 1;
    }),
  );
  child.kill('SIGINT');
  t.strictSame(await ended, [130, null]);
  t.match(logLines(readFileSync(file, 'utf8')), [
    { event: 'user.disable', outcome: 'failed', subject: { user_id: user.id }, details: { ended: 1 } },
  ]);
});

test('AUDIT_LOG chooses the file, or none', async (t) => {
  const { databaseUrl: DATABASE_URL } = await buildTestApp(t);
  const file = join(t.testdir({}), 'audit.jsonl');
  writeFileSync(file, '{"log":"audit","event":"earlier"}\n');
  chmodSync(file, 0o600);
  const to = (AUDIT_LOG: string) => latchkey(['purge'], { DATABASE_URL, AUDIT_LOG });
  t.match(await to(`file:${file}`), { code: 0, audit: [], stderr: '' });
  t.match(logLines(readFileSync(file, 'utf8')), [{ event: 'earlier' }, { event: 'purge', actor: OPERATOR }]);
  t.match(await to('none'), { code: 0, audit: [], stderr: '' });
  const wrong = await to('elsewhere');
  t.match(wrong, { code: 1, stderr: /AUDIT_LOG must be stdout, none or file:PATH/ });
});

test('LATCHKEY_OPERATOR names the actor, and a wrong one is refused by name', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const as = (env: Environment) => latchkey(['purge'], { DATABASE_URL, ...env });
  const name = 'Zoë, on call (oidc:z-17)';
  t.match(await as({ LATCHKEY_OPERATOR: name }), { code: 0, audit: [{ actor: { ...OPERATOR, name } }] });
  t.match(await as({ LATCHKEY_OPERATOR: '' }), { code: 0, audit: [{ actor: OPERATOR }] });
  const file = join(testFolder(t), 'operator');
  writeFileSync(file, 'x'.repeat(1024 ** 2));
  const wrong = ['two\nlines', 'a\u2028b', 'back\rspace', '\u202eada', 'x'.repeat(129), 'ada@example.com'];
  for (const env of [
    ...wrong.map((each) => ({ LATCHKEY_OPERATOR: each })),
    { LATCHKEY_OPERATOR_FILE: file },
  ]) {
    const { code, audit, stderr } = await as(env);
    t.match({ code, audit }, { code: 1, audit: [] });
    t.match(
      stderr,
      /^The configuration.*\n {2}- LATCHKEY_OPERATOR must be 1 to 128 characters, [^\n]{1,80}\n$/,
    );
  }
});

test('a command whose event cannot be written changes nothing', { skip: mountMissing }, async (t) => {
  const target = await buildTestApp(t);
  const { databaseUrl: DATABASE_URL } = target;
  const { user } = await signUp(target);
  const folder = testFolder(t);
  const disable = ['user', 'disable', user.username];
  const refused = await latchkey(disable, { DATABASE_URL, AUDIT_LOG: `file:${folder}/none/audit.jsonl` });
  t.match(refused, { code: 1, stdout: '' });
  t.match(refused.stderr, /^AUDIT_LOG: .* cannot be written to file:.* \(ENOENT\), so nothing was changed: /);

  // A disk of one block, which is in use.
  const script = 'mount -t tmpfs -o size=4k none "$0" && echo "{}" >"$0/audit.jsonl" && exec "$@"';
  const inside = [
    '-c',
    'exec unshare -rm sh -c "$@"',
    'bash',
    script,
    folder,
    process.execPath,
    CLI,
    ...disable,
  ];
  const env = bareEnvironment({ DATABASE_URL, AUDIT_LOG: `file:${folder}/audit.jsonl` });
  const full = spawnSync('bash', inside, { env, encoding: 'utf8' });
  t.match(full, {
    status: 1,
    stdout: '',
    stderr: /^AUDIT_LOG: .* \(ENOSPC\), so nothing was changed: make space/,
  });
  t.strictSame(await sql(DATABASE_URL, 'SELECT FROM users WHERE disabled_at IS NOT NULL'), []);
});

test('a command whose event is lost at its end says so, and leaves no part of it', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  // The limit of a file's size, 1 KiB, is a disk that takes 24 bytes more.
  const file = join(testFolder(t), 'audit.jsonl');
  const filling = `${'x'.repeat(999)}\n`;
  writeFileSync(file, filling);
  const create = (name: string, AUDIT_LOG: string, more: string[] = []) =>
    spawnSync(
      'bash',
      ['-c', 'ulimit -f 1; exec "$@"', 'bash', process.execPath, CLI, 'client', 'create', name, ...more],
      { env: bareEnvironment({ DATABASE_URL, AUDIT_LOG }), encoding: 'utf8' },
    );
  const lost = /^AUDIT_LOG: .* could not be written to file:.* \(ENOSPC\) and is lost: the command has run, /;
  t.match(create('billing', `file:${file}`), { status: 1, stdout: /lks?_/, stderr: lost });
  t.equal(readFileSync(file, 'utf8'), filling);
  t.match(create('shop', 'file:/dev/full', ['--json']), { status: 1, stderr: /^\{"warning":"AUDIT_LOG: / });
  t.strictSame(await sql(DATABASE_URL, 'SELECT name FROM service_clients ORDER BY name'), [
    { name: 'billing' },
    { name: 'shop' },
  ]);
  t.match(create('shop', 'file:/dev/full'), { status: 1, stderr: /exists already/ });
});
