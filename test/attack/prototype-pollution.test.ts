import { test, type Test } from 'tap';
import { bearer } from '../support/client.ts';
import { signUpOver } from '../support/over-http.ts';
import { basic } from '../support/registered-service.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf, inParallel, type Attacked } from './operations.ts';
import { aTarget, assertStillGood, credentialsFor, recordOf, type Target } from './target.ts';

/** Properties of the prototypes before an attack. The instance runs in this process, so they are its prototypes too. */
const PROTOTYPES = [Object, Array, Function, String, Map, Promise, Error].map(
  ({ prototype }) => prototype as object,
);

function ownNames(): string[][] {
  return PROTOTYPES.map((prototype) => Reflect.ownKeys(prototype).map(String));
}

/** The attack added no property to any object. */
function assertClean(t: Test, before: string[][]): void {
  t.strictSame(ownNames(), before, 'the prototypes are unchanged');
  const object: Record<string, unknown> = {};
  for (const name of ['polluted', 'admin', 'disabled', 'status', 'password'])
    t.equal(object[name], undefined, name);
}

const CARGO = '{"polluted":true,"admin":true,"status":200}';
/** Texts to insert at the start of a JSON object. */
const MEMBERS = [
  `"__proto__":${CARGO}`,
  `"__proto__":null`,
  `"__proto__":"polluted"`,
  `"\\u005f_proto__":${CARGO}`,
  `"constructor":{"prototype":${CARGO}}`,
  `"constructor":{"constructor":{"prototype":${CARGO}}}`,
  `"prototype":${CARGO}`,
  `"__proto__":{"__proto__":${CARGO}}`,
  `"toString":1`,
  `"hasOwnProperty":1`,
  `"toJSON":1`,
  `"then":1`,
];

function send(target: Target, operation: Attacked, body: string) {
  return fetch(target.url + operation.path, {
    method: operation.method,
    headers: { ...headersOf(operation), ...credentialsFor(target, operation) },
    body,
  });
}

test('a JSON body cannot change a prototype', async (t) => {
  const target = await aTarget(t);
  const [names, record] = [ownNames(), await recordOf(target)];
  const operations = attackedOperations().filter(({ contentType }) => contentType === 'application/json');
  const attempts = operations.flatMap((operation) => {
    const good = bodyOf(operation) ?? '{}';
    return MEMBERS.flatMap((member) => [
      { operation, body: good.replace('{', `{${member},`) },
      { operation, body: good.replace(/\}$/, `,${member}}`) },
      { operation, body: good.replace(/:"[^"]*"/, `:{${member}}`) },
      { operation, body: `[{${member}}]` },
    ]);
  });
  const taken: string[] = [];
  await inParallel(attempts, async ({ operation, body }) => {
    const { status } = await send(target, operation, body);
    if (status !== 400) taken.push(`${operation.name} ${body} answers ${status}`);
  });
  t.ok(attempts.length > 100);
  t.strictSame(taken, []);
  assertClean(t, names);
  t.strictSame(await recordOf(target), record, 'nothing was written');
  await assertStillGood(t, target);
});

test('a form cannot change a prototype', async (t) => {
  const target = await aTarget(t);
  const { url, pair, client } = target;
  const names = ownNames();
  for (const parameters of [
    '__proto__=x',
    '__proto__[polluted]=1',
    '__proto__.polluted=1',
    '__proto__%5Bpolluted%5D=1',
    'constructor[prototype][polluted]=1',
    'constructor.prototype.polluted=1',
    'constructor=x&prototype=y&toString=z&hasOwnProperty=1&then=1',
    '%5f_proto__=x',
  ]) {
    for (const form of [
      `${parameters}&token=${pair.access_token}`,
      `token=${pair.access_token}&${parameters}`,
    ]) {
      const headers = { ...basic(client), 'content-type': 'application/x-www-form-urlencoded' };
      const response = await fetch(`${url}/api/auth/introspect`, { method: 'POST', headers, body: form });
      t.match(await response.json(), { active: true, username: pair.user.username }, parameters);
    }
  }
  assertClean(t, names);
});

test('queries, paths, headers and names of clients and users cannot change a prototype', async (t) => {
  const target = await aTarget(t);
  const { url, pair } = target;
  const names = ownNames();
  const statuses = new Set<number>();
  for (const { method, path, contentType } of attackedOperations(999_999)) {
    if (
      contentType !== null ||
      path.endsWith('/revocations') ||
      (method === 'DELETE' && path === '/api/user/tokens')
    )
      continue;
    for (const query of [
      '__proto__[polluted]=1',
      '__proto__=x&constructor=y',
      'constructor[prototype][polluted]=1',
      'id[__proto__][polluted]=1',
      '__proto__.polluted=1',
    ]) {
      const headers = { ...bearer('x'), __proto__: 'x', constructor: 'x', 'x-forwarded-for': '__proto__' };
      const response = await fetch(`${url}${path}?${query}`, { method, headers });
      statuses.add(response.status);
    }
  }
  for (const name of ['__proto__', 'constructor', 'prototype', 'toString']) {
    for (const path of [
      `/api/auth/${name}`,
      `/api/auth/llt/${name}`,
      `/${name}`,
      `/docs/${name}`,
      `/api/${name}`,
    ]) {
      statuses.add(
        (await fetch(url + path, { method: 'DELETE', headers: bearer(pair.access_token) })).status,
      );
    }
    const asClient = await fetch(`${url}/api/auth/introspect`, {
      method: 'POST',
      headers: basic({ serviceId: name, secret: 'prototype-secret' }),
      body: new URLSearchParams({ token: 'x' }),
    });
    t.equal(asClient.status, 401, `no client has the name ${name}`);
    const login = await fetch(`${url}/api/auth`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ username: name, password: 'prototype-secret' }),
    });
    t.equal(login.status, 401, `no user has the name ${name}`);
  }
  t.strictSame(
    [...statuses].filter((status) => status >= 500),
    [],
    `answers: ${[...statuses].sort().join()}`,
  );
  assertClean(t, names);
});

test('a user named like a member of a prototype is an ordinary user', async (t) => {
  const { url } = await aTarget(t);
  const before = ownNames();
  for (const username of ['__proto__', 'constructor', 'hasownproperty']) {
    const account = {
      username,
      name: 'prototype',
      email: `${username}@example.com`,
      password: 'difference engine',
    };
    const pair = await signUpOver(url, { ...account, device: '__proto__' });
    const verified = await fetch(`${url}/api/auth/verify`, { headers: bearer(pair.access_token) });
    t.equal(verified.headers.get('x-auth-username'), username);
  }
  assertClean(t, before);
});
