import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { ChangePassword } from '../../domain/users/change-password.ts';
import { callerTurn } from '../caller/network.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf } from '../plugins/authenticate.ts';
import { closedBody, endedTokens, NewPassword, Password } from '../schemas.ts';

interface PasswordRoute {
  changePassword: ChangePassword;
  guessOriginOf: GuessOriginOf;
}

const schema = operation({
  operationId: 'changePassword',
  summary: 'Change the password, which signs out the user’s other devices.',
  description:
    'The session that asks stays. Long-lived tokens stay too, unless `end_long_lived` is true. A reset token of the account becomes invalid. A wrong current password counts as a failed login. A long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [
    'password_refused',
    'invalid_credentials',
    'token_not_allowed',
    'login_too_old',
    'rate_limited',
    'overloaded',
  ],
  body: closedBody('PasswordChange', {
    current_password: { ...Password, description: 'The present password' },
    new_password: NewPassword,
    end_long_lived: Type.Optional(
      Type.Boolean({
        description: 'Whether long-lived tokens end too; false by default',
        default: false,
        examples: [true],
      }),
    ),
  }),
  response: {
    200: endedTokens('PasswordChanged', 'password changed'),
  },
});

export const passwordRoute: FastifyPluginCallbackTypebox<PasswordRoute> = (app, options, done) => {
  const { changePassword, guessOriginOf } = options;
  const { onRequest, preValidation } = app.auth.change;
  const hooks = {
    onRequest: [
      app.refuseWhenLate,
      onRequest,
      app.refuseWhenStoreFull,
      app.limitByAddress('login'),
      app.refuseWhenFull('known'),
    ],
    preValidation,
  };
  app.post('/api/user/password', { schema, ...hooks }, async (request) => {
    const { current_password, new_password, end_long_lived = false } = request.body;
    const ended = await changePassword(callerOf(request), {
      currentPassword: current_password,
      newPassword: new_password,
      endsLongLived: end_long_lived,
      turn: callerTurn(request),
      origin: await guessOriginOf(request),
      from: request,
    });
    return { msg: 'password changed', ended };
  });
  done();
};
