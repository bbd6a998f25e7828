import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { Mails } from '../../domain/mails/mails.ts';
import type { OwnAddress } from '../../domain/mails/own-address.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf, principalOf } from '../plugins/authenticate.ts';
import { AddressSchema, closedBody, MessageSchema, refuseBody } from '../schemas.ts';

interface EmailRoute {
  mails: Pick<Mails, 'requestVerification'>;
  ownAddress: OwnAddress;
  guessOriginOf: GuessOriginOf;
}

const schema = operation({
  operationId: 'getEmail',
  summary: 'See the own e-mail address, and whether it is verified.',
  description:
    'The answer also holds an address that the user has asked for and not proved yet. A long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_not_allowed'],
  response: { 200: AddressSchema },
});

const changeSchema = operation({
  operationId: 'changeEmail',
  summary: 'Prove the pending e-mail address, which takes the place of the present one.',
  description:
    'With `EMAIL_VERIFICATION=true`, [another address](#/Accounts/changeProfile) is pending until its owner posts the token of the mail that it got. Then it is the address of the account and verified, and reset tokens are void. Whoever proves an address first gets it. The present address, if it was verified, stays reserved for this account. The token alone is not enough, because a stranger at a mistyped address has it too. It is good for `EMAIL_VERIFICATION_TTL` (1 day), until the user asks for another address, a service changes the address, the password changes, or the account is disabled. You may repeat the request. A token that is refused counts as a failed login, and a long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: [
    'email_taken',
    'invalid_verification_token',
    'token_not_allowed',
    'login_too_old',
    'rate_limited',
    'overloaded',
  ],
  body: closedBody('EmailChange', {
    verification_token: Type.String({
      description: 'The verification token that was mailed to the pending address',
      writeOnly: true,
      examples: ['lkv_Zr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9'],
    }),
  }),
  response: { 200: MessageSchema },
});

const requestSchema = operation({
  operationId: 'requestEmailVerification',
  summary: 'Ask for a mail that verifies the e-mail address.',
  description:
    'A [mailer](#/Users/takeMails) gets the mail, unless the address is verified already. With `EMAIL_VERIFICATION=true`, a signup asks for it by itself, and so does a new address that a service sets. An account gets at most 3 such mails in an hour, and requests are limited as logins are. A long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: ['validation_failed', 'token_not_allowed', 'rate_limited', 'overloaded'],
  response: { 200: MessageSchema },
});

export const emailRoute: FastifyPluginCallbackTypebox<EmailRoute> = (app, options, done) => {
  const { mails, ownAddress, guessOriginOf } = options;
  app.get('/api/user/email', { schema, onRequest: app.auth.principal }, (request) =>
    ownAddress.get(principalOf(request)),
  );

  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [app.refuseWhenLate, authenticate, app.refuseWhenStoreFull, app.limitByAddress('login')];
  app.post('/api/user/email', { schema: changeSchema, onRequest, preValidation }, async (request) => {
    await ownAddress.prove(callerOf(request), {
      verificationToken: request.body.verification_token,
      origin: await guessOriginOf(request),
      from: request,
    });
    return { msg: 'address changed' };
  });

  app.post(
    '/api/user/email-verification',
    { schema: requestSchema, onRequest, preValidation },
    async (request) => {
      refuseBody(request.body);
      const isWanted = await mails.requestVerification(callerOf(request), request);
      return { msg: isWanted ? 'a mail is on its way' : 'the address is verified already' };
    },
  );
  done();
};
