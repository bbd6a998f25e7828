import type { AccountKey } from '../../domain/identifiers.ts';
import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type, { type Static } from 'typebox';
import { AuthError } from '../../domain/errors.ts';
import type { CreateAccount } from '../../domain/users/create-account.ts';
import { parseLoginName } from '../../domain/identifiers.ts';
import type { ManageAccounts } from '../../domain/users/manage-accounts.ts';
import { callerTurn } from '../caller/network.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import {
  closedBody,
  Email,
  Id,
  IdText,
  integerText,
  MessageSchema,
  Name,
  NewPassword,
  parseId,
  refuseBody,
  Username,
} from '../schemas.ts';
import {
  accountBody,
  accountId,
  AccountParams,
  AccountSchema,
  Disabled,
  EmailVerified,
  Roles,
} from './account-schema.ts';

interface AccountsRoute {
  createAccount: CreateAccount;
  accounts: ManageAccounts;
}

/** Accounts per page, unless the request asks for fewer. */
const PAGE = 100;

const common = { tags: ['Users'], security: BY_SERVICE } as const;

const createSchema = operation({
  ...common,
  operationId: 'createUser',
  summary: 'Create an account without a session, also while signup is off',
  description:
    'Needs the right `users.write`. The rules for names and passwords are those of signup. Without a password, only a reset opens the account.',
  refuses: ['username_taken', 'email_taken', 'password_refused', 'overloaded'],
  body: closedBody('NewUser', {
    username: Username,
    name: Name,
    email: Email,
    password: Type.Optional(NewPassword),
    roles: Type.Optional(Roles),
  }),
  response: { 200: AccountSchema },
});

const Query = Type.Object(
  {
    username: Type.Optional(Type.String({ description: 'The account of this username', examples: ['ada'] })),
    email: Type.Optional(
      Type.String({ description: 'The account of this e-mail address', examples: ['ada@example.com'] }),
    ),
    id: Type.Optional({ ...IdText, description: 'The account of this id' }),
    after: Type.Optional(
      integerText('^(0|[1-9][0-9]{0,15})$', {
        description: 'Accounts with greater ids: the `next` of the previous page; 0 by default',
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        example: 7,
      }),
    ),
    limit: Type.Optional(
      integerText('^([1-9][0-9]?|100)$', {
        description: 'The most accounts of the page; 100 by default',
        minimum: 1,
        maximum: PAGE,
        example: 20,
      }),
    ),
  },
  { additionalProperties: false },
);

const listSchema = operation({
  ...common,
  operationId: 'listUsers',
  summary: 'Look an account up by username, e-mail address or id, or page through all of them',
  description:
    'Needs the right `users.read`. Takes one of `username`, `email` and `id`, or `after` and `limit`. A look-up returns a list of one account or none.',
  refuses: [],
  querystring: Query,
  response: {
    200: Type.Object(
      {
        users: Type.Array(AccountSchema, { description: 'In the order of ids', maxItems: PAGE }),
        next: Type.Union([Id, Type.Null()], {
          description: 'Pass it as `after` for the next page; null on the last',
          examples: [null],
        }),
      },
      { title: 'Accounts', description: 'A page of accounts', additionalProperties: false },
    ),
  },
});

const getSchema = operation({
  ...common,
  operationId: 'getUser',
  summary: 'An account',
  description: 'Needs the right `users.read`.',
  refuses: ['user_unknown'],
  params: AccountParams,
  response: { 200: AccountSchema },
});

