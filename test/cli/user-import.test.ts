import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'tap';
import type { Environment } from '../../src/config/config.ts';
import { locksAwaited } from '../support/begun.ts';
import { bareEnvironment } from '../support/environment.ts';
import { testFolder } from '../support/folder.ts';
import { latchkey } from '../support/latchkey.ts';
import { testDatabase, withClient } from '../support/postgres.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import { cheapHashes, usersFile, type UserLine } from '../support/users-file.ts';
import { LONGEST_LINE, readLines } from '../../src/cli/lines.ts';
import { makeProgressBar } from '../../src/cli/user-import.ts';

const { bcrypt, argon2 } = await cheapHashes();
const CLI = new URL('../../src/cli.js', import.meta.url).pathname;
const HEADER = 'username,email,name,imported_hash AS hash,imported_cost AS cost,roles';

function aLine(username: string, more: Partial<UserLine> = {}): UserLine {
  return { username, name: 'Ada', email: `${username}@example.com`, password_hash: bcrypt, ...more };
}

const usernames = async (url: string) => {
  const rows = await sql<{ username: string }>(url, 'SELECT username FROM users ORDER BY id');
  return rows.map(({ username }) => username);
};

const refusedLines = (stderr: string) =>
  stderr
    .split('\n')
    .filter((line) => line.startsWith('{"line"'))
    .map((line) => (JSON.parse(line) as { line: number }).line);

test('user import adds accounts with all their fields', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const created_at = '2019-05-06T07:08:09.010Z';
  const file = usersFile(t, [
    aLine('Ada', {
      name: ' Ada L. ',
      email: 'ADA@example.com',
      roles: ['staff', 'a:b'],
      disabled: true,
      created_at,
    }),
    '',
    aLine('bob', { password_hash: argon2, email_verified: true }),
  ]);
  const { code, stdout, stderr, audit } = await latchkey(['user', 'import', file, '--json'], {
    DATABASE_URL,
  });
  t.equal(code, 0, stderr);
  t.equal(stdout, '{"imported":2,"refused":0,"skipped":0}\n');
  t.equal(stderr, '');
  t.match(audit, [
    { event: 'user.import', outcome: 'success', details: { imported: 2, refused: 0, skipped: 0 } },
  ]);
  const rows = await sql(
    DATABASE_URL,
    `SELECT ${HEADER}, created_at, disabled_at IS NOT NULL AS disabled, email_verified_at IS NOT NULL AS verified,
      username_skeleton AS skeleton FROM users ORDER BY id`,
  );
  t.match(rows, [
    {
      username: 'ada',
      email: 'ada@example.com',
      name: 'Ada L.',
      hash: bcrypt,
      cost: 'bcrypt 4',
      roles: ['staff', 'a:b'],
      created_at: new Date(created_at),
      disabled: true,
      verified: false,
      skeleton: 'ada',
    },
    { username: 'bob', hash: argon2, cost: 'argon2id 256/1/1', roles: [], disabled: false, verified: true },
  ]);
});

test('users without a username get one each, and log in by their addresses', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const lines = ['a', 'b'].map((each) =>
    JSON.stringify({ email: `${each}@example.com`, password_hash: bcrypt }),
  );
  const { code, stderr } = await latchkey(['user', 'import', usersFile(t, lines)], { DATABASE_URL });
  t.equal(code, 0, stderr);
  const rows = await sql<{ username: string; name: string }>(
    DATABASE_URL,
    'SELECT username, name FROM users',
  );
  for (const { username, name } of rows) {
    t.match(username, /^user-[a-z2-7]{12}$/);
    t.equal(name, username);
  }
  t.equal(new Set(rows.map(({ username }) => username)).size, 2);
});

