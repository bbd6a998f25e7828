import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type Test } from 'tap';
import { loadConfig } from '../../src/config/config.ts';
import { composeService } from '../support/compose-file.ts';
import { readDocument, ROOT } from '../support/documents.ts';
import { testFolder } from '../support/folder.ts';
import { readUnit } from '../support/systemd-unit.ts';
import { toolsMissing } from '../support/tools.ts';

const FOLDER = join(ROOT, 'deploy/systemd');
const NAME = 'latchkey@.service';
const UNIT = readFileSync(join(FOLDER, NAME), 'utf8');
const { one } = readUnit(UNIT);
const skip = toolsMissing('systemd-analyze');

test('systemd accepts the unit', { skip }, (t) => {
  t.equal(analyze(t, UNIT, 'verify'), '');
  t.end();
});

test('systemd calls the exposure of the unit low', { skip }, (t) => {
  t.equal(analyze(t, UNIT, 'security', '--offline=true', '--threshold=20'), '');
  t.end();
});

test('the unit gives a replica what the container has', (t) => {
  const container = composeService('latchkey');
  const image = readFileSync(join(ROOT, 'Dockerfile'), 'utf8');
  const [, command = '[]'] = /^CMD (\[.*\])$/m.exec(image) ?? [];
  t.equal(one('ExecStart'), (JSON.parse(command) as string[]).join(' '));
  t.strictSame([container.read_only, one('ProtectSystem'), one('ProtectHome')], [true, 'strict', 'yes']);
  t.strictSame([container.cap_drop, one('CapabilityBoundingSet')], [['ALL'], '']);
  t.strictSame([container.security_opt, one('NoNewPrivileges')], [['no-new-privileges:true'], 'yes']);
  t.equal(one('MemoryMax').toLowerCase(), container.mem_limit);
  t.equal(`${one('TimeoutStopSec')}s`, container.stop_grace_period);
  t.notMatch(one('User'), /^(root|0)$/);
  t.end();
});

test('the unit, docs/installing.md and the proxy name the same files and ports', (t) => {
  const page = readDocument('docs/installing.md');
  t.match(page, `cat > "$conf/${one('EnvironmentFile').replace('/etc/latchkey/', '')}"`);
  t.match(page, `ln -sfn "$(pwd -P)" ${one('WorkingDirectory')}\n`);
  t.match(page, `AUDIT_LOG=file:/var/lib/${one('StateDirectory')}/`);
  t.match(page, `useradd --system --user-group --no-create-home --shell /usr/sbin/nologin ${one('User')}\n`);
  const { PORT, OPS_PORT } = loadConfig({});
  const nginx = readFileSync(join(ROOT, 'deploy/nginx/two-replicas.conf'), 'utf8');
  for (const replica of ['1', '2']) {
    const address = `127.0.0.${replica}`;
    t.equal(one('Environment').replaceAll('%i', replica), `HOST=${address} OPS_HOST=${address}`);
    t.match(nginx, `server ${address}:${PORT} max_fails=0;`);
    t.match(page, `\`latchkey@${replica}\``);
  }
  t.match(page, `"http://127.0.0.$1:${OPS_PORT}/health/ready"`);
  t.end();
});

test('a timer purges every night, in a unit as hardened as a replica', { skip }, (t) => {
  const purge = readFileSync(join(FOLDER, 'latchkey-purge.service'), 'utf8');
  const unit = readUnit(purge);
  const [, hardening = '-'] = /^MemoryMax=.*\n(.*?)\n\n/ms.exec(UNIT) ?? [];
  t.ok(purge.endsWith(`\n${hardening}\n`), 'the same hardening');
  for (const name of ['User', 'Group', 'EnvironmentFile', 'WorkingDirectory'])
    t.equal(unit.one(name), one(name), name);
  t.strictSame([unit.one('Type'), unit.one('ExecStart')], ['oneshot', 'node dist/src/cli.js purge']);
  const timer = join(FOLDER, 'latchkey-purge.timer');
  t.equal(readUnit(readFileSync(timer, 'utf8')).one('Persistent'), 'true');
  t.match(spawnSync('systemd-analyze', ['verify', timer], { encoding: 'utf8' }), { status: 0, stderr: /^$/ });
  t.end();
});

test('a rollout stops a replica that does not become ready, and touches no other', (t) => {
  const folder = testFolder(t);
  const fakes = {
    curl: 'exit 22',
    sleep: '',
    journalctl: '',
    systemctl: 'echo "systemctl $*"; [ "$1" != is-active ]',
  };
  for (const [name, text] of Object.entries(fakes))
    writeFileSync(join(folder, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  const functions = /<<'EOF'\n(umask 022\n.*?)^EOF$/ms.exec(readDocument('docs/installing.md'))?.[1] ?? '';
  const { status, stdout, stderr } = spawnSync('bash', ['-uc', `${functions}\nreplace 1 && replace 2`], {
    env: { PATH: `${folder}:${process.env.PATH ?? ''}` },
    encoding: 'utf8',
  });
  t.equal(status, 1);
  t.strictSame(stdout.trim().split('\n'), [
    'systemctl restart latchkey@1',
    'systemctl is-active --quiet latchkey@1',
    'systemctl stop latchkey@1',
  ]);
  t.match(stderr, /latchkey@1 is stopped. Roll back/);
  t.end();
});

/** What systemd-analyze says of a unit; empty if it finds nothing. */
function analyze(t: Test, unit: string, ...args: string[]): string {
  const file = join(testFolder(t), NAME);
  writeFileSync(file, unit);
  const { status, stdout, stderr } = spawnSync('systemd-analyze', [...args, file], { encoding: 'utf8' });
  return status === 0 ? stderr : stdout + stderr;
}
