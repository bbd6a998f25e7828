import { test, type Test } from 'tap';
import { bearer } from '../support/client.ts';
import { basic } from '../support/registered-service.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, headersOf, inParallel, type Attacked } from './operations.ts';
import { aTarget, assertStillGood, credentialsFor, recordOf, type Target } from './target.ts';

/** Properties of an account, a token or a registered service, and common names from other services. */
const MEMBERS = (
  'id username name email password user_id userId sub sid gen role roles admin isAdmin is_admin ' +
  'permissions scope rights may disabled disabled_at disabledAt created_at createdAt created_by ' +
  'deleted_at email_verified emailVerified password_hash passwordHash hash tokens type token ' +
  'access_token refresh_token exp expires_at expires_in revoked_at revokedAt end_reason latest ' +
  'confirmed version skeleton user data $set create connect'
).split(' ');

/** What `null` removes. */
const REMOVABLE: Record<string, readonly string[]> = {
  changeUser: ['external_id', 'locale'],
  changeProfile: ['locale'],
};

/** Operations with a JSON body; the other properties of the body are valid. */
function operationsWithBody(target: Target): Attacked[] {
  const { username, password } = target.account;
  return attackedOperations()
    .filter(({ contentType }) => contentType === 'application/json')
    .map((operation) => ({
      ...operation,
      body: { ...operation.body, ...(operation.name === 'logIn' && { username, password }) },
    }));
}

async function send(target: Target, operation: Attacked, values: unknown, token = target.pair.access_token) {
  const response = await fetch(target.url + operation.path, {
    method: operation.method,
    headers: { ...headersOf(operation), ...credentialsFor(target, operation, token) },
    body: JSON.stringify(values),
  });
  return { status: response.status, text: await response.text() };
}

test('no body accepts an undocumented property', async (t) => {
  const target = await aTarget(t);
  const operations = operationsWithBody(target);
  t.ok(operations.length >= 3, 'at least signup, login and the creation of a long-lived token');
  const before = await recordOf(target);
  const taken: string[] = [];
  const attempts = operations.flatMap((operation) =>
    MEMBERS.filter((name) => !(name in (operation.body ?? {}))).map((name) => ({ operation, name })),
  );
  await inParallel(attempts, async ({ operation, name }) => {
    const { status, text } = await send(target, operation, { ...operation.body, [name]: 1 });
    const isNamed = text.includes(`"path":"/${name}","code":"unknown"`);
    if (status !== 400 || !isNamed) taken.push(`${operation.name} with ${name} answers ${status} ${text}`);
  });
  t.strictSame(taken, []);
  t.strictSame(await recordOf(target), before, 'nothing was written');
});

test('no property accepts a value of another type, and none is converted', async (t) => {
  const target = await aTarget(t);
  const before = await recordOf(target);
  const attempts = operationsWithBody(target).flatMap((operation) =>
    Object.entries(operation.body ?? {}).flatMap(([name, example]) =>
      wrongFor(example)
        // It removes the value.
        .filter((value) => !(value === null && REMOVABLE[operation.name]?.includes(name)))
        .map((value) => ({ operation, name, value })),
    ),
  );
  const taken: string[] = [];
  await inParallel(attempts, async ({ operation, name, value }) => {
    const { status, text } = await send(target, operation, { ...operation.body, [name]: value });
    if (status !== 400 || !text.includes(`"path":"/${name}`))
      taken.push(`${operation.name} with ${name} as ${JSON.stringify(value)} answers ${status} ${text}`);
  });
  t.ok(attempts.length > 50);
  t.strictSame(taken, []);
  t.strictSame(await recordOf(target), before, 'nothing was written');
});

test('a body without a property that it must have is refused, and so is one that is no object', async (t) => {
  const target = await aTarget(t);
  const before = await recordOf(target);
  const taken: string[] = [];
  for (const operation of operationsWithBody(target)) {
    const refuses = async (what: string, path: string, values: unknown) => {
      const { status, text } = await send(target, operation, values);
      const isNamed = text.includes('"code":"validation_failed"') && text.includes(`"path":"${path}"`);
      if (status !== 400 || !isNamed) taken.push(`${operation.name} ${what} answers ${status} ${text}`);
    };
    for (const name of operation.required)
      await refuses(`without ${name}`, `/${name}`, { ...operation.body, [name]: undefined });
    for (const name of operation.required) await refuses('with no property', `/${name}`, {});
    for (const values of [null, [], 'ada', 5, true])
      await refuses(`with ${JSON.stringify(values)}`, '', values);
    if (operation.required.length === 0 && operation.name !== 'takeMails')
      await refuses('with no property', NEEDED[operation.name] ?? '', {});
  }
  t.strictSame(taken, []);
  t.strictSame(await recordOf(target), before, 'nothing was written');
});

/** What an operation demands that takes one of two forms of body. */
const NEEDED: Record<string, string> = { completeLogin: '/login_token' };

/** Values of other types than this one has. Some are operators of query builders. */
function wrongFor(example: unknown): unknown[] {
  const operators = [{}, { not: '' }, { contains: '' }, { $ne: null }, { set: 'x' }, { equals: 'x' }];
  const others = [5, null, ...operators];
  if (typeof example === 'string') return [...others, true, ['x']];
  if (typeof example === 'boolean') return [...others, 0, 1, '', 'true', 'false', [true]];
  if (typeof example === 'number') return [true, '5', [5], ...operators, null, 1.5];
  if (Array.isArray(example)) {
    const wrongItem = typeof example[0] === 'number' ? '5' : 5;
    return [...others, true, 'x', [wrongItem], [null], [['x']], { 0: 'x', length: 1 }];
  }
  if (typeof example === 'object') return [5, true, 'x', null, ['x'], ...operators];
  throw new Error(`no wrong values are known for ${JSON.stringify(example)}`);
}

test('undocumented parameters do not select another user', async (t) => {
  const target = await aTarget(t);
  const query = new URLSearchParams(MEMBERS.map((name): [string, string] => [name, '999']));
  query.delete('id');
  const { url, pair } = target;
  const other = {
    'x-auth-user': '999',
    'x-auth-username': 'root',
    'x-user-id': '999',
    'x-auth-roles': 'admin',
  };
  const response = await fetch(`${url}/api/auth/verify?${query.toString()}`, {
    headers: { ...bearer(pair.access_token), ...other },
  });
  t.equal(response.headers.get('x-auth-user'), String(pair.user.id), 'verify names the owner of the token');
  t.equal(response.headers.get('x-auth-username'), pair.user.username);
  await assertIntrospection(t, target);
  for (const path of ['/api/auth', `/api/auth/1`]) {
    const { status } = await fetch(`${url}${path}?user_id=1&all=true`, {
      method: 'DELETE',
      headers: bearer(pair.access_token),
    });
    t.equal(status, 400, `a malformed revocation: ${path}`);
  }
  await assertStillGood(t, target);
});

/** RFC 6749, section 3.1: a server must ignore unknown parameters of a form. */
async function assertIntrospection(t: Test, { url, pair, client }: Target): Promise<void> {
  const response = await fetch(`${url}/api/auth/introspect`, {
    method: 'POST',
    headers: basic(client),
    body: new URLSearchParams({
      token: pair.access_token,
      active: 'false',
      sub: '999',
      username: 'root',
      client_id: 'other',
      roles: 'admin',
      exp: '9999999999',
    }),
  });
  t.match(await response.json(), {
    active: true,
    sub: String(pair.user.id),
    username: pair.user.username,
    client_id: 'latchkey',
  });
}