test('refused lines are listed with their numbers, and the rest is imported', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  await sql(
    DATABASE_URL,
    `INSERT INTO users (username, username_skeleton, email, name, password_hash)
     VALUES ('taken', 'taken', 'old@example.com', 'Old', ''), ('pay', 'pay', 'pay@example.com', 'Old', ''),
       ('idn', 'idn', 'x@grün.example', 'Old', '')`,
  );
  const lines: [UserLine | string | Buffer, RegExp | null][] = [
    [aLine('first'), null],
    [aLine('TAKEN'), /^username is taken, .*, but may be left out$/],
    [aLine('x', { email: 'OLD@example.com' }), /^email is taken/],
    [aLine('first', { email: 'other@example.com' }), /^username is taken, .* or an earlier line/],
    [aLine('y', { email: 'First@example.com' }), /^email is taken/],
    [aLine('z', { email: 'X@xn--grn-ioa.example' }), /^email is taken/],
    [aLine('u', { email: 'x@bücher.example' }), null],
    [aLine('v', { email: 'x@xn--bcher-kva.example' }), /^email is taken/],
    [aLine('w', { email: '<x@example.com>' }), /^email must be an e-mail address/],
    [aLine('рау'), /^username is taken, or looks like one that is/],
    [aLine('zoë'), null],
    [aLine('crm', { external_id: 'crm-7' }), null],
    [aLine('crm2', { external_id: 'crm-7' }), /^external_id is taken, by an account or an earlier line/],
    [aLine('crm3', { external_id: 'CRM-7' }), null],
    [aLine('crm4', { external_id: null }), null],
    [aLine('crm5', { external_id: 'x'.repeat(129) }), /^external_id must have at most 128 characters/],
    [aLine('crm6', { external_id: 'a b' }), /^external_id must hold visible ASCII characters only/],
    [aLine('crm7', { external_id: 7 }), /^external_id must be a string/],
    [aLine('zoe\u0308', { email: 'z@example.com' }), /^username is taken/],
    [aLine('root'), /^username must not be, or look like, a reserved name/],
    ['{"username": "secret-of-line-10', /^is not a JSON object/],
    [Buffer.from([0x22, 0xc3, 0x28, 0x22]), /^is not UTF-8/],
    [
      `${JSON.stringify(aLine('long')).slice(0, -1)},"roles":["${'x'.repeat(17_000)}"]}`,
      /^is longer than 16384 bytes/,
    ],
    [
      aLine('weak', { password_hash: 'plain text secret-of-line-13' }),
      /^password_hash has none of the formats/,
    ],
    [
      aLine('dear', { password_hash: bcrypt.replace('$04$', '$16$') }),
      /^password_hash has a cost that would take/,
    ],
    [
      aLine('big', { password_hash: argon2.replace('m=256', 'm=131073') }),
      /^password_hash needs 149 MiB .* HASH_MEMORY/,
    ],
    [aLine('role', { roles: ['No'] }), /^roles must hold strings/],
    [aLine('more', { isAdmin: true }), /^holds 1 unknown fields/],
    [aLine('last'), null],
  ];
  const file = usersFile(
    t,
    lines.map(([line]) => line),
  );
  const { code, stdout, stderr } = await latchkey(['user', 'import', file], { DATABASE_URL });
  t.equal(code, 1);
  t.equal(stdout, 'imported 7, refused 22, skipped 0\n');
  const expected = lines.flatMap(([, problem], index) => (problem ? [{ line: index + 1, problem }] : []));
  const told = stderr
    .trim()
    .split('\n')
    .map((line) => /^line (\d+): (.*)$/.exec(line) ?? []);
  t.strictSame(
    told.map(([, line]) => Number(line)),
    expected.map(({ line }) => line),
  );
  for (const [index, { problem }] of expected.entries()) t.match(told[index]?.[2], problem);
  t.notMatch(stderr.replaceAll('totp_secret', ''), /secret|example\.com|\$2a\$/);
  t.strictSame(await usernames(DATABASE_URL), [
    'taken',
    'pay',
    'idn',
    'first',
    'u',
    'zoë',
    'crm',
    'crm3',
    'crm4',
    'last',
  ]);

  const again = await latchkey(['user', 'import', file, '--json'], { DATABASE_URL });
  t.equal(again.code, 1, 'refused lines are tried again');
  t.equal(again.stdout, '{"imported":0,"refused":22,"skipped":7}\n');
  t.strictSame(
    refusedLines(again.stderr),
    expected.map(({ line }) => line),
  );

  await sql(DATABASE_URL, "DELETE FROM users WHERE username = 'taken'");
  const third = await latchkey(['user', 'import', file, '--json'], { DATABASE_URL });
  t.equal(third.stdout, '{"imported":2,"refused":20,"skipped":7}\n', 'and imported once their name is free');
  t.equal(
    (await latchkey(['user', 'import', file, '--json'], { DATABASE_URL })).stdout,
    '{"imported":0,"refused":20,"skipped":9}\n',
  );
});

