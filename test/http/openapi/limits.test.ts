import { readFileSync } from 'node:fs';
import { test } from 'tap';
import { buildTestApp } from '../../support/app.ts';
import { anAccount, call, signUp } from '../../support/client.ts';
import { resolve, type Document, type JsonSchema } from '../../support/openapi.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService, basic } from '../../support/registered-service.ts';

/** The reference shows limits that the domain enforces. Both must name the same ones. */
const document = JSON.parse(readFileSync('docs/openapi.json', 'utf8')) as Document;

const propertiesOf = (title: string) =>
  document.components.schemas[title]?.properties as Record<string, JsonSchema>;

/** A text of this length that is good otherwise. */
const TEXTS: Record<string, (length: number) => string> = {
  username: (length) => unique('u', length),
  name: (length) => 'n'.repeat(length),
  email: (length) => (length < 3 ? 'x'.repeat(length) : unique('e', length - 2) + '@x'),
  password: (length) => 'Zq7 '.repeat(300).slice(0, length - 1) + 'é',
  device: (length) => 'd'.repeat(length),
};

let count = 0;

function unique(letter: string, length: number): string {
  return length === 0 ? '' : String(count++).padStart(length, letter).slice(-length);
}

test('the limits of a signup are the documented ones', async (t) => {
  const target = await buildTestApp(t);
  const properties = propertiesOf('SignUp');
  t.strictSame(Object.keys(properties).sort(), Object.keys(TEXTS).sort());
  for (const [name, text] of Object.entries(TEXTS)) {
    const { minLength, maxLength } = properties[name] as { minLength: number; maxLength: number };
    const send = (length: number) =>
      call(target, 'POST /api/auth/signup', { payload: { ...anAccount(), [name]: text(length) } });
    const [shortest, longest] = [await send(minLength), await send(maxLength)];
    // A name of one letter may be refused for another reason: it looks like another one.
    t.notMatch(shortest.body, 'characters', `${name} of ${minLength}`);
    t.equal(longest.statusCode, 200, `${name} of ${maxLength}: ${longest.body}`);
    refused(t, await send(maxLength + 1), 400, 'validation_failed', [`/${name}`]);
    refused(t, await send(minLength - 1), 400, 'validation_failed', [`/${name}`]);
  }
});

test('what a documented pattern refuses, a signup refuses', async (t) => {
  const target = await buildTestApp(t);
  for (const [name, wrong] of Object.entries({
    username: ['a b', 'a@b', ''],
    email: ['ada', '@x', 'a@', 'a@b@c', 'a b@c'],
  })) {
    const pattern = new RegExp(String(propertiesOf('SignUp')[name]?.pattern), 'u');
    for (const value of wrong) {
      t.notMatch(value, pattern);
      const answer = await call(target, 'POST /api/auth/signup', {
        payload: { ...anAccount(), [name]: value },
      });
      refused(t, answer, 400, 'validation_failed', [`/${name}`]);
    }
    t.match(anAccount()[name as 'username' | 'email'], pattern);
  }
});

test('a login tries every text within the documented limits', async (t) => {
  const target = await buildTestApp(t);
  for (const name of ['username', 'password']) {
    const { minLength, maxLength } = propertiesOf('LogIn')[name] as { minLength: number; maxLength: number };
    const send = (length: number) =>
      call(target, 'POST /api/auth', {
        payload: { username: 'u', password: 'p', [name]: 'x'.repeat(length) },
      });
    for (const length of [minLength, maxLength]) refused(t, await send(length), 401, 'invalid_credentials');
    for (const length of [minLength - 1, maxLength + 1])
      refused(t, await send(length), 400, 'validation_failed', [`/${name}`]);
  }
});

