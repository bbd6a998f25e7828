import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { Mails } from '../../domain/mails/mails.ts';
import type { InvitationObstacle } from '../../domain/mails/wanted-mail.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { MessageSchema, refuseBody } from '../schemas.ts';
import { accountId, AccountParams } from './account-schema.ts';

interface InvitationRoute {
  mails: Pick<Mails, 'invite'>;
}

const schema = operation({
  operationId: 'inviteUser',
  summary: 'Invite the user of a new account again.',
  description:
    'A [mailer](#/Users/takeMails) gets a mail of the kind `invitation`, whose token sets the first password at `POST /api/auth/password-reset`, once and for `INVITATION_TTL` (7 days). You may ask until the account has had a session or a changed password; then, and for an account that is disabled or has an address that cannot be reached, `msg` says why there is no mail. An account gets at most 3 invitations in an hour. The operation needs the right `users.write`.',
  tags: ['Users'],
  security: BY_SERVICE,
  refuses: ['user_unknown', 'rate_limited'],
  params: AccountParams,
  response: { 200: MessageSchema },
});

const NO_MAIL: Record<InvitationObstacle, string> = {
  disabled: 'no mail: the account is disabled',
  undeliverable: 'no mail: the address cannot be reached',
  used: 'no mail: the account is in use already',
};

/** The invitation of an account's user, for registered services. */
export const invitationRoute: FastifyPluginCallbackTypebox<InvitationRoute> = (app, { mails }, done) => {
  app.post('/api/users/:id/invitation', { schema, ...app.auth.service('users.write') }, async (request) => {
    refuseBody(request.body);
    const obstacle = await mails.invite(accountId(request.params), serviceOf(request), request);
    return { msg: obstacle === null ? 'a mail is on its way' : NO_MAIL[obstacle] };
  });
  done();
};
