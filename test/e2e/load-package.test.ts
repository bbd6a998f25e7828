// release
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { t as file, test, type Test } from 'tap';
import type { Report } from '../../packages/load/src/report.ts';
import type { Right } from '../../src/domain/rights.ts';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { leakWatch } from '../support/leaks/leak-watch.ts';
import { packedLoad } from '../support/packed-packages.ts';
import { testDatabase } from '../support/postgres.ts';
import { aRegisteredService, basic } from '../support/registered-service.ts';
import { readyService } from '../support/service.ts';
import { toolsMissing } from '../support/tools.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';

const skip = toolsMissing('npm', 'tar');
/** The packed kit, alone in a folder. */
const PROGRAM = skip ? '' : packedLoad(file);
const CLEAN = { sign_outs: 0, duplicate_ids: 0, revoked_accepted: 0, good_refused: 0, wrong_user: 0 };

/** @returns what runs the kit in an empty folder, with `--url` and a small load. */
function aKit(t: Test) {
  const folder = testFolder(t);
  return (url: string, words: string[], env: Record<string, string> = {}) => {
    const small = ['--users', '20', '--rate', '100', '--seconds', '2', '--url', url];
    const child = spawn(process.execPath, [PROGRAM, 'mixed-day', ...small, ...words], {
      env: bareEnvironment(env),
      cwd: folder,
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    t.teardown(() => child.kill('SIGKILL'));
    const read = (name: string) => readFileSync(join(folder, 'reports/load', name), 'utf8');
    const ended = once(child, 'close').then(([code]) => {
      const watched = leakWatch.watch('the load kit');
      watched.heard('log', stdout + stderr + (code === 2 ? '' : readOr(read)));
      watched.check();
      return {
        code: code as number,
        stdout,
        stderr,
        report: () => JSON.parse(read('report.json')) as Report,
      };
    });
    return { stdout: () => stdout, interrupt: () => child.kill('SIGINT'), ended, read };
  };
}

/** Both forms of the report, as far as there is one. */
function readOr(read: (name: string) => string): string {
  try {
    return read('report.json') + read('report.html');
  } catch {
    return '';
  }
}

/** A service, and how to register a client there. */
async function aService(t: Test, env: Record<string, string> = {}) {
  const { url: DATABASE_URL } = await testDatabase(t);
  const service = await readyService(t, { DATABASE_URL, ...env });
  const register = async (name: string, rights: Right[]) => {
    const client = await aRegisteredService(DATABASE_URL, name, rights);
    const { serviceId: LATCHKEY_CLIENT_ID, secret: LATCHKEY_CLIENT_SECRET } = client;
    return { client, env: { LATCHKEY_CLIENT_ID, LATCHKEY_CLIENT_SECRET } };
  };
  return { url: service.url, register };
}

test(
  'a client’s secret and a URL are enough for a mixed day, which leaves no account',
  { skip },
  async (t) => {
    const { url, register } = await aService(t);
    const { client, env } = await register('tester', ['users.read', 'users.write']);
    const run = aKit(t);
    t.match((await run(url, ['--version']).ended).stdout, /^\d+\.\d+\.\d+\n$/);
    const load = run(url, [], { ...env, LOAD_LOST: '0.05' });
    const { code, stdout, stderr, report } = await load.ended;
    t.equal(code, 0, stderr + stdout);
    const { correctness, judged, settings, not_seen: notSeen, interrupted } = report();
    t.strictSame(correctness, CLEAN);
    for (const count of Object.values(judged)) t.ok(count > 0, 'all was judged');
    t.match(settings, { accounts: 'client', own_service: false, users: 20 });
    t.match(notSeen.join('\n'), /Which replicas answered/);
    t.match(load.read('report.html'), 'What this report cannot know');
    t.equal(interrupted, false);
    t.notMatch(stdout + load.read('report.json') + load.read('report.html'), client.secret);
    const response = await fetch(`${url}/api/users`, { headers: basic(client) });
    const { users } = (await response.json()) as { users: { username: string }[] };
    t.strictSame(users, []);
  },
);

test('SIGINT ends a run early, with its report', { skip }, async (t) => {
  const { url, register } = await aService(t);
  const { env } = await register('tester', ['users.write']);
  const load = aKit(t)(url, ['--seconds', '600'], env);
  await until(() => load.stdout().includes(' of 600 s: '));
  load.interrupt();
  const { code, stdout, stderr, report } = await load.ended;
  t.equal(code, 0, stderr + stdout);
  t.match(report(), { interrupted: true, correctness: CLEAN });
  t.ok(report().totals.ok > 0 && report().totals.seconds < 600);
  t.match(load.read('report.html'), 'ended early');
});
