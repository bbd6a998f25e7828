import { test, type Test } from 'tap';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { exchange } from '../support/raw.ts';
import { basic } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf, inParallel, type Attacked } from './operations.ts';
import { aTarget, assertStillGood, recordOf, type Target } from './target.ts';

/** Texts that would leave a quoted value and have an effect that shows in the database or the answer. */
const SQL = [
  "' OR '1'='1",
  "' OR 1=1 --",
  "') OR ('1'='1",
  '" OR ""="',
  "'; CREATE TABLE injected (x int); --",
  "'); CREATE TABLE injected (x int); --",
  '1; CREATE TABLE injected (x int)',
  "'||(SELECT lo_create(0))||'",
  "' UNION SELECT 1, username, email, name, password_hash, now(), NULL FROM users --",
  "' AND 1=CAST((SELECT password_hash FROM users LIMIT 1) AS int) --",
  "'; UPDATE users SET disabled_at = now(); --",
  "'; DELETE FROM tokens; --",
  "\\'; DELETE FROM tokens; --",
  '$$; DELETE FROM tokens; $$',
  '$1',
  '%',
  '_',
  '%_%',
  "E'\\047",
  '\u02bc; DELETE FROM tokens; --',
  '\uff07 OR 1=1 --',
  '/**/OR/**/1=1',
  "' OR pg_sleep(0) IS NOT NULL --",
];

/** Texts that only a database writes. */
const TELLTALE =
  /syntax error|unterminated|pg_|relation "|prisma|postgres|select |invalid input syntax|22P02|42601/i;

interface Attempt {
  what: string;
  request: () => Promise<{ status: number; text: string }>;
  /** Statuses that show that the text was handled as text. */
  expects: number[];
}

/** Makes all attempts, then compares the database with its state before. */
async function assertHarmless(t: Test, target: Target, attempts: Attempt[]): Promise<void> {
  const before = await recordOf(target);
  const problems: string[] = [];
  await inParallel(attempts, async ({ what, request, expects }) => {
    const { status, text } = await request();
    if (!expects.includes(status)) problems.push(`${what} answers ${status} ${text}`);
    // The answer repeats the name of an unknown property to its caller.
    const ours = text.replace(/"path":"(?:[^"\\]|\\.)*"/g, '');
    if (TELLTALE.test(ours)) problems.push(`${what} shows output of the database: ${text}`);
  });
  t.ok(attempts.length > 20, `${attempts.length} attempts`);
  t.strictSame(problems, []);
  t.strictSame(await recordOf(target), before, 'no row and no table was added, changed or deleted');
  const [objects] = await sql<{ count: number }>(
    target.databaseUrl,
    'SELECT count(*)::int AS count FROM pg_largeobject_metadata',
  );
  t.strictSame(objects, { count: 0 }, 'no other object was added');
  await assertStillGood(t, target);
}

async function ask(url: string, init: RequestInit) {
  const response = await fetch(url, init);
  return { status: response.status, text: await response.text() };
}

function send({ url }: Target, operation: Attacked, authorization: string, values: object) {
  return ask(url + operation.path, {
    method: operation.method,
    headers: { ...headersOf(operation), authorization },
    body: bodyOf(operation, values) ?? null,
  });
}

test('SQL in a login opens no account', async (t) => {
  const target = await aTarget(t);
  const { username, email, password } = target.account;
  const logIn = operation('logIn');
  const names = SQL.flatMap((text) => [text, `${username}${text}`, `${email}${text}`, `${text}@example.com`]);
  await assertHarmless(t, target, [
    ...names.map((name) => ({
      what: `username ${name}`,
      request: () => send(target, logIn, '', { username: name, password }),
      expects: [401],
    })),
    ...SQL.flatMap((text) => [text, password + text]).map((text) => ({
      what: `password ${text}`,
      request: () => send(target, logIn, '', { username, password: text }),
      expects: [401],
    })),
  ]);
});

