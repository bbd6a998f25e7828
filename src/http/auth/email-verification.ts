import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { Mails } from '../../domain/mails/mails.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { operation } from '../openapi/operation.ts';
import { closedBody, MessageSchema } from '../schemas.ts';

interface EmailVerificationRoute {
  mails: Pick<Mails, 'verify'>;
  guessOriginOf: GuessOriginOf;
}

const schema = operation({
  operationId: 'verifyEmail',
  summary: 'Verify an e-mail address with the token of a mail.',
  description:
    'The token comes from a [mail](#/Accounts/requestEmailVerification). It is good once, for `EMAIL_VERIFICATION_TTL` (1 day), until another replaces it, the address changes, or the account is disabled. Tries are limited as logins are. Let a page post the token when its user clicks: mail scanners open every link.',
  tags: ['Accounts'],
  security: [],
  refuses: ['invalid_verification_token', 'rate_limited', 'overloaded', 'unavailable'],
  body: closedBody('EmailVerification', {
    verification_token: Type.String({
      description: 'The verification token that the user was mailed',
      writeOnly: true,
      examples: ['lkv_Zr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9'],
    }),
  }),
  response: { 200: MessageSchema },
});

export const emailVerificationRoute: FastifyPluginCallbackTypebox<EmailVerificationRoute> = (
  app,
  { mails, guessOriginOf },
  done,
) => {
  app.post('/api/auth/email-verification', { schema, config: { budget: 'guesses' } }, async (request) => {
    await mails.verify({
      verificationToken: request.body.verification_token,
      origin: await guessOriginOf(request),
      from: request,
    });
    return { msg: 'address verified' };
  });
  done();
};