test('the limits of roles are the documented ones', async (t) => {
  const target = await buildTestApp(t);
  const headers = basic(await aRegisteredService(target.databaseUrl, 'admin', ['users.write']));
  const { maxItems, uniqueItems, items } = propertiesOf('NewUser').roles as {
    maxItems: number;
    uniqueItems: boolean;
    items: { pattern: string };
  };
  t.ok(uniqueItems);
  const send = ({ password: _, ...account }: ReturnType<typeof anAccount>, roles: string[]) =>
    call(target, 'POST /api/users', { payload: { ...account, roles }, headers });
  const many = (length: number) => Array.from({ length }, (_, i) => `role:${i}`);
  const role = new RegExp(items.pattern);
  for (const good of [many(maxItems), ['x'.repeat(64)]]) {
    for (const each of good) t.match(each, role);
    t.equal((await send(anAccount(), good)).statusCode, 200);
  }
  refused(t, await send(anAccount(), many(maxItems + 1)), 400, 'validation_failed', ['/roles']);
  refused(t, await send(anAccount(), ['a', 'a']), 400, 'validation_failed', ['/roles']);
  for (const bad of ['x'.repeat(65), '', 'A', 'a b']) {
    t.notMatch(bad, role);
    refused(t, await send(anAccount(), [bad]), 400, 'validation_failed', ['/roles']);
  }
});

test('the limit of a language tag is the documented one', async (t) => {
  const target = await buildTestApp(t);
  const headers = basic(await aRegisteredService(target.databaseUrl, 'admin', ['users.write']));
  const { maxLength } = propertiesOf('NewUser').locale as { maxLength: number };
  const send = (locale: string) => {
    const { username, name, email } = anAccount();
    return call(target, 'POST /api/users', { payload: { username, name, email, locale }, headers });
  };
  const longest = 'sr-Latn-RS-x-abcdefgh-abcdefgh-abcd';
  t.equal(longest.length, maxLength);
  t.equal((await send(longest)).statusCode, 200);
  refused(t, await send(`${longest}e`), 400, 'validation_failed', ['/locale']);
});

test('an id is an integer everywhere, and its limits are the documented ones', async (t) => {
  const ids = idsIn(document);
  t.ok(ids.length >= 15, `${ids.length} ids`);
  for (const [where, { type, minimum, maximum }] of ids) {
    t.equal(type, 'integer', where);
    t.ok(minimum === 1 || minimum === 0, where);
    t.equal(maximum, Number.MAX_SAFE_INTEGER, where);
  }
  const target = await buildTestApp(t);
  const { access_token: token } = await signUp(target);
  for (const line of ['DELETE /api/auth/ID', 'DELETE /api/auth?id=ID', 'DELETE /api/auth/llt/ID']) {
    const send = (id: string) => call(target, line.replace('ID', id), { token });
    refused(t, await send(String(Number.MAX_SAFE_INTEGER)), 401, 'token_unknown');
    for (const id of ['9007199254740992', '0', '-1', '1e3', '0x10', '1.0', '07', '%207', '+7', '7x'])
      refused(t, await send(id), 400, 'validation_failed');
  }
});

/** Every parameter, header and property that holds an id, but for claims that RFC 7519 makes a text. */
function idsIn({ paths, components }: Document): [where: string, schema: JsonSchema][] {
  const isId = (name: string) => /^(id|sid|created_by|after|X-Auth-User|X-Auth-Session)$/.test(name);
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ where: `${method} ${path}`, operation })),
  );
  return [
    ...operations.flatMap(({ where, operation }) =>
      operation.parameters
        .map((each) => resolve(document, each))
        .filter(({ name }) => isId(name))
        .map(({ name, schema }): [string, JsonSchema] => [`${where} ${name}`, schema])
        // A page of readers begins after a service and its reader.
        .filter(([name]) => name !== 'get /api/auth/revocations/readers after'),
    ),
    ...operations.flatMap(({ where, operation }) =>
      Object.entries(operation.responses).flatMap(([, response]) =>
        Object.entries(resolve(document, response).headers ?? {})
          .filter(([name]) => isId(name))
          .map(([name, header]): [string, JsonSchema] => [
            `${where} ${name}`,
            notNull(resolve(document, header).schema),
          ]),
      ),
    ),
    ...Object.entries(components.schemas).flatMap(([title, { properties = {} }]) =>
      Object.entries(properties as Record<string, JsonSchema>)
        // That of a passkey is bytes, which its authenticator chooses.
        .filter(([name]) => isId(name) && !('rawId' in (properties as object)))
        // That of a confirmation is seconds.
        .filter(() => title !== 'Confirmed')
        .map(([name, schema]): [string, JsonSchema] => [`${title}/${name}`, notNull(schema)]),
    ),
  ];
}

function notNull(schema: JsonSchema): JsonSchema {
  const options = (schema.anyOf ?? []) as JsonSchema[];
  return options.find(({ type }) => type !== 'null') ?? schema;
}
