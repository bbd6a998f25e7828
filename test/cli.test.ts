import { test } from 'tap';
import { latchkey } from './support/latchkey.ts';
import { testDatabase } from './support/postgres.ts';

test('what is not understood is usage, and exit code 2', async (t) => {
  for (const args of [[], ['frobnicate'], ['migrate', 'twice'], ['migrate', '--frobnicate']]) {
    const { code, stderr } = await latchkey(args);
    t.equal(code, 2, args.join(' '));
    t.match(stderr, /Usage: latchkey/);
    t.notMatch(stderr, /\n {4}at /, 'no stack');
  }
  t.match((await latchkey(['--help'])).stdout, /Usage: latchkey/);
});

test('migrate applies what is missing, and then nothing', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const first = await latchkey(['migrate', '--json'], { DATABASE_URL: url });
  t.match(JSON.parse(first.stdout), { applied: [/_init$/] });
  const second = await latchkey(['migrate'], { DATABASE_URL: url });
  t.match(second, { code: 0, stdout: 'nothing to apply\n' });
});

test('purge says how many records went', async (t) => {
  const { url } = await testDatabase(t);
  t.match(await latchkey(['purge'], { DATABASE_URL: url }), { code: 0, stdout: 'purged 0 records\n' });
  t.strictSame(JSON.parse((await latchkey(['purge', '--json'], { DATABASE_URL: url })).stdout), {
    purged: 0,
  });
});

test('a command that fails says why, without password or stack, and exit code 1', async (t) => {
  const DATABASE_URL = 'postgres://user:sesame@127.0.0.1:1/none';
  for (const command of ['migrate', 'purge']) {
    const { code, stderr } = await latchkey([command], { DATABASE_URL });
    t.equal(code, 1, command);
    t.notMatch(stderr, /sesame|\n {4}at /);
    t.not(stderr, '');
    t.match((await latchkey([command], {})).stderr, /DATABASE_URL is required/);
  }
  t.match(JSON.parse((await latchkey(['migrate', '--json'], { DATABASE_URL })).stderr), { error: String });
});