test('HASH_MEMORY and RESERVED_USERNAMES count as in the service', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = usersFile(t, [aLine('root', { password_hash: argon2.replace('m=256', 'm=262144') })]);
  const env = { DATABASE_URL, HASH_MEMORY: '276', RESERVED_USERNAMES: 'none' };
  t.match(await latchkey(['user', 'import', file], env), { code: 0, stdout: /^imported 1,/ });
});

test('user import says what is wrong with its file', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const folder = testFolder(t);
  mkdirSync(join(folder, 'folder'));
  const read = (path: string) => latchkey(['user', 'import', path], { DATABASE_URL });
  t.match(await read(join(folder, 'none')), { code: 1, stderr: /none cannot be read \(ENOENT\)/ });
  t.match(await read(join(folder, 'folder')), {
    code: 1,
    stderr: /folder cannot be read \(not a regular file\)/,
  });
  t.match(await read('/dev/null'), { code: 1, stderr: /not a regular file/ });
  for (const words of [[], ['a', 'b'], ['a', '--id', '1']])
    t.match(await latchkey(['user', 'import', ...words], { DATABASE_URL }), { code: 2 });
  const empty = usersFile(t, []);
  t.match(await read(empty), { code: 0, stdout: 'imported 0, refused 0, skipped 0\n' });
});

test('user import - reads standard input, and continues like a file', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const input = [aLine('ada'), aLine('bob', { roles: [''] })]
    .map((line) => `${JSON.stringify(line)}\n`)
    .join('');
  const read = (env: Environment, text = input) =>
    latchkey(['user', 'import', '-', '--json'], { DATABASE_URL, ...env }, undefined, text);
  t.match(await read({}), { code: 1, stdout: '{"imported":1,"refused":1,"skipped":0}\n' });
  // A container may have no other folder that can be written than /dev/shm.
  t.match(await read({ TMPDIR: '/none' }), { code: 1, stdout: '{"imported":0,"refused":1,"skipped":1}\n' });
  t.match(await read({}, ''), { code: 0, stdout: '{"imported":0,"refused":0,"skipped":0}\n' });
});

test('the copy of standard input has no name and is its owner’s, so that a signal leaves nothing', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const TMPDIR = testFolder(t);
  const child = spawn(process.execPath, [CLI, 'user', 'import', '-'], {
    env: bareEnvironment({ DATABASE_URL, TMPDIR }),
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const ended = once(child, 'exit');
  const begun = '{"username":"secret"';
  child.stdin.write(begun);
  const files = `/proc/${child.pid}/fd`;
  const copies = () =>
    readdirSync(files)
      .map((name) => join(files, name))
      .filter((path) => statSync(path, { throwIfNoEntry: false })?.size === begun.length)
      .filter((path) => readlinkSync(path).startsWith(TMPDIR));
  await until(() => copies().length === 1);
  t.strictSame(readdirSync(TMPDIR), []);
  t.equal(statSync(copies()[0] ?? '').mode & 0o777, 0o600);
  child.kill('SIGINT');
  t.strictSame(await ended, [130, null]);
  t.strictSame(readdirSync(TMPDIR), []);
});

test('standard input that does not fit on the disk says what to do', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const child = spawnSync(
    'bash',
    ['-c', 'ulimit -f 1; exec "$@"', 'bash', process.execPath, CLI, 'user', 'import', '-'],
    { env: bareEnvironment({ DATABASE_URL }), input: 'x'.repeat(3000), encoding: 'utf8' },
  );
  t.match(child, {
    status: 1,
    stderr: /standard input cannot be copied .* \(E\w+\): set TMPDIR to a folder/,
  });
});

