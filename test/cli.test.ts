import { test } from 'tap';
import { latchkey } from './support/latchkey.ts';
import { testDatabase } from './support/postgres.ts';

test('bad usage prints the usage and exits with 2', async (t) => {
  for (const args of [
    [],
    ['frobnicate'],
    ['migrate', 'twice'],
    ['migrate', '--frobnicate'],
    ['user', 'tokens'],
  ]) {
    const { code, stderr } = await latchkey(args);
    t.equal(code, 2, args.join(' '));
    t.match(stderr, /^Usage: latchkey /);
    t.notMatch(stderr, /\n {4}at /, 'no stack');
    t.match(
      stderr.trimEnd().split('\n').at(-1),
      /^(give|unknown|Unknown|migrate takes no|user tokens needs)/,
      'the error is the last line',
    );
  }
  t.match((await latchkey(['--help'])).stdout, /Usage: latchkey/);
});

test('a command loads no package that it does not need: that would take longer than its work', async (t) => {
  const dataUrl = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
  const refusing = (path: string) => {
    const hook = `export async function load(url, context, next) {
      if (url.includes('/node_modules/${path}')) throw new Error('loads ' + url);
      return next(url, context);
    }`;
    const register = `import { register } from 'node:module'; register(${JSON.stringify(dataUrl(hook))});`;
    return { NODE_OPTIONS: `--import=${dataUrl(register)}` };
  };
  for (const line of ['--help', '--version'])
    t.match(await latchkey([line], refusing('')), { code: 0 }, line);
  t.match(await latchkey(['frobnicate'], refusing('')), { code: 2, stderr: /unknown command\n$/ });
  for (const line of ['plan --users 1000', 'doctor', 'keys doctor', 'user list', 'client create a']) {
    const { stdout, stderr } = await latchkey(line.split(' '), refusing('typebox/'));
    t.notMatch(stdout + stderr, /loads /, line);
  }
  t.match(await latchkey(['user', 'list'], refusing('zod/')), { stderr: /loads .*zod/ }, 'the refusal works');
});

test('--version says what runs, to people and to programs', async (t) => {
  const { stdout } = await latchkey(['--version', '--json']);
  const { version, revision } = JSON.parse(stdout) as { version: string; revision: string };
  t.match([version, revision], [/^\d+\.\d+\.\d+$/, /^(unknown|[0-9a-f]{40}(-dirty)?)$/]);
  t.equal((await latchkey(['--version'])).stdout, `latchkey ${version} (${revision})\n`);
});

test('migrate applies missing migrations, and is a no-op after that', async (t) => {
  const { url } = await testDatabase(t, { migrated: false });
  const first = await latchkey(['migrate', '--json'], { DATABASE_URL: url });
  t.match(JSON.parse(first.stdout), { applied: [/_init$/] });
  const second = await latchkey(['migrate'], { DATABASE_URL: url });
  t.match(second, { code: 0, stdout: 'nothing to apply\n' });
});

test('a failed command prints the cause without password or stack, and exits with 1', async (t) => {
  const DATABASE_URL = 'postgres://user:sesame@127.0.0.1:1/none';
  for (const command of ['migrate --wait 0', 'purge']) {
    const { code, stderr } = await latchkey(command.split(' '), { DATABASE_URL });
    t.equal(code, 1, command);
    t.notMatch(stderr, /sesame|\n {4}at /);
    t.not(stderr, '');
    t.match(
      (await latchkey(command.split(' '), { NODE_ENV: 'production' })).stderr,
      /DATABASE_URL is required/,
    );
  }
  t.match(JSON.parse((await latchkey(['migrate', '--json', '--wait', '0'], { DATABASE_URL })).stderr), {
    error: String,
  });
});

test('commands compute no hashes, so they run even if hashes do not fit in memory', async (t) => {
  const NODE_OPTIONS = `--import=data:text/javascript,process.constrainedMemory=()=>${192 * 1024 ** 2}`;
  const stores = { DATABASE_URL: 'postgres://user@127.0.0.1:1/none', REDIS_URL: 'redis://127.0.0.1:1' };
  const commands = ['migrate --wait 0', 'purge', 'recover --yes', 'user disable ada', 'user tokens ada'];
  for (const command of [...commands, 'client list', 'keys list']) {
    const { code, stderr } = await latchkey(command.split(' '), { ...stores, NODE_OPTIONS });
    t.equal(code, 1, command);
    t.notMatch(stderr, 'HASH_CONCURRENCY', command);
  }
  const { stdout } = await latchkey(['doctor'], { ...stores, NODE_OPTIONS });
  t.match(stdout, /HASH_CONCURRENCY/, 'doctor reports this');
});
