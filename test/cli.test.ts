import { test } from 'tap';
import { initialState } from '../src/domain/sessions/rotation.ts';
import { latchkey } from './support/latchkey.ts';
import { testDatabase } from './support/postgres.ts';
import { testRecords } from './support/records.ts';

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

test('purge keeps for 30 days what has ended, however short a lifetime is', async (t) => {
  const { url: DATABASE_URL, aSession, tokens } = await testRecords(t);
  const unusedFor = (days: number, hours = 0) =>
    aSession(initialState((Date.now() - days * 86_400_000 - hours * 3_600_000) * 1000, ''));
  const kept = [await unusedFor(30), await unusedFor(0, 3)];
  const gone = [await unusedFor(30, 2), await unusedFor(59)];
  const purged = await latchkey(['purge', '--json'], { DATABASE_URL, REFRESH_TOKEN_TTL: '3600' });
  t.strictSame(JSON.parse(purged.stdout), { purged: 2 });
  for (const { tokenId } of kept) t.not(await tokens.find(tokenId), null);
  for (const { tokenId } of gone) t.equal(await tokens.find(tokenId), null);
  const long = await unusedFor(79);
  const TTL = String(40 * 86_400);
  t.match(await latchkey(['purge'], { DATABASE_URL, REFRESH_TOKEN_TTL: TTL }), {
    stdout: 'purged 0 records\n',
  });
  t.not(await tokens.find(long.tokenId), null, 'two lifetimes, where that is longer');
});

test('a command that fails says why, without password or stack, and exit code 1', async (t) => {
  const DATABASE_URL = 'postgres://user:sesame@127.0.0.1:1/none';
  for (const command of ['migrate --wait 0', 'purge']) {
    const { code, stderr } = await latchkey(command.split(' '), { DATABASE_URL });
    t.equal(code, 1, command);
    t.notMatch(stderr, /sesame|\n {4}at /);
    t.not(stderr, '');
    t.match((await latchkey(command.split(' '), {})).stderr, /DATABASE_URL is required/);
  }
  t.match(JSON.parse((await latchkey(['migrate', '--json', '--wait', '0'], { DATABASE_URL })).stderr), {
    error: String,
  });
});

test('commands compute no hashes, and run where these would not fit', async (t) => {
  const NODE_OPTIONS = `--import=data:text/javascript,process.constrainedMemory=()=>${192 * 1024 ** 2}`;
  const stores = { DATABASE_URL: 'postgres://user@127.0.0.1:1/none', REDIS_URL: 'redis://127.0.0.1:1' };
  const commands = ['migrate --wait 0', 'purge', 'recover', 'user disable ada', 'user tokens ada'];
  for (const command of [...commands, 'client list', 'keys list']) {
    const { code, stderr } = await latchkey(command.split(' '), { ...stores, NODE_OPTIONS });
    t.equal(code, 1, command);
    t.notMatch(stderr, 'HASH_CONCURRENCY', command);
  }
  const { stdout } = await latchkey(['doctor'], { ...stores, NODE_OPTIONS });
  t.match(stdout, /HASH_CONCURRENCY/, 'which is for the doctor to say');
});
