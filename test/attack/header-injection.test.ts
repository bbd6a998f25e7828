import { test } from 'tap';
import { anAccount, bearer, type Pair } from '../support/client.ts';
import { exchange } from '../support/raw.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf } from './operations.ts';
import { aTarget, assertStillGood, type Target, credentialsFor } from './target.ts';

/** Headers that an answer must not get, and ways to smuggle them in. */
const LINE = 'X-Injected: 1';
const SMUGGLED = [
  `lk\r\n${LINE}`,
  `lk\n${LINE}`,
  `lk\r${LINE}`,
  `lk\r\n\r\n<script>${LINE}`,
  `lk%0d%0a${LINE}`,
  `lk%0a${LINE}`,
  `lk%E5%98%8D%E5%98%8A${LINE}`,
  // The low bytes of these characters are CR and LF.
  `lk\u560d\u560a${LINE}`,
  `lk\u010d\u010a${LINE}`,
  `lk\u0085${LINE}`,
  `lk\u2028${LINE}`,
  `lk\v${LINE}`,
  `lk\0${LINE}`,
];

/** Problems of all bytes received over one connection. @param what names the bytes sent. */
function faultsIn(received: string, what: string): string[] {
  const head = received.slice(0, received.indexOf('\r\n\r\n'));
  const faults: [boolean, string][] = [
    [received.split(/^HTTP\/1\.1 /m).length !== 2, 'more or fewer than one answer'],
    [/^(?:x-injected|set-cookie)/im.test(head), 'a header was added'],
    [/[^\r]\n|\r[^\n]|[^\r\n\t -~]/.test(head), 'a header is not ASCII on a line of its own'],
    [/^location: *(?:\/\/|http)/im.test(head), 'the answer redirects the caller to another site'],
  ];
  return faults.filter(([isThere]) => isThere).map(([, fault]) => `${encodeURI(what)}: ${fault}`);
}

/** Sends raw bytes; the connection closes after one answer. */
function send(target: Target, line: string, headers: string[], body = ''): Promise<string> {
  const length = Buffer.byteLength(body);
  const head = [`${line} HTTP/1.1`, 'Host: x', 'Connection: close', `Content-Length: ${length}`, ...headers];
  return exchange(target.url, `${head.join('\r\n')}\r\n\r\n${body}`);
}

test('no field of a body adds a header to an answer', async (t) => {
  const target = await aTarget(t);
  const operations = attackedOperations().filter(({ contentType }) => contentType !== null);
  const faults: string[] = [];
  for (const operation of operations) {
    const { authorization } = credentialsFor(target, operation);
    const headers = [
      `Authorization: ${authorization}`,
      `Content-Type: ${headersOf(operation)['content-type'] ?? ''}`,
    ];
    for (const name of Object.keys(operation.body ?? {})) {
      for (const value of SMUGGLED) {
        const body = bodyOf(operation, { ...operation.body, [name]: value });
        const received = await send(target, `${operation.method} ${operation.path}`, headers, body);
        faults.push(...faultsIn(received, `${operation.name} ${name} ${value}`));
      }
    }
  }
  t.strictSame(faults, []);
  await assertStillGood(t, target);
});

test('no header, path or query adds a header to an answer', async (t) => {
  const target = await aTarget(t);
  const authorization = `Authorization: Bearer ${target.pair.access_token}`;
  const faults: string[] = [];
  const names = [
    'X-Request-Id',
    'traceparent',
    'tracestate',
    'User-Agent',
    'X-Forwarded-For',
    'X-Forwarded-Host',
  ];
  names.push(
    'Forwarded',
    'Origin',
    'Referer',
    'Accept',
    'If-None-Match',
    'Last-Event-ID',
    'X-Auth-Username',
    'Expect',
  );
  for (const name of names) {
    for (const value of SMUGGLED.filter((each) => !each.includes('\r\n'))) {
      const received = await send(target, 'GET /api/auth/verify', [authorization, `${name}: ${value}`]);
      faults.push(...faultsIn(received, `${name}: ${value}`));
    }
  }
  const split = encodeURIComponent(`\r\n${LINE}`);
  for (const path of [
    ...[
      `/api/auth/llt/${split}`,
      `/api/auth/${split}`,
      `/${split}`,
      `/api/auth/verify/${split}`,
      `/docs/${split}`,
    ],
    ...[`/docs?${split}`, `/docs/..%2f${split}`, `//evil.example/${split}`, `/docs//evil.example/%2f..`],
    ...[
      `/api/auth?id=${split}`,
      `/api/user?x=${split}`,
      `/.well-known/jwks.json?${split}`,
      `/%0d%0a${LINE.replace(' ', '')}`,
    ],
  ]) {
    for (const method of ['GET', 'DELETE', 'OPTIONS', 'TRACE']) {
      const received = await send(target, `${method} ${path}`, [authorization]);
      faults.push(...faultsIn(received, `${method} ${path}`));
    }
  }
  t.strictSame(faults, []);
  await assertStillGood(t, target);
});

test('a caller’s request id is returned only if it is harmless', async (t) => {
  const target = await aTarget(t);
  for (const id of ['<script>', 'a b', 'a;b', 'a%0d%0ab', 'ä', '${jndi:ldap://x}', '../..', 'x'.repeat(65)]) {
    const received = await send(target, 'GET /nowhere', [`X-Request-Id: ${id}`]);
    const [, returned] = /^x-request-id: (.*)\r$/im.exec(received) ?? [];
    t.match(returned, /^[0-9a-f-]{36}$/, `${id} is replaced`);
    t.notOk(received.includes(id), 'nor in the body');
  }
});

test('a username of any script is ASCII in X-Auth-Username and can be decoded', async (t) => {
  const { url } = await aTarget(t);
  const signUp = (username: string) =>
    fetch(`${url}/api/auth/signup`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ ...anAccount(), username }),
    });
  let taken = 0;
  for (const username of [
    ...[
      'zoë',
      'ада',
      '李四',
      'אדה',
      'a%0d%0ax-injected:1',
      'a,b;c="d"',
      "a'b\\c",
      '%',
      '%%41',
      'a%2fb',
      '<b>',
      '$(x)',
    ],
    ...SMUGGLED,
  ]) {
    const response = await signUp(username);
    if (response.status === 400) continue;
    taken++;
    const { user, access_token: token } = (await response.json()) as Pair;
    const verified = await fetch(`${url}/api/auth/verify`, { headers: bearer(token) });
    t.equal(verified.status, 200);
    const header = verified.headers.get('x-auth-username') ?? '';
    t.match(header, /^[!-~]+$/, `${encodeURIComponent(username)} is ASCII`);
    t.equal(decodeURIComponent(header), user.username, 'the header decodes to the username');
    t.equal(verified.headers.get('x-injected'), null);
  }
  t.ok(taken >= 5, 'some of these names are valid');
});
