import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { LogInWithPasskey } from '../../domain/passkeys/log-in-with-passkey.ts';
import { operation } from '../openapi/operation.ts';
import { refuseBody } from '../schemas.ts';

interface PasskeyRoute {
  logInWithPasskey: Pick<LogInWithPasskey, 'options'>;
}

/** Bytes in base64url, as browsers write them in JSON. */
export const base64url = (description: string, example: string) =>
  Type.String({ description, examples: [example] });

const CREDENTIAL_ID = 'Xk2mWq8sT1bYc9AZr3vJ0p';

/** The members that all answers of a browser have. Others are ignored, since browsers may add some. */
export const ANSWER = {
  id: base64url('The id of the credential, in base64url', CREDENTIAL_ID),
  rawId: base64url('The same', CREDENTIAL_ID),
  type: Type.String({ description: '`public-key`', examples: ['public-key'] }),
};

export const CLIENT_DATA = base64url(
  'What the browser has asked, as JSON in base64url',
  'eyJ0eXBlIjoid2ViYXV0aG4',
);

/**
 * An AuthenticationResponseJSON. Its bytes are judged when it is verified: what is wrong with them is 401.
 */
export const PasskeyLogin = Type.Object(
  {
    ...ANSWER,
    response: Type.Object(
      {
        clientDataJSON: CLIENT_DATA,
        authenticatorData: base64url('What the authenticator says', 'SZYN5YgOjGh0NBcPZHZgW4'),
        signature: base64url('Its signature', 'MEUCIQDr3vJ0pXk2mWq8sT'),
        userHandle: Type.Optional(base64url('The account’s handle', 'q8sT1bYc9AZr3vJ0pXk2mW')),
      },
      { description: 'What the authenticator has answered' },
    ),
  },
  {
    title: 'PasskeyLogin',
    description:
      'An `AuthenticationResponseJSON` (WebAuthn Level 3), instead of `login_token` and a code. Members that are not listed are ignored',
    writeOnly: true,
  },
);

const schema = operation({
  operationId: 'getPasskeyOptions',
  summary: 'Get what a browser needs for a login with a passkey.',
  description:
    'Give the answer to `navigator.credentials.get`, and send what that returns to [the second step](#/Sessions/completeLogin) as `passkey`. The challenge is good for 5 minutes and for one session. Nothing names an account: the user picks one of the passkeys on the device.',
  tags: ['Sessions'],
  security: [],
  refuses: ['validation_failed', 'factors_disabled'],
  response: {
    200: Type.Object(
      {
        challenge: base64url('What the authenticator signs', 'AAABm3ZkFxgq8sT1bYc9AZr3vJ0pXk2m'),
        timeout: Type.Integer({ description: 'Milliseconds', examples: [300_000] }),
        rpId: Type.String({ description: '`WEBAUTHN_RP_ID`', examples: ['example.com'] }),
        userVerification: Type.Literal('required', {
          description: 'The authenticator asks for a PIN, a fingerprint or the like',
        }),
      },
      {
        title: 'PasskeyLoginOptions',
        description: 'A `PublicKeyCredentialRequestOptionsJSON` (WebAuthn Level 3)',
        additionalProperties: false,
      },
    ),
  },
});

export const passkeyRoute: FastifyPluginCallbackTypebox<PasskeyRoute> = (app, { logInWithPasskey }, done) => {
  app.post(
    '/api/auth/passkey',
    { schema, config: { budget: { none: 'it computes one HMAC and touches no store' } } },
    (request, reply) => {
      refuseBody(request.body);
      // Each page needs a challenge of its own.
      reply.header('cache-control', 'no-store').send(logInWithPasskey.options());
    },
  );
  done();
};
