// suite: e2e, release
import { spawn } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test, type Test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import type { Report } from '../../packages/load/src/report.ts';

const LOAD = new URL('./load.js', import.meta.url).pathname;

/** Runs a scenario against a service that the kit starts. */
async function runOwn(t: Test, words: string[]) {
  const [folder, temporary] = [testFolder(t), testFolder(t)];
  const child = spawn(process.execPath, [LOAD, ...words, '--report', folder], {
    env: bareEnvironment({ TMPDIR: temporary }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = (await Promise.all([text(child.stdout), text(child.stderr)])).join('');
  if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve));
  t.equal(child.exitCode, 0, output);
  const left = readdirSync(temporary).filter((name) => name.startsWith('latchkey-load'));
  t.strictSame(left, [], 'the service left nothing behind');
  return JSON.parse(readFileSync(join(folder, 'report.json'), 'utf8')) as Report;
}

const CLEAN = { sign_outs: 0, duplicate_ids: 0, revoked_accepted: 0, good_refused: 0, wrong_user: 0 };

test('mixed-day runs on the embedded default', async (t) => {
  const report = await runOwn(t, ['mixed-day', '--users', '100', '--rate', '60', '--seconds', '4']);
  t.strictSame(report.correctness, CLEAN);
  for (const count of Object.values(report.judged)) t.ok(count > 0, 'all was judged');
  for (const name of ['refresh', 'verify', 'ended'] as const)
    t.ok((report.operations[name]?.ok ?? 0) > 0, name);
  t.equal(report.settings.own_service, true);
});

test('herd brings all devices back after an outage of PostgreSQL', async (t) => {
  const { correctness, herd, errors } = await runOwn(t, ['herd', '--users', '20', '--seconds', '1']);
  t.strictSame(correctness, CLEAN);
  t.strictSame(
    herd?.rounds.map(({ devices, missing }) => [devices, missing]),
    [
      [20, 0],
      [40, 0],
      [80, 0],
    ],
  );
  t.match(herd?.not_judged, 'fewer than 1000 devices', 'the growth of so few is not judged');
  t.ok((errors['503 unavailable'] ?? 0) > 0, 'devices were refused during the outage');
});
