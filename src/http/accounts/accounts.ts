import type { AccountKey } from '../../domain/identifiers.ts';
import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type, { type Static } from 'typebox';
import { AuthError } from '../../domain/errors.ts';
import type { AccountFilter } from '../../domain/users/account.ts';
import { namedFields } from '../../domain/users/account-fields.ts';
import type { CreateAccount } from '../../domain/users/create-account.ts';
import { parseExternalId, parseLoginName } from '../../domain/identifiers.ts';
import type { ManageAccounts } from '../../domain/users/manage-accounts.ts';
import { callerTurn } from '../caller/network.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import {
  AddressSchema,
  closedBody,
  Email,
  Id,
  IdText,
  integerText,
  Locale,
  MessageSchema,
  Name,
  NewPassword,
  NullableLocale,
  parseId,
  refuseBody,
  Roles,
  Username,
} from '../schemas.ts';
import {
  accountBody,
  accountId,
  AccountParams,
  AccountSchema,
  Disabled,
  EmailVerified,
  ExternalId,
  type FieldSchemas,
  NullableExternalId,
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
  summary: 'Create an account.',
  description:
    'Opens no session, and works even with `SIGNUP_ENABLED=false`. The rules for names and passwords are those of signup. Without a password, only a reset opens the account; `invite` has one mailed to its user, for `INVITATION_TTL` (7 days). It needs the right `users.write`.',
  refuses: ['username_taken', 'email_taken', 'external_id_taken', 'password_refused', 'overloaded'],
  body: closedBody('NewUser', {
    username: Username,
    name: Name,
    email: Email,
    password: Type.Optional(NewPassword),
    roles: Type.Optional(Roles),
    external_id: Type.Optional(ExternalId),
    disabled: Type.Optional(Disabled),
    email_verified: Type.Optional(EmailVerified),
    locale: Type.Optional(Locale),
    invite: Type.Optional(
      Type.Boolean({
        description:
          'Whether the account wants an invitation, a mail with which its user sets the first password. Not with `password` or `disabled: true`',
        examples: [false],
      }),
    ),
  } satisfies FieldSchemas<'create'>),
  response: { 200: AccountSchema },
});

