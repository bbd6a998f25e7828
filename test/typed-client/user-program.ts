import type { Mistake } from './generated-client.ts';

/**
 * A customer's program that uses the client generated from the document. It is compiled next to the generated
 * `schema.d.ts`, and run with the URL of a service.
 */
export const PROGRAM = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.d.ts';

const [baseUrl = '', username = ''] = process.argv.slice(2);
const client = createClient<paths>({ baseUrl });
const as = (token: string) => ({ headers: { Authorization: \`Bearer \${token}\` } });
const password = 'difference engine';

type Pair = components['schemas']['Pair'];
type Problem = components['schemas']['Problem'];

const ownerOf = (answer: components['schemas']['Introspection']) => (answer.active ? answer.sub : null);

function must<Data>({ data, error }: { data?: Data; error?: Problem }): Data {
  if (data === undefined) throw new Error(error?.code ?? 'no answer');
  return data;
}

const account = { username, name: 'Ada', email: \`\${username}@example.com\`, password };
const signedUp: Pair = must(await client.POST('/api/auth/signup', { body: account }));
const loggedIn = must(await client.POST('/api/auth', { body: { username, password, device: 'Laptop' } }));
const refreshed = must(await client.GET('/api/auth/refresh', as(loggedIn.refresh_token)));
const token = refreshed.access_token;
const created = must(
  await client.POST('/api/auth/llt', { ...as(token), body: { device: 'Kitchen tablet' } }),
);
const verified = await client.GET('/api/auth/verify', as(created.longlived_token));
const profile = must(await client.GET('/api/user', as(token)));
must(
  await client.DELETE('/api/auth/llt/{id}', { ...as(token), params: { path: { id: created.id } } }),
);
must(await client.DELETE('/api/auth', as(token)));
const [first] = profile.tokens.filter(({ type, current }) => type === 'refresh' && !current);
const ended = must(
  await client.DELETE('/api/auth/{id}', {
    ...as(signedUp.access_token),
    params: { path: { id: first?.id ?? 0 } },
  }),
);
const refusal = await client.GET('/api/user', as(token));
const code: 'invalid_token' | undefined = refusal.error?.code === 'invalid_token' ? 'invalid_token' : undefined;

console.log(
  JSON.stringify({
    user: signedUp.user.id,
    verified: verified.response.status,
    types: profile.tokens.map(({ type }) => type),
    ended: ended.msg,
    code,
    owner: ownerOf({ active: false }),
  }),
);
`;

/** Wrong uses that must be type errors. */
export const MISTAKES: Mistake[] = [
  ['a path that is not there', "'/api/user', as(token)));", "'/api/accounts', as(token)));"],
  [
    'a method that the path does not know',
    "client.GET('/api/auth/refresh'",
    "client.POST('/api/auth/refresh'",
  ],
  ['a property that is missing', '{ username, password, device', '{ username, device'],
  ['a property of another type', "name: 'Ada'", 'name: 5'],
  ['a parameter that is missing', 'params: { path: { id: created.id } }', 'params: {}'],
  ['an id as text', 'path: { id: created.id }', 'path: { id: String(created.id) }'],
  ['a member that no answer has', 'refreshed.access_token', 'refreshed.accessToken'],
  ['an e-mail address in an answer', 'signedUp.user.id', 'signedUp.user.email'],
  ['a code that there is not', "=== 'invalid_token'", "=== 'no_such_code'"],
  ['an owner of a token that is not good', 'answer.active ? answer.sub : null', 'answer.sub'],
  ['a type of token that there is not', "type === 'refresh'", "type === 'access'"],
];
