import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import { MAIL_KINDS, NOTICE_EVENTS, USUAL_MAIL_KINDS } from '../../domain/mail-kinds.ts';
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
  NullableLocale,
  parseId,
  refuseBody,
  Timestamp,
  timestamp,
} from '../schemas.ts';
import { userBody, UserSchema } from '../token-pair-response.ts';

interface MailsRoute {
  mails: Pick<Mails, 'take' | 'settle' | 'reportUndeliverable'>;
}

/** The most mails of one request, and how many it gets if it does not say. */
const [MOST, USUAL] = [100, 20];

const common = { tags: ['Users'], security: BY_SERVICE } as const;

const { email, verified } = AddressSchema.properties;

const Kind = Type.Enum([...MAIL_KINDS], {
  type: 'string',
  description: 'What the mail is for',
  examples: ['password_reset'],
});

const MailSchema = Type.Object(
  {
    id: { ...Id, description: 'The mail’s own: the operation that settles it takes it' },
    kind: Kind,
    email: { ...email, description: 'Where the mail goes, as its owner gave it' },
    verified,
    token: Type.Optional(
      Type.String({
        description:
          'The `reset_token` or `verification_token` that the user’s page posts. It is shown only here; a notice has none',
        readOnly: true,
        examples: ['lkr_Zr3vJ0pXk2mWq8sT1bYc9AZr3vJ0pXk2mWq8sT1bYc9'],
      }),
    ),
    expires_at: Type.Optional({ ...Timestamp, description: 'When the token expires' }),
    event: Type.Optional(
      Type.Enum([...NOTICE_EVENTS], {
        type: 'string',
        description: 'What a notice tells of',
        examples: ['password_changed'],
      }),
    ),
    at: Type.Optional({ ...Timestamp, description: 'When that happened' }),
    locale: NullableLocale,
    user: UserSchema,
  },
  { title: 'Mail', description: 'A mail that an account wants', additionalProperties: false },
);

const takeSchema = operation({
  ...common,
  operationId: 'takeMails',
  summary: 'Take the mails that accounts want.',
  description:
    'Returns the mails that have waited longest, each with a new token beside its earlier ones. A mail that was taken is hidden for 1 minute, so that no two mailers have it at the same time; then it can be taken again, unless it was settled, and is hidden for 2, 4, 8, 16 and 32 minutes. A mail that was not settled after six tries, or 60 minutes after it was asked for, is dropped; invitations and notices have 24 hours. A mailer gets only kinds that it names, so that it meets none that it does not know. It needs the right `mails`, whose holder can open every account.',
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
    kinds: Type.Optional(
      Type.Array(Kind, {
        description: `The kinds that the mailer knows; \`${USUAL_MAIL_KINDS.join('` and `')}\` by default`,
        minItems: 1,
        uniqueItems: true,
        examples: [[...MAIL_KINDS]],
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

const undeliverableSchema = operation({
  ...common,
  operationId: 'reportUndeliverable',
  summary: 'Say that an address cannot be reached.',
  description:
    'Report what a mail server has refused for good, at once or hours later. The mails that wait for the address are settled, and whoever has it pending loses it. An account that has it in force shows `email_deliverable: false`, and gets only the proofs that its owner asks for, until the address is proved, changed or marked as verified. The answer is the same for an address that no account has, so you may repeat the request. It needs the right `mails`.',
  refuses: ['rate_limited'],
  body: closedBody('UndeliverableAddress', {
    email: Type.String({
      description: 'The address, in any spelling',
      shown: { minLength: 1, maxLength: 254 },
      examples: ['ada@example.com'],
      writeOnly: true,
    }),
  }),
  response: { 200: MessageSchema },
});

/** The wanted mails, for a mailer. */
export const mailsRoutes: FastifyPluginCallbackTypebox<MailsRoute> = (app, { mails }, done) => {
  const hooks = app.auth.service('mails');

  app.post('/api/users/mails', { schema: takeSchema, ...hooks }, async (request) => {
    const { limit = USUAL, kinds = [...USUAL_MAIL_KINDS] } = request.body;
    const taken = await mails.take({ limit, kinds }, serviceOf(request), request);
    return { mails: taken.map(mailBody) };
  });

  app.post('/api/users/mails/undeliverable', { schema: undeliverableSchema, ...hooks }, async (request) => {
    await mails.reportUndeliverable(request.body.email, serviceOf(request), request);
    return { msg: 'noted' };
  });

  app.delete('/api/users/mails/:id', { schema: settleSchema, ...hooks }, async (request) => {
    refuseBody(request.body);
    await mails.settle(parseId(request.params.id, 'params/id'));
    return { msg: 'settled' };
  });
  done();
};

function mailBody(mail: TakenMail) {
  const { id, kind, email, verified, locale } = mail;
  const own =
    mail.kind === 'notice'
      ? { event: mail.event, at: timestamp(mail.at) }
      : { token: mail.token, expires_at: timestamp(mail.expiresAt) };
  return { id, kind, email, verified, ...own, locale, user: userBody(mail.user) };
}
