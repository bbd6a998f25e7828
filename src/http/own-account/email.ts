import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { Mails } from '../../domain/mails/mails.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf, principalOf } from '../plugins/authenticate.ts';
import { AddressSchema, MessageSchema, refuseBody } from '../schemas.ts';

interface EmailRoute {
  mails: Pick<Mails, 'ownAddress' | 'requestVerification'>;
}

const schema = operation({
  operationId: 'getEmail',
  summary: 'See the own e-mail address, and whether it is verified.',
  description: 'A long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: ['token_not_allowed'],
  response: { 200: AddressSchema },
});

const requestSchema = operation({
  operationId: 'requestEmailVerification',
  summary: 'Ask for a mail that verifies the e-mail address.',
  description:
    'A [mailer](#/Users/takeMails) gets the mail, unless the address is verified already. With `EMAIL_VERIFICATION=true`, a signup and a new address ask for it by themselves. An account gets at most 3 such mails in an hour, and requests are limited as logins are. A long-lived token may not do this.',
  tags: ['Accounts'],
  security: [{ bearerAuth: [] }],
  refuses: ['validation_failed', 'token_not_allowed', 'rate_limited', 'overloaded'],
  response: { 200: MessageSchema },
});

export const emailRoute: FastifyPluginCallbackTypebox<EmailRoute> = (app, { mails }, done) => {
  app.get('/api/user/email', { schema, onRequest: app.auth.principal }, (request) =>
    mails.ownAddress(principalOf(request)),
  );

  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [app.refuseWhenLate, authenticate, app.refuseWhenStoreFull, app.limitByAddress('login')];
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
