import type { Test } from 'tap';
import { anAccount, call, logIn, signUp, type Target } from '../support/client.ts';
import { buildTestApp } from '../support/app.ts';
import { refused } from '../support/problem.ts';
import { countRows, sql } from '../support/sql.ts';
import { onAStore } from '../support/stores.ts';
import '../support/watch-leaks.ts';

// The threat: users, operators or other services mistake one account for another.

const ROUTE = 'POST /api/auth/signup';
const attempt = (target: Target, overrides: Parameters<typeof anAccount>[0]) =>
  call(target, ROUTE, { payload: anAccount(overrides) });

/** Each looks like `scope`, `pay`, `you` or `pil`, or nearly so, and uses a single script. */
const LOOK_ALIKES = {
  Cyrillic: ['ѕсоре', 'рау'],
  Greek: ['γου'],
  'other Latin letters': ['p\u0251y', 's\u1d04ope', 'p\u0131l'],
  'a dot on a letter that has one': ['pi\u0307l'],
  fullwidth: ['ｓｃｏｐｅ', 'ｐａｙ'],
  'mathematical letters': ['𝓼𝓬𝓸𝓹𝓮', '𝐩𝐚𝐲'],
};

const MIXED = ['sсope', 'ѕcope', 'рay', 'pаy', 'scορe', 'pαy', 'scop\u04bd', 'pay\u0661'];
const INVISIBLE = [
  'pay\u200b',
  'p\u200day',
  'pa\u00ady',
  '\u2060pay',
  '\u202eyap',
  'pay\u2066',
  'p\u034fay',
  'pay\ufe0f',
  'pay\u3164',
  'pay\u{e0061}',
];
const BLANK = [
  '\u3164',
  '\u2800',
  '\u115f\u1160',
  '\uffa0\uffa0',
  '\u{1d159}',
  '\u200b',
  '\u0301',
  '\u2800\u2800',
];
const STACKED = ['pa\u0301\u0301y', 'p\u0300\u0301\u0302\u0303\u0304ay', '\u0301pay'];

onAStore('look-alike names', async (t, env) => {
  const target = await buildTestApp(t, { env });
  for (const username of ['scope', 'pay', 'you', 'pil']) await signUp(target, anAccount({ username }));

  await t.test('signup refuses a name that looks like an existing one', async (t) => {
    const before = await countRows(target.databaseUrl);
    for (const [how, names] of Object.entries(LOOK_ALIKES))
      for (const username of names) {
        t.comment(how);
        refused(t, await attempt(target, { username }), 400, 'username_taken');
      }
    for (const username of [...MIXED, ...INVISIBLE, ...BLANK, ...STACKED])
      refused(t, await attempt(target, { username }), 400, 'validation_failed', ['/username']);
    t.strictSame(await countRows(target.databaseUrl), before, 'nothing was written');
  });

  await t.test('signup refuses a name that is invisible', async (t) => {
    for (const name of [...BLANK, 'Ada\u202e', 'A\u200bda', 'Ada\u2028Admin', '\u200dAda'])
      refused(t, await attempt(target, { name }), 400, 'validation_failed', ['/name']);
    for (const name of ['می‌خواهم', '❤️‍🔥', 'Zoë O’Brien'])
      t.equal((await attempt(target, { name })).statusCode, 200);
  });

  await t.test(
    'signup refuses an address that differs from another only in invisible characters',
    async (t) => {
      const { email } = anAccount();
      await signUp(target, { ...anAccount(), email });
      for (const hidden of ['\u200b', '\u00ad', '\u2060', '\u202e', '\u200d', '\u3164'])
        refused(t, await attempt(target, { email: `x${hidden}${email}` }), 400, 'validation_failed', [
          '/email',
        ]);
    },
  );

  await t.test('signup refuses names of authority', async (t) => {
    for (const username of [
      'admin',
      'ADMIN',
      'ａdmin',
      'adm\u0131n',
      'admi\u0307n',
      'support',
      'ѕу\u0455tem',
    ])
      t.equal((await attempt(target, { username })).statusCode, 400, encodeURI(username));
  });

  await t.test('names that only resemble each other are different accounts', async (t) => {
    for (const username of ['modern', 'modem', 'a1', 'al', 'ai', 'zoe', 'zoë', 'адам'])
      t.equal((await attempt(target, { username })).statusCode, 200, username);
  });

  await t.test('one of two racing signups wins', (t) => race(t, target));

  await t.test('an account older than the rules can log in', async (t) => {
    for (const old of ['root', 'p\u200bay2', 'рay2', '\u3164\u3164']) {
      const { username } = anAccount();
      await signUp(target, anAccount({ username }));
      await sql(
        target.databaseUrl,
        'UPDATE users SET username = $1, username_skeleton = $1 WHERE username = $2',
        [old.normalize('NFKC'), username],
      );
      t.equal((await logIn(target, old)).user.username, old.normalize('NFKC'), encodeURI(old));
    }
  });
});

async function race(t: Test, target: Target): Promise<void> {
  const cyrillic = 'ехсес';
  const names = [cyrillic, 'excec', cyrillic, 'excec'];
  const answers = await Promise.all(names.map((username) => attempt(target, { username })));
  t.equal(answers.filter(({ statusCode }) => statusCode === 200).length, 1);
  for (const answer of answers) if (answer.statusCode !== 200) refused(t, answer, 400, 'username_taken');
}
