import type { Mistake } from './generated-client.ts';

/**
 * An administrator's script that uses the client generated from the document. It takes the URL of a service and a
 * username as arguments, and the id and secret of a registered service from the environment.
 */
export const ADMIN_PROGRAM = `
import createClient from 'openapi-fetch';
import type { components, paths } from './schema.d.ts';

const [baseUrl = '', username = ''] = process.argv.slice(2);
const { CLIENT_ID = '', CLIENT_SECRET = '' } = process.env;
const secret = Buffer.from(\`\${CLIENT_ID}:\${CLIENT_SECRET}\`).toString('base64');
const admin = createClient<paths>({ baseUrl, headers: { Authorization: \`Basic \${secret}\` } });
const user = createClient<paths>({ baseUrl });

type Problem = components['schemas']['Problem'];

function must<Data>({ data, error }: { data?: Data; error?: Problem }): Data {
  if (data === undefined) throw new Error(error?.code ?? 'no answer');
  return data;
}

const email = \`\${username}@example.com\`;
const created = must(await admin.POST('/api/users', { body: { username, name: 'Ada', email, roles: ['orders:read'] } }));
const { id } = created;
const path = { id };

// Look it up.
const shown = must(await admin.GET('/api/users/{id}', { params: { path } }));
const byName = must(await admin.GET('/api/users', { params: { query: { username } } }));
const byEmail = must(await admin.GET('/api/users', { params: { query: { email } } }));
const byId = must(await admin.GET('/api/users', { params: { query: path } }));

// Page through all users.
for (const suffix of ['b', 'c', 'd', 'e']) {
  const other = username + suffix;
  must(
    await admin.POST('/api/users', { body: { username: other, name: 'Bob', email: \`\${other}@example.com\` } }),
  );
}
const pages: number[][] = [];
let after: number | null = null;
do {
  const query: { limit: number; after?: number } = { limit: 2, ...(after !== null && { after }) };
  const page = must(await admin.GET('/api/users', { params: { query } }));
  pages.push(page.users.map((each) => each.id));
  after = page.next;
} while (after !== null);

// Change it.
const changed = must(
  await admin.PATCH('/api/users/{id}', {
    params: { path },
    body: { name: 'Ada Lovelace', email, email_verified: true },
  }),
);

// It has no password yet: a reset token opens the account.
const reset = async (password: string) => {
  const made = must(await admin.POST('/api/users/{id}/password-reset', { params: { path } }));
  must(await user.POST('/api/auth/password-reset', { body: { reset_token: made.reset_token, password } }));
  return Date.parse(made.expires_at) > Date.now();
};
const logIn = (password: string) => user.POST('/api/auth', { body: { username, password, device: 'Laptop' } });
const verify = async (token: string) => {
  const headers = { Authorization: \`Bearer \${token}\` };
  const { response } = await user.GET('/api/auth/verify', { headers });
  return response.ok ? response.headers.get('x-auth-roles') : response.status;
};
const isResetFresh = await reset('difference engine no. 1');
const first = must(await logIn('difference engine no. 1')).access_token;

// Give it roles.
const rolesBefore = await verify(first);
must(await admin.PATCH('/api/users/{id}', { params: { path }, body: { roles: ['admin', 'orders:write'] } }));
const rolesAfter = await verify(first);

// Disable it, which ends its tokens, and enable it.
must(await admin.PATCH('/api/users/{id}', { params: { path }, body: { disabled: true } }));
const whileDisabled = [await verify(first), (await logIn('difference engine no. 1')).error?.code];
const enabled = must(await admin.PATCH('/api/users/{id}', { params: { path }, body: { disabled: false } }));

// List and end its tokens.
const second = must(await logIn('difference engine no. 1')).access_token;
const { tokens } = must(await admin.GET('/api/users/{id}/tokens', { params: { path } }));
const { ended } = must(await admin.DELETE('/api/users/{id}/tokens', { params: { path } }));
const afterEnding = await verify(second);

// Reset its password.
const third = must(await logIn('difference engine no. 1')).access_token;
await reset('analytical engine no. 2');
const afterReset = [await verify(third), (await logIn('difference engine no. 1')).error?.code];
const fourth = must(await logIn('analytical engine no. 2')).access_token;

// Delete it.
must(await admin.DELETE('/api/users/{id}', { params: { path } }));
const gone = await admin.GET('/api/users/{id}', { params: { path } });
const again = await admin.DELETE('/api/users/{id}', { params: { path } });
const afterDeletion = [await verify(fourth), gone.error?.code, again.error?.code];

console.log(
  JSON.stringify({
    id,
    shown: { username: shown.username, disabled: shown.disabled, verified: shown.email_verified, roles: shown.roles },
    found: [byName, byEmail, byId].map(({ users }) => users.map((each) => each.id)),
    pages,
    changed: [changed.name, changed.email_verified],
    isResetFresh,
    roles: [rolesBefore, rolesAfter],
    whileDisabled,
    enabled: !enabled.disabled,
    tokens: tokens.map(({ type, name }) => [type, name]),
    ended,
    afterEnding,
    afterReset,
    afterDeletion,
  }),
);
`;

/** Wrong uses that must be type errors. */
export const ADMIN_MISTAKES: Mistake[] = [
  ['roles in one text', "roles: ['orders:read']", "roles: 'orders:read'"],
  ['a property of another type', 'disabled: true', "disabled: 'yes'"],
  ['an e-mail address in an answer', 'changed.name, changed.email_verified', 'changed.email'],
  ['a parameter that is not there', 'query: { username }', 'query: { name: username }'],
  ['a reset token in a list', 'tokens.map(({ type, name })', 'tokens.map(({ type, reset_token: name })'],
];
