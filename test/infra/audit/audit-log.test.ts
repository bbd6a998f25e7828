import { spawnSync } from 'node:child_process';
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import { openAuditLog } from '../../../src/infra/audit/audit-log.ts';
import { removeFragment } from '../../../src/infra/audit/fragment.ts';
import { bareEnvironment } from '../../support/environment.ts';
import { silentOutput } from '../../support/silent-log.ts';
import { testFolder } from '../../support/folder.ts';

const MODULE = new URL('../../../src/infra/audit/audit-log.js', import.meta.url).href;

test('lines of one turn are appended in order, after what is there', async (t) => {
  const file = join(testFolder(t), 'audit.jsonl');
  writeFileSync(file, 'earlier\n');
  const { openAudit } = silentOutput;
  const onLost = () => t.fail('no line is lost');
  const log = openAuditLog(`file:${file}`, { openAudit, onLost, onWritten: () => undefined });
  for (const line of ['one\n', 'zwölf\n', 'three\n']) log.write(line);
  await log.flush();
  t.equal(readFileSync(file, 'utf8'), 'earlier\none\nzwölf\nthree\n');
});

test('a full disk keeps whole lines only, and counts the others', (t) => {
  const file = join(testFolder(t), 'audit.jsonl');
  // The limit of a file's size, 1 KiB, is a disk that takes 24 bytes more.
  const filling = `${'x'.repeat(999)}\n`;
  writeFileSync(file, filling);
  const script = `
    const { openAuditLog } = await import(${JSON.stringify(MODULE)});
    const seen = [];
    const onLost = (lines, code) => seen.push([lines, code]);
    const ports = { openAudit: () => undefined, onLost, onWritten: () => seen.push('written') };
    const log = openAuditLog(${JSON.stringify(`file:${file}`)}, ports);
    // The first line is a batch of its own: it is written while the others wait.
    for (const line of ['0123456789\\n', 'whole\\n', 'too long\\n']) log.write(line);
    await log.flush();
    log.write('short\\n');
    await log.flush();
    process.stdout.write(JSON.stringify(seen));`;
  const node = `ulimit -f 1; exec "${process.execPath}" --input-type=module --eval "$SCRIPT"`;
  const { stdout, stderr } = spawnSync('bash', ['-c', node], {
    env: bareEnvironment({ SCRIPT: script }),
    encoding: 'utf8',
  });
  t.equal(stderr, '');
  t.strictSame(JSON.parse(stdout), [[1, 'ENOSPC'], 'written']);
  t.equal(readFileSync(file, 'utf8'), `${filling}0123456789\nwhole\nshort\n`);
  t.end();
});

test('a slow disk loses what is too much, and has written only when nothing waits', async (t) => {
  const file = join(testFolder(t), 'audit.jsonl');
  const seen: (string | number)[] = [];
  const { openAudit } = silentOutput;
  const onLost = (lines: number, code: string) => seen.push(lines, code);
  const log = openAuditLog(`file:${file}`, { openAudit, onLost, onWritten: () => seen.push('written') });
  const line = `${'x'.repeat(1023)}\n`;
  for (let i = 0; i < 1025; i++) log.write(line);
  await log.flush();
  t.strictSame(seen, [1, 'WAITING', 'written']);
  t.equal(readFileSync(file, 'utf8').length, 1024 * line.length);
});

test('of a batch, the lines before the one that did not fit stay', (t) => {
  const file = join(testFolder(t), 'audit.jsonl');
  writeFileSync(file, 'earlier\nwhole\npart');
  t.ok(removeFragment(file, Buffer.from('whole\npart')));
  t.equal(readFileSync(file, 'utf8'), 'earlier\nwhole\n');
  t.ok(removeFragment(file, Buffer.from('whole\n')), 'nothing to remove');
  t.equal(readFileSync(file, 'utf8'), 'earlier\nwhole\n');

  appendFileSync(file, 'partof another process\n');
  t.notOk(removeFragment(file, Buffer.from('part')), 'another process has written since');
  t.equal(readFileSync(file, 'utf8'), 'earlier\nwhole\npartof another process\n');
  t.notOk(removeFragment(`${file}.gone`, Buffer.from('part')));
  t.end();
});
