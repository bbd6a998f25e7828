import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { ManageAccounts } from '../../domain/users/manage-accounts.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { endedTokens, refuseBody, Timestamp, timestamp } from '../schemas.ts';
import { tokenBody, TokenSchema } from '../own-account/profile.ts';
import { accountId, AccountParams } from './account-schema.ts';

interface AccountTokensRoute {
  accounts: ManageAccounts;
}

const common = {
  tags: ['Users'],
  security: BY_SERVICE,
  refuses: ['user_unknown'],
  params: AccountParams,
} as const;

const listSchema = operation({
  ...common,
  operationId: 'listUserTokens',
  summary: 'The live sessions and long-lived tokens of an account',
  description: 'Needs the right `users.read`.',
  response: {
    200: Type.Object(
      { tokens: Type.Array(TokenSchema, { description: 'The tokens that may act for the user' }) },
      { title: 'UserTokens', description: 'Live tokens', additionalProperties: false },
    ),
  },
});

const endSchema = operation({
  ...common,
  operationId: 'endUserTokens',
  summary: 'End every session and long-lived token of an account',
  description: 'Needs the right `users.write`. The user may log in again. A repeat is safe.',
  response: {
    200: endedTokens('UserTokensEnded', 'logged out everywhere'),
  },
});

const resetSchema = operation({
  ...common,
  operationId: 'createPasswordReset',
  summary: 'Make a token with which the user sets a new password; it is shown this once',
  description:
    'Needs the right `users.reset`. The service delivers the token to the user, who redeems it at `POST /api/auth/password-reset`. It is good once, for `PASSWORD_RESET_TTL` (30 minutes), and replaces an earlier one. It does not enable a disabled account.',
  response: {
    200: Type.Object(
      {
        reset_token: Type.String({
          description: 'It cannot be shown again',
          readOnly: true,
          examples: ['lkr_Zr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9'],
        }),
        expires_at: Timestamp,
      },
      { title: 'ResetToken', description: 'A reset token', additionalProperties: false },
    ),
  },
});

/** An account's tokens and reset tokens, for registered services. */
export const accountTokensRoutes: FastifyPluginCallbackTypebox<AccountTokensRoute> = (
  app,
  { accounts },
  done,
) => {
  app.get(
    '/api/users/:id/tokens',
    { schema: listSchema, ...app.auth.service('users.read') },
    async (request) => ({ tokens: (await accounts.listTokens(accountId(request.params))).map(tokenBody) }),
  );

  app.delete(
    '/api/users/:id/tokens',
    { schema: endSchema, ...app.auth.service('users.write') },
    async (request) => {
      refuseBody(request.body);
      const ended = await accounts.endTokens(accountId(request.params), serviceOf(request), request);
      return { msg: 'logged out everywhere', ended };
    },
  );

  app.post(
    '/api/users/:id/password-reset',
    { schema: resetSchema, ...app.auth.service('users.reset') },
    async (request) => {
      refuseBody(request.body);
      const [id, service] = [accountId(request.params), serviceOf(request)];
      const { resetToken, expiresAt } = await accounts.resetPassword(id, service, request);
      return { reset_token: resetToken, expires_at: timestamp(expiresAt) };
    },
  );
  done();
};
