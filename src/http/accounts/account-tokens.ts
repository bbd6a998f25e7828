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
  summary: 'List the live sessions, long-lived tokens and limited tokens of an account.',
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
  refuses: ['user_unknown', 'rate_limited'],
  operationId: 'endUserTokens',
  summary: 'Log a user out on all devices.',
  description:
    'Ends every session, long-lived token and limited token of the account; the user may log in again. You may repeat the request. It needs the right `users.write`.',
  response: {
    200: endedTokens('UserTokensEnded', 'logged out everywhere'),
  },
});

const resetSchema = operation({
  ...common,
  refuses: ['user_unknown', 'rate_limited'],
  operationId: 'createPasswordReset',
  summary: 'Make a reset token, with which the user sets a new password.',
  description:
    'The token is shown only in this answer. Bring it to the user, who redeems it at `POST /api/auth/password-reset`. It is good once, for `PASSWORD_RESET_TTL` (30 minutes), and replaces an earlier one that was not mailed. It does not enable a disabled account. The operation needs the right `users.reset`.',
  response: {
    200: Type.Object(
      {
        reset_token: Type.String({
          description: 'The token; Latchkey cannot show it again',
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
