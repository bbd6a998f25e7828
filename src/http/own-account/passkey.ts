import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { OwnPasskeys } from '../../domain/passkeys/own-passkeys.ts';
import { ANSWER, base64url, CLIENT_DATA } from '../auth/passkey.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import { operation } from '../openapi/operation.ts';
import { callerOf } from '../plugins/authenticate.ts';
import { closedBody, Id } from '../schemas.ts';
import { factorChange, FactorPassword, PROVEN, PROVEN_REFUSES, RecoveryCodes } from './factors.ts';

interface OwnPasskeyRoute {
  ownPasskeys: OwnPasskeys;
  guessOriginOf: GuessOriginOf;
}

const common = { tags: ['Accounts'], security: [{ bearerAuth: [] }] } as const;

const text = (description: string, example: string) => Type.String({ description, examples: [example] });

const setUpSchema = operation({
  ...common,
  operationId: 'setUpPasskey',
  summary: 'Begin to add a passkey.',
  description: `Give the answer to \`navigator.credentials.create\`, and [confirm](#/Accounts/confirmPasskey) with what that returns, within 5 minutes. Until then, it counts for nothing. It replaces a factor that was set up and not confirmed. An account has at most 10 passkeys. With \`EMAIL_VERIFICATION=true\`, the account’s address must be verified. A wrong current password counts as a failed login. ${PROVEN}`,
  refuses: [
    ...PROVEN_REFUSES,
    'invalid_credentials',
    'too_many_factors',
    'factors_disabled',
    'email_not_verified',
  ],
  body: FactorPassword,
  response: {
    200: Type.Object(
      {
        rp: Type.Object(
          { id: text('`WEBAUTHN_RP_ID`', 'example.com'), name: text('`FACTOR_ISSUER`', 'Example') },
          { description: 'For whom it is', additionalProperties: false },
        ),
        user: Type.Object(
          {
            id: base64url('The account’s handle, random', 'q8sT1bYc9AZr3vJ0pXk2mW'),
            name: text('The username', 'ada'),
            displayName: text('The user’s name', 'Ada Lovelace'),
          },
          {
            description: 'Whose it is, as the user’s list of passkeys shows it',
            additionalProperties: false,
          },
        ),
        challenge: base64url('What belongs to this enrolment alone', 'Zr3vJ0pXk2mWq8sT1bYc9A'),
        pubKeyCredParams: Type.Array(
          Type.Object(
            {
              type: Type.Literal('public-key', { description: 'The only type' }),
              alg: Type.Integer({ description: 'Its number in COSE', examples: [-7] }),
            },
            { additionalProperties: false },
          ),
          { description: 'The algorithms: ES256, Ed25519 and RS256' },
        ),
        timeout: Type.Integer({ description: 'Milliseconds', examples: [300_000] }),
        excludeCredentials: Type.Array(
          Type.Object(
            {
              type: Type.Literal('public-key', { description: 'The only type' }),
              id: base64url('The id of a credential', 'Xk2mWq8sT1bYc9AZr3vJ0p'),
              transports: Type.Array(Type.String(), {
                description: 'How browsers reach it',
                examples: [['internal']],
              }),
            },
            { additionalProperties: false },
          ),
          { description: 'The passkeys that the account has: no second one is made on the same device' },
        ),
        authenticatorSelection: Type.Object(
          {
            residentKey: Type.Literal('required', { description: 'A login names no account' }),
            requireResidentKey: Type.Literal(true, { description: 'The same, for older browsers' }),
            userVerification: Type.Literal('required', { description: 'A PIN, a fingerprint or the like' }),
          },
          { description: 'What a passkey must be able to do', additionalProperties: false },
        ),
        attestation: Type.Literal('none', { description: 'No proof of the authenticator’s make is asked' }),
        extensions: Type.Object(
          { credProps: Type.Literal(true, { description: 'Whether it became a passkey' }) },
          { description: 'What the browser is asked besides', additionalProperties: false },
        ),
      },
      {
        title: 'PasskeyCreationOptions',
        description: 'A `PublicKeyCredentialCreationOptionsJSON` (WebAuthn Level 3)',
        additionalProperties: false,
      },
    ),
  },
});

const confirmSchema = operation({
  ...common,
  operationId: 'confirmPasskey',
  summary: 'Confirm the passkey, which makes it a second factor and a login of its own.',
  description: `Only the session that has begun may confirm it. With the account’s first factor, the answer has recovery codes. ${PROVEN}`,
  refuses: [...PROVEN_REFUSES, 'invalid_passkey', 'factors_disabled', 'email_not_verified'],
  body: closedBody('PasskeyConfirmation', {
    name: Type.String({
      description: 'What the user calls it. Invisible characters are removed',
      shown: { minLength: 1, maxLength: 128 },
      examples: ['Ada’s phone'],
    }),
    passkey: Type.Object(
      {
        ...ANSWER,
        response: Type.Object(
          {
            clientDataJSON: CLIENT_DATA,
            attestationObject: base64url(
              'The new key, and what the authenticator says of it',
              'o2NmbXRkbm9uZQ',
            ),
            transports: Type.Optional(
              Type.Array(Type.String(), { description: 'How browsers reach it', examples: [['internal']] }),
            ),
          },
          { description: 'What the authenticator has answered' },
        ),
        clientExtensionResults: Type.Optional(
          Type.Object(
            {
              credProps: Type.Optional(
                Type.Object(
                  {
                    rk: Type.Optional(
                      Type.Boolean({ description: 'Whether it became a passkey', examples: [true] }),
                    ),
                  },
                  { description: 'What the browser says of the credential' },
                ),
              ),
            },
            { description: 'What the browser has answered besides' },
          ),
        ),
      },
      {
        title: 'PasskeyEnrolment',
        description:
          'A `RegistrationResponseJSON` (WebAuthn Level 3). Members that are not listed are ignored, and so is an attestation statement',
        writeOnly: true,
      },
    ),
  }),
  response: {
    200: Type.Object(
      { id: Id, recovery_codes: Type.Optional(RecoveryCodes) },
      { title: 'ConfirmedPasskey', description: 'The new passkey', additionalProperties: false },
    ),
  },
});

/** The two requests that add a passkey. */
export const ownPasskeyRoutes: FastifyPluginCallbackTypebox<OwnPasskeyRoute> = (app, options, done) => {
  const { ownPasskeys, guessOriginOf } = options;
  const { onRequest: authenticate, preValidation } = app.auth.change;
  const onRequest = [app.refuseWhenLate, authenticate, app.refuseWhenStoreFull, app.limitByAddress('login')];

  app.post(
    '/api/user/factors/passkey',
    { schema: setUpSchema, onRequest: [...onRequest, app.refuseWhenFull('known')], preValidation },
    async (request) => {
      const change = await factorChange(request, request.body.current_password, guessOriginOf);
      return ownPasskeys.setUp(callerOf(request), change);
    },
  );

  app.post(
    '/api/user/factors/passkey/confirm',
    { schema: confirmSchema, onRequest, preValidation },
    async (request) => {
      const { name, passkey: answer } = request.body;
      const { id, recoveryCodes } = await ownPasskeys.confirm(callerOf(request), { name, answer }, request);
      return { id, ...(recoveryCodes && { recovery_codes: recoveryCodes }) };
    },
  );
  done();
};
