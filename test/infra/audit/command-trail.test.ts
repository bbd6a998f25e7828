import { spawn, spawnSync } from 'node:child_process';
import { closeSync, constants, mkdirSync, openSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test, type Test } from 'tap';
import { commandOutput, serviceOutput } from '../../../src/infra/audit/command-trail.ts';
import { testFolder } from '../../support/folder.ts';

const DIST = new URL('../../../', import.meta.url).pathname;

interface Process {
  command: string[];
  parent?: number;
  user?: number;
}

/** A folder like /proc. */
function processes(t: Test, list: Record<number, Process>): string {
  const proc = testFolder(t);
  for (const [pid, { command, parent = 0, user = 1000 }] of Object.entries(list)) {
    const folder = join(proc, pid);
    mkdirSync(folder);
    writeFileSync(join(folder, 'cmdline'), command.map((word) => `${word}\0`).join(''));
    writeFileSync(join(folder, 'status'), `Name:\tx\nPPid:\t${parent}\nUid:\t${user}\t${user}\n`);
    symlinkSync(DIST, join(folder, 'cwd'));
  }
  mkdirSync(join(proc, 'sys'));
  return proc;
}

test('the service is the first process of the container, or a child of its init', (t) => {
  const service = ['node', '--enable-source-maps', 'src/server.js'];
  const init = ['/run/podman-init', '--', ...service];
  const at = (list: Record<number, Process>) => {
    const proc = processes(t, list);
    return serviceOutput(proc)?.slice(proc.length) ?? null;
  };
  t.equal(at({ 1: { command: service } }), '/1/fd/1');
  t.equal(at({ 1: { command: ['node', join(DIST, 'src/server.js')] } }), '/1/fd/1');
  t.equal(at({ 1: { command: ['/pause'], user: 65535 }, 7: { command: service } }), '/7/fd/1', 'of a pod');

  const child = { command: service, parent: 1 };
  t.equal(at({ 1: { command: ['catatonit', '-P'] }, 2: child }), '/2/fd/1');
  t.equal(at({ 1: { command: ['/sbin/init'], user: 0 }, 2: child }), null, 'a host');
  t.equal(
    at({ 1: { command: ['sh'] }, 2: { command: ['sh'], parent: 1 }, 3: { ...child, parent: 2 } }),
    null,
  );
  t.equal(at({ 1: { command: ['node', 'src/cli.js', 'purge'] } }), null, 'the command’s own container');
  t.equal(at({ 1: { command: ['node', '/elsewhere/server.js'] } }), null, 'another program');
  t.equal(at({}), null);
  t.equal(serviceOutput('/none'), null);
  t.equal(
    at({ 1: { command: init }, 2: child }),
    '/1/fd/1',
    'an init that names the service shares its output',
  );
  t.end();
});

test('the event of a command goes to standard error if the service ends meanwhile', (t) => {
  const proc = processes(t, { 1: { command: ['node', 'src/server.js'] } });
  const output = commandOutput('stdout', proc);
  t.match(output.name, 'standard output');
  t.equal(output.check(), null);
  const script = `const { commandOutput } = await import('${DIST}src/infra/audit/command-trail.js');
    process.exitCode = commandOutput('stdout', process.argv[1]).write('purged') === null ? 0 : 1;`;
  const words = ['--input-type=module', '-e', script, proc];
  const { status, stderr } = spawnSync(process.execPath, words, { encoding: 'utf8' });
  t.strictSame([status, stderr], [0, 'purged']);
  t.end();
});

test('a line that a full pipe delays begins on its own, after what the service had begun', async (t) => {
  const pipe = join(testFolder(t), 'pipe');
  t.equal(spawnSync('mkfifo', [pipe]).status, 0);
  const output = commandOutput(`file:${pipe}`);
  t.equal(output.check(), 'ENXIO', 'nothing reads it');
  t.equal(output.write('{}\n'), 'ENXIO');

  // Open for both, so that neither this nor the reader's end waits.
  const service = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK);
  t.equal(output.check(), null);
  t.throws(
    () => {
      for (;;) writeSync(service, 'x'.repeat(4096));
    },
    { code: 'EAGAIN' },
  );
  // It reads once the command has opened the pipe as well, and ends at the end of the command's line.
  const isOpened = `[ "$(ls -l /proc/${process.pid}/fd | grep -c ' ${pipe}$')" = 2 ]`;
  const script = `until ${isOpened}; do :; done; exec sed '/}$/q' '${pipe}'`;
  const reader = spawn('bash', ['-c', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.equal(output.write('{"event":"purge"}\n'), null);
  const [, line] = (await text(reader.stdout)).split('\n');
  t.equal(line, '{"event":"purge"}');
  closeSync(service);
});
