import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import { MAIL_KINDS } from '../../domain/mail-kinds.ts';
import type { Mails } from '../../domain/mails/mails.ts';
import type { TakenMail } from '../../domain/mails/wanted-mail.ts';
import { operation } from '../openapi/operation.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import {
  AddressSchema,
  closedBody,
  Id,
  IdText,
  MessageSchema,
  parseId,
  refuseBody,
  Timestamp,
  timestamp,
} from '../schemas.ts';
import { userBody, UserSchema } from '../token-pair-response.ts';

interface MailsRoute {
  mails: Pick<Mails, 'take' | 'settle'>;
}

/** The most mails of one request, and how many it gets if it does not say. */
const [MOST, USUAL] = [100, 20];

const common = { tags: ['Users'], security: BY_SERVICE } as const;

const MailSchema = Type.Object(
  {
    id: { ...Id, description: 'The mail’s own: the operation that settles it takes it' },
    kind: Type.Enum([...MAIL_KINDS], {
      type: 'string',
      description: 'What the mail is for',
      examples: ['password_reset'],
    }),
    ...AddressSchema.properties,
    token: Type.String({
      description:
        'The `reset_token` or `verification_token` that the user’s page posts. It is shown only here',
      readOnly: true,
      examples: ['lkr_Zr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9'],
    }),
    expires_at: { ...Timestamp, description: 'When the token expires' },
    user: UserSchema,
  },
  { title: 'Mail', description: 'A mail that an account wants', additionalProperties: false },
);

const takeSchema = operation({
  ...common,
  operationId: 'takeMails',
  summary: 'Take the mails that accounts want.',
  description:
    'Returns the mails that have waited longest, each with a new token, which replaces an earlier one. A mail that was taken is hidden for 60 seconds, so that no two mailers have it at the same time; then it can be taken again, unless it was settled. A mail that is not settled within 60 minutes after it was asked for is dropped. It needs the right `mails`, whose holder can open every account.',
  refuses: [],
  body: closedBody('MailRequest', {
    limit: Type.Optional(
      Type.Integer({
        description: `The most mails to take; ${USUAL} by default`,
        minimum: 1,
        maximum: MOST,
        examples: [USUAL],
      }),
    ),
  }),
  response: {
    200: Type.Object(
      { mails: Type.Array(MailSchema, { description: 'Empty if no mail waits', maxItems: MOST }) },
      { title: 'Mails', description: 'Mails to hand over', additionalProperties: false },
    ),
  },
});

const settleSchema = operation({
  ...common,
  operationId: 'settleMail',
  summary: 'Say that a mail was handed over.',
  description:
    'No mailer gets it again. The answer is the same for a mail that is gone, so you may repeat the request. It needs the right `mails`.',
  refuses: [],
  params: Type.Object({ id: IdText }),
  response: { 200: MessageSchema },
});

/** The wanted mails, for a mailer. */
export const mailsRoutes: FastifyPluginCallbackTypebox<MailsRoute> = (app, { mails }, done) => {
  const hooks = app.auth.service('mails');

  app.post('/api/users/mails', { schema: takeSchema, ...hooks }, async (request) => {
    const { limit = USUAL } = request.body;
    const taken = await mails.take(limit, serviceOf(request), request);
    return { mails: taken.map(mailBody) };
  });

  app.delete('/api/users/mails/:id', { schema: settleSchema, ...hooks }, async (request) => {
    refuseBody(request.body);
    await mails.settle(parseId(request.params.id, 'params/id'));
    return { msg: 'settled' };
  });
  done();
};

function mailBody({ id, kind, email, verified, token, expiresAt, user }: TakenMail) {
  return { id, kind, email, verified, token, expires_at: timestamp(expiresAt), user: userBody(user) };
}