test('SQL in the fields of an account or a device is stored as text', async (t) => {
  const target = await aTarget(t);
  const { url, databaseUrl } = target;
  let kept = 0;
  for (const text of SQL) {
    const account = anAccount({ name: text, password: `crown jewels ${text}` });
    const signedUp = await send(target, operation('signUp'), '', { ...account, device: text });
    t.equal(signedUp.status, 200, `name and device ${text}`);
    const { user, access_token: token } = JSON.parse(signedUp.text) as Pair;
    t.equal(user.name, text);
    const created = await send(target, operation('createLongLivedToken'), `Bearer ${token}`, {
      device: text,
    });
    t.equal(created.status, 200);
    const profile = (await (await fetch(`${url}/api/user`, { headers: bearer(token) })).json()) as {
      tokens: { name: string }[];
    };
    t.strictSame(
      profile.tokens.map(({ name }) => name),
      [text, text],
      'the user’s own tokens and no others',
    );
    // Some texts are valid usernames; then each is a name like any other.
    const squeezed = text.replace(/\s/g, '');
    const other = anAccount({ username: squeezed, email: `${squeezed.replaceAll('@', '')}x@example.com` });
    const answer = await send(target, operation('signUp'), '', other);
    t.ok([200, 400].includes(answer.status), `username ${squeezed}: ${answer.status}`);
    if (answer.status !== 200) continue;
    kept++;
    const { user: named } = JSON.parse(answer.text) as Pair;
    const rows = await sql(databaseUrl, 'SELECT id::int FROM users WHERE username = $1', [named.username]);
    t.strictSame(rows, [{ id: named.id }]);
  }
  t.ok(kept > 3, 'some texts were valid usernames');
  await assertHarmless(t, target, attemptsInPlaces(target));
});

/** Ids, queries, headers, forms and credentials. */
function attemptsInPlaces(target: Target): Attempt[] {
  const { url, pair, client } = target;
  const headers = bearer(pair.access_token);
  const asService = basic(client);
  const form = (path: string, by: Record<string, string>, body: Record<string, string>) =>
    ask(`${url}/api/auth/${path}`, { method: 'POST', headers: by, body: new URLSearchParams(body) });
  return SQL.flatMap((text) => {
    const part = encodeURIComponent(text);
    const places: [what: string, request: Attempt['request'], expects: number[]][] = [
      ['id in a path', () => ask(`${url}/api/auth/${part}`, { method: 'DELETE', headers }), [400, 404]],
      ['id after a number', () => ask(`${url}/api/auth/1${part}`, { method: 'DELETE', headers }), [400, 404]],
      ['id in a query', () => ask(`${url}/api/auth?id=${part}`, { method: 'DELETE', headers }), [400]],
      ['name in a query', () => ask(`${url}/api/auth?${part}=1`, { method: 'DELETE', headers }), [400]],
      [
        'id of a long-lived token',
        () => ask(`${url}/api/auth/llt/${part}`, { method: 'DELETE', headers }),
        [400, 404],
      ],
      ['cursor of a list', () => ask(`${url}/api/user/tokens?ended_before=${part}`, { headers }), [400]],
      ['ids to keep', () => ask(`${url}/api/user/tokens?keep=${part}`, { method: 'DELETE', headers }), [400]],
      ['bearer token', () => exchanged(target, 'GET /api/user', `Authorization: Bearer ${text}`), [400, 401]],
      [
        'position in the feed',
        () => exchanged(target, 'GET /api/auth/revocations', `Last-Event-ID: ${text}`),
        [400, 401],
      ],
      ['token in a form', () => form('introspect', asService, { token: text }), [200]],
      [
        'hint in a form',
        () => form('introspect', asService, { token: pair.access_token, token_type_hint: text }),
        [200],
      ],
      ['token to revoke', () => form('revoke', asService, { token: text }), [200]],
      ['client id', () => form('introspect', basic({ ...client, serviceId: part }), { token: 'x' }), [401]],
      ['client secret', () => form('introspect', basic({ ...client, secret: part }), { token: 'x' }), [401]],
      ['request id', () => exchanged(target, 'GET /api/user', `X-Request-Id: ${text}`), [400, 401]],
      ['user agent', () => exchanged(target, 'GET /api/user', `User-Agent: ${text}`), [400, 401]],
      ['forwarded address', () => exchanged(target, 'GET /api/user', `X-Forwarded-For: ${text}`), [400, 401]],
    ];
    return places.map(([what, request, expects]) => ({ what: `${what}: ${text}`, request, expects }));
  });
}

async function exchanged({ url }: Target, line: string, header: string) {
  const received = await exchange(
    url,
    `${line} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${header}\r\n\r\n`,
  );
  return { status: Number(received.split(' ')[1]), text: received };
}

function operation(name: string): Attacked {
  const found = attackedOperations().find((each) => each.name === name);
  if (!found) throw new Error(`no such operation`);
  return found;
}