const Query = Type.Object(
  {
    username: Type.Optional(
      Type.String({ description: 'Finds the account with this username', examples: ['ada'] }),
    ),
    email: Type.Optional(
      Type.String({
        description: 'Finds the account with this e-mail address',
        examples: ['ada@example.com'],
      }),
    ),
    external_id: Type.Optional(
      Type.String({ description: 'Finds the account with this external id', examples: ['crm-4711'] }),
    ),
    id: Type.Optional({ ...IdText, description: 'Finds the account with this id' }),
    role: Type.Optional(
      Type.String({
        pattern: '^[a-z0-9:_-]{1,64}$',
        description: 'Returns accounts that have this role',
        examples: ['billing:admin'],
      }),
    ),
    disabled: Type.Optional(
      Type.Enum(['true', 'false'], {
        type: 'string',
        description: 'Returns accounts that are disabled, or those that are not',
        examples: ['true'],
      }),
    ),
    after: Type.Optional(
      integerText('^(0|[1-9][0-9]{0,15})$', {
        description: 'Returns accounts with greater ids: the `next` of the previous page, or 0, the default',
        minimum: 0,
        maximum: Number.MAX_SAFE_INTEGER,
        example: 7,
      }),
    ),
    limit: Type.Optional(
      integerText('^([1-9][0-9]?|100)$', {
        description: 'The most accounts on the page; 100 by default',
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
  summary: 'Find an account, or page through all of them.',
  description:
    'Send one of `username`, `email`, `external_id` and `id`, which returns a list of one account or none, or `after` and `limit` for a page, which `role` and `disabled` narrow. It needs the right `users.read`.',
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
  summary: 'Get an account.',
  description:
    'Returns the account with its roles and whether it is disabled. It needs the right `users.read`.',
  refuses: ['user_unknown'],
  params: AccountParams,
  response: { 200: AccountSchema },
});

const emailSchema = operation({
  ...common,
  operationId: 'getUserEmail',
  summary: 'Get an account’s e-mail address.',
  description: 'Returns the address as its owner gave it. It needs the right `users.email`.',
  refuses: ['user_unknown'],
  params: AccountParams,
  response: { 200: AddressSchema },
});

const changeSchema = operation({
  ...common,
  operationId: 'changeUser',
  summary: 'Change, disable or enable an account.',
  description:
    'What you leave out stays as it is. `disabled: true` ends every session and long-lived token of the user, and `false` lets the user log in again. `roles` replaces all roles, and `external_id: null` removes the external id, as `locale: null` removes the language. A new e-mail address, or another spelling of the stored one, is not verified unless `email_verified: true` comes with it. That always needs `email`: a new address, or exactly the stored one. Disabling and a new address make a reset token invalid. When the change is answered, verify and introspection know it. You may repeat the request. It needs the right `users.write`. With `email`, even the stored address, or `email_verified: true`, it needs `users.reset` too, because anyone can ask for a reset token to be sent to the address.',
  refuses: ['username_taken', 'email_taken', 'external_id_taken', 'user_unknown', 'rate_limited'],
  params: AccountParams,
  body: closedBody('UserChange', {
    name: Type.Optional(Name),
    username: Type.Optional(Username),
    email: Type.Optional(Email),
    email_verified: Type.Optional(EmailVerified),
    disabled: Type.Optional(Disabled),
    roles: Type.Optional(Roles),
    external_id: Type.Optional(NullableExternalId),
    locale: Type.Optional(NullableLocale),
  } satisfies FieldSchemas<'change'>),
  response: { 200: AccountSchema },
});

const deleteSchema = operation({
  ...common,
  operationId: 'deleteUser',
  summary: 'Delete an account.',
  description:
    'Ends all its tokens and erases its names, e-mail address, external id, language, password, second factors, roles, known devices and the names of its devices at once, which cannot be undone. For `DELETED_NAME_GRACE` (30 days), no other account gets the names. It needs the right `users.write`.',
  refuses: ['user_unknown', 'rate_limited'],
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
      return accountBody(await createAccount(namedFields(request.body), turn, service, request));
    },
  );

  app.get('/api/users', { schema: listSchema, ...reads }, async (request) => {
    const { key, filter, after, limit } = readQuery(request.query);
    if (key !== undefined) {
      const account = key && (await accounts.find(key));
      return { users: account ? [accountBody(account)] : [], next: null };
    }
    // One more tells whether there is a next page.
    const page = await accounts.page(after, limit + 1, filter);
    const users = page.slice(0, limit).map(accountBody);
    return { users, next: page.length > limit ? (users.at(-1)?.id ?? null) : null };
  });

  app.get('/api/users/:id', { schema: getSchema, ...reads }, async (request) =>
    accountBody(await accounts.get(accountId(request.params))),
  );

  app.get('/api/users/:id/email', { schema: emailSchema, ...app.auth.service('users.email') }, (request) =>
    accounts.address(accountId(request.params)),
  );

  app.patch('/api/users/:id', { schema: changeSchema, onRequest, preValidation }, async (request) => {
    const [id, changes] = [accountId(request.params), namedFields(request.body)];
    return accountBody(await accounts.change(id, changes, serviceOf(request), request));
  });

  app.delete('/api/users/:id', { schema: deleteSchema, onRequest, preValidation }, async (request) => {
    refuseBody(request.body);
    await accounts.delete(accountId(request.params), serviceOf(request), request);
    return { msg: 'deleted' };
  });
  done();
};

/** @throws AuthError `validation_failed` */
function readQuery({ after, limit, role, disabled, ...named }: Static<typeof Query>): Wanted {
  const names = Object.keys(named).length;
  if (names > 1 || (names === 1 && (after ?? limit ?? role ?? disabled) !== undefined)) {
    const message =
      'must hold one of username, email, external_id and id, or after, limit, role and disabled';
    throw new AuthError('validation_failed', { errors: [{ path: 'query', code: 'not_allowed', message }] });
  }
  const filter = {
    ...(role !== undefined && { role }),
    ...(disabled !== undefined && { disabled: disabled === 'true' }),
  };
  const page = { filter, after: parseId(after ?? '0', 'query/after'), limit: Number(limit ?? PAGE) };
  return names === 0 ? page : { ...page, key: keyOf(named) };
}

interface Wanted {
  /** The account to look up; null if no account can have this name. Absent for a page. */
  key?: AccountKey | null;
  filter: AccountFilter;
  after: number;
  limit: number;
}

function keyOf(
  named: Omit<Static<typeof Query>, 'after' | 'limit' | 'role' | 'disabled'>,
): AccountKey | null {
  const { username, email, external_id: externalId, id } = named;
  if (id !== undefined) return { id: parseId(id, 'query/id') };
  if (externalId !== undefined) {
    const parsed = parseExternalId(externalId);
    return parsed.ok ? { externalId: parsed.value } : null;
  }
  const name = parseLoginName(username ?? email ?? '');
  // A text without an @ is no e-mail address, and one with an @ no username.
  return name && 'email' in name === (email !== undefined) ? name : null;
}
