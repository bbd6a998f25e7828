import { createServer } from 'node:http';
import { test } from 'tap';
import { aDrillRange, type Answer } from '../support/drill-range.ts';
import { anAccount, signUp } from '../support/client.ts';
import { listen } from '../support/listen.ts';
import { redisMissing } from '../support/redis.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';

const skip = { skip: redisMissing };

interface Found {
  verdict: string;
  reason?: string;
  user: number;
  deleted: boolean;
  urls: { url: string; before: number; after: number | null; refused_after_ms: number | null }[];
}

const foundIn = ({ stdout }: { stdout: string }) => JSON.parse(stdout) as Found;

test(
  'a drill passes if every URL refuses the token after the logout, and leaves no account',
  skip,
  async (t) => {
    const range = await aDrillRange(t);
    const ran = await range.drill(['/service', 'orders=/service/orders']);
    t.equal(ran.code, 0, ran.stderr);
    const found = foundIn(ran);
    t.match(found, {
      verdict: 'passed',
      deleted: true,
      done: true,
      counts: { pending: 0, unknown: 0 },
      urls: [
        { url: `${range.url}/service`, audience: null, before: 200, after: 401, refused_after_ms: Number },
        { url: `${range.url}/service/orders`, audience: 'orders', before: 200, after: 401 },
      ],
    });
    t.match(ran.audit, [
      {
        event: 'drill',
        outcome: 'success',
        subject: { user_id: found.user },
        details: { verdict: 'passed', urls: 2, deleted: true },
      },
    ]);
    t.strictSame(await range.left(), []);
    const people = await range.drill(['/service'], ['--timeout=5']);
    t.equal(people.code, 0);
  },
);

/** Each URL with what it answers, and why the drill measured nothing. */
const BAD: [urls: string[], answer: Answer, reason: RegExp][] = [
  [['/service'], () => 401, /service answered 401 to a good token/],
  [['/service'], () => 500, /service answered 500 to a good token/],
  [['/service'], () => 429, /service answered 429 to a good token/],
  [['/service'], () => 302, /service answered 302 to a good token/],
  [['/service'], () => null, /service gave no answer to a good token/],
  [['/service/orders'], (own) => own, /orders answered 401 to a good token/],
  [['shop=/service'], (own) => own, /POST api\/auth\/token answered 400 invalid_target/],
  [[], (own) => own, /no --url is given and no service confirms/],
];

test('a drill that could measure nothing says why, and passes nothing', skip, async (t) => {
  const range = await aDrillRange(t);
  for (const [urls, answer, reason] of BAD) {
    range.answerWith(answer);
    const ran = await range.drill(urls);
    t.equal(ran.code, 1);
    t.match(foundIn(ran), { verdict: 'not_run', reason, deleted: true });
    t.match(ran.audit, [{ event: 'drill', details: { verdict: 'not_run', deleted: true } }]);
  }
  const closed = await listen(
    t,
    createServer((request) => request.socket.destroy()),
  );
  const nobody = await range.drill([], [`--latchkey=${closed}`]);
  t.match(foundIn(nobody), { verdict: 'not_run', reason: /^POST api\/auth got no answer from 127/ });
  t.strictSame(await range.left(), []);
});

test('a drill whose login a limit refuses measures nothing', skip, async (t) => {
  const range = await aDrillRange(t, { RATE_LIMIT_LOGIN: '1/60' });
  t.match(foundIn(await range.drill(['/service'])), { verdict: 'passed' });
  const ran = await range.drill(['/service']);
  t.equal(ran.code, 1);
  t.match(foundIn(ran), { verdict: 'not_run', reason: 'POST api/auth answered 429 rate_limited' });
  t.strictSame(await range.left(), []);
});

test('a drill fails if a URL goes on accepting, or answers anything but 401', skip, async (t) => {
  const range = await aDrillRange(t);
  for (const [later, shown] of [
    [200, 200],
    [503, 503],
    [302, 302],
    [null, null],
  ] as const) {
    range.answerWith((own) => (own === 401 ? later : own));
    const ran = await range.drill(['/service', 'orders=/service/orders'], ['--timeout=1']);
    t.equal(ran.code, 1);
    const { verdict, urls, deleted } = foundIn(ran);
    t.strictSame([verdict, deleted], ['failed', true]);
    t.match(urls, [
      { before: 200, after: shown, refused_after_ms: null },
      { before: 200, after: shown },
    ]);
  }
  range.answerWith(() => 403);
  t.match(foundIn(await range.drill(['/service'], ['--timeout=1'])), {
    verdict: 'failed',
    urls: [{ before: 403, after: 403 }],
  });
});

test('a token that was accepted until it expired passes no drill', skip, async (t) => {
  const range = await aDrillRange(t, { EXCHANGED_TOKEN_TTL: '10' });
  let expiresAt = 0;
  range.answerWith((own) => {
    if (own === 200) expiresAt = Date.now() + 10_000;
    return Date.now() < expiresAt ? 200 : own;
  });
  const ran = await range.drill(['orders=/service/orders']);
  t.equal(ran.code, 1);
  t.match(foundIn(ran), { verdict: 'failed', urls: [{ before: 200, refused_after_ms: null }] });
});

test('wrong arguments open no account', skip, async (t) => {
  const range = await aDrillRange(t);
  for (const [more, message] of [
    [['--timeout=0'], /from 1 to 600/],
    [['--timeout=601'], /from 1 to 600/],
    [['--url=shop.example.com'], /--url needs a URL/],
    [['--url=ftp://shop.example.com'], /--url needs a URL/],
    [['--url=https://ada:secret@shop.example.com'], /without a user/],
    [['--url=a b=https://shop.example.com'], /AUDIENCE=URL/],
    [['--latchkey=localhost'], /--latchkey needs a URL/],
  ] as const) {
    const ran = await range.drill([], more);
    t.match(ran, { code: 2, stderr: message }, more.join());
    t.notMatch(ran.stderr, 'secret');
  }
  t.strictSame(await range.left(), []);
  t.match(await range.drill([], ['more']), { code: 2 });
});

test('nobody’s account but a drill’s is deleted', skip, async (t) => {
  const range = await aDrillRange(t);
  const { user } = await signUp(range.target, anAccount({ username: 'latchkey-drill-0' }));
  const { user: linked } = await signUp(range.target);
  await sql(
    range.env.DATABASE_URL,
    `UPDATE users SET external_id = 'latchkey-drill:of-another', created_at = created_at - interval '2 hours'
      WHERE id = $1`,
    [linked.id],
  );
  t.match(foundIn(await range.drill(['/service'])), { verdict: 'passed' });
  const { user: again } = await signUp(range.target);
  t.ok(again.id > user.id);
  t.strictSame(await range.left(), [{ id: String(linked.id) }]);
});
