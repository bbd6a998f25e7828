import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { ResetPassword } from '../../domain/users/reset-password.ts';
import type { ResetRequests } from '../../domain/mails/reset-requests.ts';
import { callerTurn } from '../caller/network.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { operation } from '../openapi/operation.ts';
import { closedBody, MessageSchema, NewPassword } from '../schemas.ts';

interface PasswordResetRoute {
  resetPassword: ResetPassword;
  resetRequests: Pick<ResetRequests, 'add'>;
  guessOriginOf: GuessOriginOf;
}

const schema = operation({
  operationId: 'resetPassword',
  summary: 'Set a new password with a reset token.',
  description:
    'Ends every session and long-lived token of the user, who then logs in with the new password. The reset token comes from a [mail](#/Accounts/requestPasswordReset), an operator (`latchkey user reset`) or a registered service. It is good once, for `PASSWORD_RESET_TTL` (30 minutes), until the password or the e-mail address changes, or the account is disabled. One that an operator or a service makes replaces the earlier one of these; of those that were mailed, the newest 8 are good. A refused password does not use it up, and a disabled account stays disabled. Resets are limited as logins are. After a 503 or a lost answer, first try to log in with the new password, because the token may have been used.',
  tags: ['Accounts'],
  security: [],
  refuses: ['password_refused', 'invalid_reset_token', 'rate_limited', 'overloaded', 'unavailable'],
  body: closedBody('PasswordReset', {
    reset_token: Type.String({
      description: 'The reset token that the user was given',
      writeOnly: true,
      examples: ['lkr_Zr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9'],
    }),
    password: NewPassword,
  }),
  response: { 200: MessageSchema },
});

const requestSchema = operation({
  operationId: 'requestPasswordReset',
  summary: 'Ask for a mail with a reset token.',
  description:
    'The answer is the same for every name, and so is its time, because Latchkey looks the name up afterwards. If the account exists and is not disabled, a [mailer](#/Users/takeMails) gets the mail. For as long as a token is good (20 to 60 minutes), an account gets at most 3 such mails, and 3 more that devices ask for which have logged in before. To be recognised as one from any address, send its last refresh token or long-lived token as `Authorization: Bearer`, even if it has expired or was revoked. If no mail arrives, ask again: a replica that was killed has forgotten the request. Requests are limited by address as logins are, and for each network (`RATE_LIMIT_NETWORK`), or, with such a token, for its user (`RATE_LIMIT_ACCOUNT`).',
  tags: ['Accounts'],
  security: [],
  refuses: ['rate_limited', 'overloaded', 'unavailable'],
  body: closedBody('PasswordResetRequest', {
    username: Type.String({
      description: 'The username or the e-mail address',
      shown: { minLength: 1, maxLength: 254 },
      examples: ['ada'],
    }),
  }),
  response: { 200: MessageSchema },
});

export const passwordResetRoute: FastifyPluginCallbackTypebox<PasswordResetRoute> = (app, options, done) => {
  const { resetPassword, resetRequests, guessOriginOf } = options;
  app.post(
    '/api/auth/password-reset-request',
    { schema: requestSchema, config: { budget: 'resets' } },
    async (request) => {
      await resetRequests.add(request.body.username, {
        turn: callerTurn(request),
        origin: await guessOriginOf(request),
        from: request,
      });
      return { msg: 'if there is such an account, a mail is on its way' };
    },
  );

  const config = { budget: 'guesses' } as const;
  app.post(
    '/api/auth/password-reset',
    { schema, config, onRequest: app.refuseWhenFull('known') },
    async (request) => {
      await resetPassword({
        resetToken: request.body.reset_token,
        password: request.body.password,
        turn: callerTurn(request),
        origin: await guessOriginOf(request),
        from: request,
      });
      return { msg: 'password changed, and logged out everywhere' };
    },
  );
  done();
};
