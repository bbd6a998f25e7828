import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { FastifyRequest } from 'fastify';
import Type from 'typebox';
import type { OwnFactors } from '../../domain/factors/own-factors.ts';
import type { FactorChangeRequest } from '../../domain/factors/proven.ts';
import type { FactorList } from '../../domain/factors/ports.ts';
import { FACTOR_TYPES } from '../../domain/second-step.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { callerTurn } from '../caller/network.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf, principalOf } from '../plugins/authenticate.ts';
import {
  closedBody,
  Id,
  IdText,
  MessageSchema,
  parseId,
  Password,
  Timestamp,
  timestamp,
} from '../schemas.ts';

export interface FactorsRoute {
  ownFactors: OwnFactors;
  guessOriginOf: GuessOriginOf;
}

const FactorSchema = Type.Object(
  {
    id: Id,
    type: Type.Enum([...FACTOR_TYPES], { type: 'string', description: 'Its kind', examples: ['totp'] }),
    name: Type.String({ description: 'What it is, for people', examples: ['Authenticator app'] }),
    created_at: Timestamp,
    last_used_at: Type.Union([Timestamp, Type.Null()], {
      description: 'When it was last used; `null` for never',
      examples: ['2026-01-09T17:30:00.000Z'],
    }),
  },
  { title: 'Factor', description: 'A second factor', additionalProperties: false },
);

export const FactorsSchema = Type.Object(
  {
    factors: Type.Array(FactorSchema, { description: 'The oldest first; a login takes one if there is any' }),
    recovery_codes_left: Type.Integer({
      description: 'How many recovery codes were not used',
      examples: [10],
    }),
  },
  { title: 'Factors', description: 'The second factors of an account', additionalProperties: false },
);

const OwnFactorsSchema = Type.Object(
  {
    ...FactorsSchema.properties,
    accepted_passkeys: Type.Optional(
      Type.Object(
        {
          rpId: Type.String({ description: '`WEBAUTHN_RP_ID`', examples: ['example.com'] }),
          userId: Type.String({
            description: 'The account’s handle, in base64url',
            examples: ['q8sT1bYc9AZr3vJ0pXk2mW'],
          }),
          allAcceptedCredentialIds: Type.Array(Type.String(), {
            description: 'The passkeys that the account has, in base64url',
            examples: [['Xk2mWq8sT1bYc9AZr3vJ0p']],
          }),
        },
        {
          description:
            'What a page gives to `signalAllAcceptedCredentials`, so that browsers offer no other passkeys of this user. Absent before the first one is set up, and while passkeys are off',
          additionalProperties: false,
        },
      ),
    ),
  },
  { title: 'OwnFactors', description: 'The own second factors', additionalProperties: false },
);

export const RecoveryCodes = Type.Array(Type.String(), {
  description: 'Each replaces a code once. Latchkey cannot show them again',
  readOnly: true,
  examples: [['ABCD-EFGH-IJKL-MNOP-QRST-UVWX']],
});

export const FactorPassword = closedBody('FactorChange', {
  current_password: { ...Password, description: 'The present password' },
});

/** What every change of factors refuses, besides what the password adds. */
export const PROVEN_REFUSES = ['token_not_allowed', 'login_too_old', 'rate_limited', 'overloaded'] as const;

/** For the descriptions of those that change factors. */
export const PROVEN =
  'Once the account has a factor, it takes a session that was opened with one, at most `FACTOR_LOGIN_MAX_AGE` (10 minutes) ago. A long-lived token may not do this.';

const common = { tags: ['Accounts'], security: [{ bearerAuth: [] }] } as const;

const listSchema = operation({
  ...common,
  operationId: 'listFactors',
  summary: 'List the own second factors.',
  description: 'A factor that was set up and not confirmed is not among them.',
  refuses: [],
  response: { 200: OwnFactorsSchema },
});

const codesSchema = operation({
  ...common,
  operationId: 'replaceRecoveryCodes',
  summary: 'Get new recovery codes.',
  description: `The earlier ones end. A wrong current password counts as a failed login. ${PROVEN}`,
  refuses: [...PROVEN_REFUSES, 'invalid_credentials', 'factor_unknown'],
  body: FactorPassword,
  response: {
    200: Type.Object(
      { recovery_codes: RecoveryCodes },
      { title: 'NewRecoveryCodes', description: 'The recovery codes', additionalProperties: false },
    ),
  },
});

const removeSchema = operation({
  ...common,
  operationId: 'removeFactor',
  summary: 'Remove a second factor.',
  description: `The recovery codes go with the last one, and no session ends. A wrong current password counts as a failed login. ${PROVEN}`,
  refuses: [...PROVEN_REFUSES, 'invalid_credentials', 'factor_unknown'],
  params: Type.Object({ id: IdText }),
  body: FactorPassword,
  response: { 200: MessageSchema },
});

/** The second factors of the caller's account. */
export const factorsRoutes: FastifyPluginCallbackTypebox<FactorsRoute> = (app, options, done) => {
  const { ownFactors, guessOriginOf } = options;

  app.get('/api/user/factors', { schema: listSchema, onRequest: app.auth.principal }, async (request) =>
    ownFactorsBody(await ownFactors.list(principalOf(request))),
  );

  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [
    app.refuseWhenLate,
    authenticate,
    app.refuseWhenStoreFull,
    app.limitByAddress('login'),
    app.refuseWhenFull('known'),
  ];

  app.post(
    '/api/user/factors/recovery-codes',
    { schema: codesSchema, onRequest, preValidation },
    async (request) => {
      const change = await factorChange(request, request.body.current_password, guessOriginOf);
      return { recovery_codes: await ownFactors.replaceRecoveryCodes(callerOf(request), change) };
    },
  );

  app.post(
    '/api/user/factors/:id/removal',
    { schema: removeSchema, onRequest, preValidation },
    async (request) => {
      const id = parseId(request.params.id, 'params/id');
      const change = await factorChange(request, request.body.current_password, guessOriginOf);
      await ownFactors.remove(callerOf(request), id, change);
      return { msg: 'second factor removed' };
    },
  );
  done();
};

/** The answer of a list, for owners and services. */
export function factorsBody({ factors, codesLeft }: FactorList) {
  return {
    factors: factors.map(({ id, type, name, createdAt, lastUsedAt }) => ({
      id,
      type,
      name,
      created_at: timestamp(createdAt),
      last_used_at: lastUsedAt === null ? null : timestamp(lastUsedAt),
    })),
    recovery_codes_left: codesLeft,
  };
}

/** The owner's answer has what browsers may be told besides. */
function ownFactorsBody(list: FactorList) {
  const { accepted } = list;
  const base64url = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64url');
  return {
    ...factorsBody(list),
    ...(accepted && {
      accepted_passkeys: {
        rpId: accepted.rpId,
        userId: base64url(accepted.handle),
        allAcceptedCredentialIds: accepted.credentialIds.map(base64url),
      },
    }),
  };
}

/** A request that holds the current password, as the use cases take it. */
export async function factorChange(
  request: FastifyRequest,
  currentPassword: string,
  guessOriginOf: GuessOriginOf,
): Promise<FactorChangeRequest> {
  const origin = await guessOriginOf(request);
  return { currentPassword, turn: callerTurn(request), origin, from: request };
}