test('an import that is killed continues where it stopped, and no account is added twice', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const total = 6000;
  // Each 100th line is refused.
  const lines = Array.from({ length: total }, (_, index) =>
    aLine(`u${index}`, index % 100 === 99 ? { roles: [''] } : {}),
  );
  const file = usersFile(t, lines);
  let runs = 0;
  for (const stopAt of [1000, 3000]) {
    const child = spawn(process.execPath, [CLI, 'user', 'import', file, '--json'], {
      env: bareEnvironment({ DATABASE_URL }),
      stdio: 'ignore',
    });
    await until(async () => (await usernames(DATABASE_URL)).length >= stopAt);
    child.kill('SIGKILL');
    await once(child, 'close');
    runs++;
  }
  const [progress] = await sql<{ lines: number }>(DATABASE_URL, 'SELECT lines FROM user_imports');
  const before = (await usernames(DATABASE_URL)).length;
  t.ok(before < total - total / 100, 'the file was not finished');
  t.equal(progress?.lines, before + before / 99, 'each commit holds its progress');

  const last = await latchkey(['user', 'import', file, '--json'], { DATABASE_URL });
  const { imported, refused, skipped } = JSON.parse(last.stdout) as Record<string, number>;
  t.equal(last.code, 1);
  t.strictSame([imported, refused, skipped], [5940 - before, 60, before], `after ${runs} kills`);
  t.equal(refusedLines(last.stderr).length, 60, 'also those that an earlier run had refused');
  const names = await usernames(DATABASE_URL);
  t.equal(new Set(names).size, 5940);
  t.equal(names.length, 5940);
});

test('an earlier, unfinished import of other content is named', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = usersFile(t, [aLine('ada')]);
  await latchkey(['user', 'import', file], { DATABASE_URL });
  await sql(DATABASE_URL, 'UPDATE user_imports SET finished_at = NULL');
  appendFileSync(file, `${JSON.stringify(aLine('bob'))}\n`);
  const { code, stderr, stdout } = await latchkey(['user', 'import', file], { DATABASE_URL });
  t.equal(code, 1);
  t.match(stderr, /^the last import stopped after line 1 at 2.*other content.*\nline 1: username is taken/);
  t.equal(stdout, 'imported 1, refused 1, skipped 0\n');
});

test('two imports of one file at once do not add an account twice, and one of them says so', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = usersFile(
    t,
    Array.from({ length: 1000 }, (_, index) => aLine(`u${index}`)),
  );
  await withClient(DATABASE_URL, async (client) => {
    // Both have read the progress, and wait for the first batch's lock.
    await client.query('BEGIN');
    await client.query('LOCK TABLE users IN ACCESS EXCLUSIVE MODE');
    const both = [1, 2].map(() => latchkey(['user', 'import', file, '--json'], { DATABASE_URL }));
    await locksAwaited(DATABASE_URL, 2);
    await client.query('COMMIT');
    const [one, other] = await Promise.all(both);
    t.strictSame([one?.code, other?.code].sort(), [0, 1]);
    const loser = one?.code === 0 ? other : one;
    t.match(loser?.stderr, /"error":"another process imports the same file"/);
  });
  t.equal((await usernames(DATABASE_URL)).length, 1000);
});

