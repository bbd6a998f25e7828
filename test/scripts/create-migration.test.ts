import { spawnSync } from 'node:child_process';
import { test } from 'tap';
import { bareEnvironment } from '../support/environment.ts';
import { testDatabase } from '../support/postgres.ts';

const SCRIPT = new URL('../../../scripts/create-migration.mjs', import.meta.url).pathname;

test('npm run migration:create needs a name, and writes nothing if schema.prisma has not changed', async (t) => {
  const { url } = await testDatabase(t);
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [SCRIPT, ...args], {
      env: bareEnvironment({ TEST_DATABASE_URL: url }),
      encoding: 'utf8',
    });
  t.match(run(), { status: 2, stdout: '', stderr: /NAME/ });
  t.match(run('two', 'names'), { status: 2, stdout: '' });
  t.match(run('Not_A_Name'), { status: 1, stdout: '', stderr: /^the name .*: Not_A_Name\n$/ });
  t.match(run('nothing'), { status: 0, stderr: '', stdout: /nothing to write/ });
});
