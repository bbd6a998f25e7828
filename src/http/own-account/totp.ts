import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import { operation } from '../openapi/operation.ts';
import { callerOf } from '../plugins/authenticate.ts';
import { closedBody, Id } from '../schemas.ts';
import {
  factorChange,
  FactorPassword,
  PROVEN,
  PROVEN_REFUSES,
  RecoveryCodes,
  type FactorsRoute,
} from './factors.ts';

const common = { tags: ['Accounts'], security: [{ bearerAuth: [] }] } as const;

const setUpSchema = operation({
  ...common,
  operationId: 'setUpTotp',
  summary: 'Set up an authenticator app as second factor.',
  description: `Show the answer as a QR code, and [confirm](#/Accounts/confirmTotp) it with a code of the app. Until then, it counts for nothing. It replaces a set-up that was not confirmed. With \`EMAIL_VERIFICATION=true\`, the account’s address must be verified. A wrong current password counts as a failed login. ${PROVEN}`,
  refuses: [...PROVEN_REFUSES, 'invalid_credentials', 'factors_disabled', 'email_not_verified'],
  body: FactorPassword,
  response: {
    200: Type.Object(
      {
        secret: Type.String({
          description: 'In base32, for an app that cannot scan. Latchkey cannot show it again',
          readOnly: true,
          examples: ['GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ'],
        }),
        otpauth_uri: Type.String({
          description: 'What the QR code holds',
          readOnly: true,
          examples: [
            'otpauth://totp/auth.example.com:ada?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=auth.example.com&algorithm=SHA1&digits=6&period=30',
          ],
        }),
      },
      { title: 'NewTotp', description: 'The secret of an authenticator app', additionalProperties: false },
    ),
  },
});

const confirmSchema = operation({
  ...common,
  operationId: 'confirmTotp',
  summary: 'Confirm the authenticator app, which makes it the second factor.',
  description: `Only the session that has set it up may confirm it. It replaces the earlier app. With the account’s first factor, the answer has recovery codes. The code cannot be used again. A set-up takes a limited number of wrong codes (\`RATE_LIMIT_FACTOR\`). ${PROVEN}`,
  refuses: [...PROVEN_REFUSES, 'invalid_second_factor', 'email_not_verified'],
  body: closedBody('TotpConfirmation', {
    code: Type.String({
      description:
        'The six digits that the app shows now. Spaces, dashes and the script of the digits make no difference',
      writeOnly: true,
      examples: ['287082'],
    }),
  }),
  response: {
    200: Type.Object(
      { id: Id, recovery_codes: Type.Optional(RecoveryCodes) },
      { title: 'ConfirmedTotp', description: 'The new second factor', additionalProperties: false },
    ),
  },
});

/** The two requests that add an authenticator app. */
export const totpRoutes: FastifyPluginCallbackTypebox<FactorsRoute> = (app, options, done) => {
  const { ownFactors, guessOriginOf } = options;
  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [app.refuseWhenLate, authenticate, app.refuseWhenStoreFull, app.limitByAddress('login')];

  app.post(
    '/api/user/factors/totp',
    { schema: setUpSchema, onRequest: [...onRequest, app.refuseWhenFull('known')], preValidation },
    async (request) => {
      const change = await factorChange(request, request.body.current_password, guessOriginOf);
      const { secret, otpauthUri } = await ownFactors.setUpTotp(callerOf(request), change);
      return { secret, otpauth_uri: otpauthUri };
    },
  );

  app.post(
    '/api/user/factors/totp/confirm',
    { schema: confirmSchema, onRequest, preValidation },
    async (request) => {
      const { network } = await guessOriginOf(request);
      const source = { from: request, network };
      const { id, recoveryCodes } = await ownFactors.confirmTotp(
        callerOf(request),
        request.body.code,
        source,
      );
      return { id, ...(recoveryCodes && { recovery_codes: recoveryCodes }) };
    },
  );
  done();
};