test('a signup that takes a name between check and insert makes its line a refused one', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const file = usersFile(t, [aLine('ada'), aLine('bob')]);
  await withClient(DATABASE_URL, async (client) => {
    await client.query('BEGIN');
    await client.query(
      "INSERT INTO users (username, username_skeleton, email, name, password_hash) VALUES ('ada', 'ada', 'a@b', 'A', '')",
    );
    const importing = latchkey(['user', 'import', file, '--json'], { DATABASE_URL });
    await locksAwaited(DATABASE_URL);
    await client.query('COMMIT');
    const { stdout, stderr } = await importing;
    t.equal(stdout, '{"imported":1,"refused":1,"skipped":0}\n');
    t.match(stderr, /^\{"line":1,"error":"username is taken/);
  });
});

test('a file larger than the heap is imported: memory does not grow with it', async (t) => {
  const { url: DATABASE_URL } = await testDatabase(t);
  const folder = testFolder(t);
  const file = join(folder, 'large.jsonl');
  writeFileSync(file, '');
  // 96 MiB of long lines that are refused, one account in each MiB.
  for (let block = 0; block < 96; block++) {
    const filler = `${JSON.stringify({ x: 'y'.repeat(15_000) })}\n`.repeat(69);
    appendFileSync(file, `${JSON.stringify(aLine(`u${block}`))}\n${filler}`);
  }
  t.ok(statSync(file).size > 94 * 1024 ** 2);
  const heap = { DATABASE_URL, NODE_OPTIONS: '--max-old-space-size=72' };
  const { code, stdout, stderr } = await latchkey(['user', 'import', file, '--json'], heap);
  t.equal(code, 1, stderr.slice(-500));
  t.equal(stdout, `{"imported":96,"refused":${96 * 69},"skipped":0}\n`);

  const out = join(folder, 'out.jsonl');
  t.equal((await latchkey(['user', 'export', out], heap)).code, 0);
  t.equal(readFileSync(out, 'utf8').trim().split('\n').length, 96);
});

test('a database that is away ends an import with its reason, and the next run continues', async (t) => {
  const file = usersFile(t, [aLine('ada')]);
  const away = await latchkey(['user', 'import', file], { DATABASE_URL: 'postgres://127.0.0.1:1/none' });
  t.match(away, { code: 1, stderr: /the database or Redis cannot be reached/ });
});

function aTerminal(isTTY: boolean) {
  const written: string[] = [];
  return { isTTY, write: (text: string) => written.push(text), written };
}

test('a progress bar replaces its line on a terminal, and is removed at the end', (t) => {
  const terminal = aTerminal(true);
  const bar = makeProgressBar(true, terminal);
  bar.show(0.5, '7 imported');
  bar.show(1.2, '9 imported');
  bar.clear();
  t.strictSame(terminal.written, [
    `\r\x1b[K[${'#'.repeat(15)}${'-'.repeat(15)}] 50 %  7 imported`,
    `\r\x1b[K[${'#'.repeat(30)}] 100 %  9 imported`,
    '\r\x1b[K',
  ]);
  t.end();
});

test('without a terminal, or if it is not wanted, there is none', (t) => {
  for (const [isWanted, isTTY] of [
    [true, false],
    [false, true],
  ] as const) {
    const terminal = aTerminal(isTTY);
    const bar = makeProgressBar(isWanted, terminal);
    bar.show(0.5, 'x');
    bar.clear();
    t.strictSame(terminal.written, []);
  }
  t.end();
});

async function* chunksOf(text: string | Buffer, size: number): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let from = 0; from < bytes.length; from += size)
    yield await Promise.resolve(bytes.subarray(from, from + size));
}

async function linesOf(text: string | Buffer, size: number): Promise<[number, string | null][]> {
  const lines: [number, string | null][] = [];
  for await (const { number, bytes } of readLines(chunksOf(text, size)))
    lines.push([number, bytes && Buffer.from(bytes).toString()]);
  return lines;
}

test('lines are the same however the file is cut into chunks', async (t) => {
  for (const size of [1, 2, 3, 7, 100]) {
    const lines = [
      [1, 'one'],
      [2, ''],
      [3, 'zwölf'],
      [4, 'end'],
    ];
    t.strictSame(await linesOf('one\n\nzwölf\nend', size), lines, 'without a last line end');
    t.strictSame(await linesOf('one\n\nzwölf\nend\n', size), lines, 'with one');
  }
  t.strictSame(await linesOf('', 9), []);
  t.strictSame(await linesOf('\n', 9), [[1, '']]);
});

test('a line may have 16 KiB; a longer one is reported without its bytes, and the next line is read', async (t) => {
  const [fits, long] = ['x'.repeat(LONGEST_LINE), 'y'.repeat(LONGEST_LINE + 1)];
  for (const size of [1000, 1_000_000])
    t.strictSame(await linesOf(`${fits}\n${long}\nlast\n${long}`, size), [
      [1, fits],
      [2, null],
      [3, 'last'],
      [4, null],
    ]);
});

test('no more than one chunk is read ahead, and an endless line takes no memory', async (t) => {
  let produced = 0;
  async function* endless(): AsyncGenerator<Uint8Array> {
    for (let i = 0; i < 3000; i++) {
      produced++;
      yield await Promise.resolve(Buffer.from(i < 1000 ? 'a line\n' : 'x'.repeat(64 * 1024)));
    }
  }
  let taken = 0;
  for await (const { bytes } of readLines(endless())) {
    taken++;
    if (taken <= 1000) t.equal(produced, taken);
    else t.equal(bytes, null, 'of 125 MiB');
  }
  t.equal(taken, 1001);
});