const changeSchema = operation({
  ...common,
  operationId: 'changeUser',
  summary: 'Change, disable or enable an account',
  description:
    'Needs the right `users.write`. What is absent stays. `disabled: true` ends every session and long-lived token; `false` lets the user log in again. That and a new e-mail address void a reset token. A new e-mail address, or another spelling of it, is not verified, unless `email_verified` comes with it. `email_verified: true` needs `email`: a new address, or the stored one, code point by code point. `roles` replaces all of them. Verify and introspection have the change when it is answered. A repeat is safe.',
  refuses: ['username_taken', 'email_taken', 'user_unknown'],
  params: AccountParams,
  body: closedBody('UserChange', {
    name: Type.Optional(Name),
    username: Type.Optional(Username),
    email: Type.Optional(Email),
    email_verified: Type.Optional(EmailVerified),
    disabled: Type.Optional(Disabled),
    roles: Type.Optional(Roles),
  }),
  response: { 200: AccountSchema },
});

const deleteSchema = operation({
  ...common,
  operationId: 'deleteUser',
  summary: 'Delete an account, and end its sessions and long-lived tokens',
  description:
    'Needs the right `users.write`. Names, e-mail address and password are erased at once, and cannot be brought back. No other account gets the names for `DELETED_NAME_GRACE` (30 days).',
  refuses: ['user_unknown'],
  params: AccountParams,
  response: { 200: MessageSchema },
});

/** Accounts, for registered services. */
export const accountsRoutes: FastifyPluginCallbackTypebox<AccountsRoute> = (app, options, done) => {
  const { createAccount, accounts } = options;
  const { onRequest, preValidation } = app.auth.service('users.write');
  const reads = app.auth.service('users.read');

  app.post(
    '/api/users',
    { schema: createSchema, onRequest: [onRequest, app.refuseWhenFull('known')], preValidation },
    async (request) => {
      const [turn, service] = [callerTurn(request), serviceOf(request)];
      return accountBody(await createAccount(request.body, turn, service, request));
    },
  );

  app.get('/api/users', { schema: listSchema, ...reads }, async (request) => {
    const { key, after, limit } = readQuery(request.query);
    if (key !== undefined) {
      const account = key && (await accounts.find(key));
      return { users: account ? [accountBody(account)] : [], next: null };
    }
    // One more tells whether there is a next page.
    const page = await accounts.page(after, limit + 1);
    const users = page.slice(0, limit).map(accountBody);
    return { users, next: page.length > limit ? (users.at(-1)?.id ?? null) : null };
  });

  app.get('/api/users/:id', { schema: getSchema, ...reads }, async (request) =>
    accountBody(await accounts.get(accountId(request.params))),
  );

  app.patch('/api/users/:id', { schema: changeSchema, onRequest, preValidation }, async (request) => {
    const { email_verified: emailVerified, ...changes } = request.body;
    const given = { ...changes, ...(emailVerified !== undefined && { emailVerified }) };
    return accountBody(await accounts.change(accountId(request.params), given, serviceOf(request), request));
  });

  app.delete('/api/users/:id', { schema: deleteSchema, onRequest, preValidation }, async (request) => {
    refuseBody(request.body);
    await accounts.delete(accountId(request.params), serviceOf(request), request);
    return { msg: 'deleted' };
  });
  done();
};

/** @throws AuthError `validation_failed` */
function readQuery({ after, limit, ...named }: Static<typeof Query>): Wanted {
  const names = Object.keys(named).length;
  if (names > 1 || (names === 1 && (after ?? limit) !== undefined)) {
    const message = 'must hold one of username, email and id, or after and limit';
    throw new AuthError('validation_failed', { errors: [{ path: 'query', message }] });
  }
  const page = { after: parseId(after ?? '0', 'query/after'), limit: Number(limit ?? PAGE) };
  return names === 0 ? page : { ...page, key: keyOf(named) };
}

interface Wanted {
  /** The account to look up; null if no account can have this name. Absent for a page. */
  key?: AccountKey | null;
  after: number;
  limit: number;
}

function keyOf({ username, email, id }: Omit<Static<typeof Query>, 'after' | 'limit'>): AccountKey | null {
  if (id !== undefined) return { id: parseId(id, 'query/id') };
  const name = parseLoginName(username ?? email ?? '');
  // A text without an @ is no e-mail address, and one with an @ no username.
  return name && 'email' in name === (email !== undefined) ? name : null;
}
