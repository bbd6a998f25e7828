import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import { AuthError, type FieldError } from '../../domain/errors.ts';
import type { LogInWithPasskey, PasskeyLoginRequest } from '../../domain/passkeys/log-in-with-passkey.ts';
import type { LoginAnswer } from '../../domain/passkeys/ports.ts';
import type { CompleteLogin, CompleteLoginRequest } from '../../domain/sessions/complete-login.ts';
import type { CallerFingerprint } from '../caller/fingerprint.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import type { NoteLogin } from '../caller/hidden-callers.ts';
import { deviceNameOf, userAgentTextOf } from '../caller/user-agent.ts';
import { operation } from '../openapi/operation.ts';
import { type TokenPairResponse, PairSchema } from '../token-pair-response.ts';
import { Device, LOGIN_TOKEN } from '../schemas.ts';
import { PasskeyLogin } from './passkey.ts';

interface SecondFactorRoute {
  completeLogin: CompleteLogin;
  logInWithPasskey: LogInWithPasskey;
  tokenPairResponse: TokenPairResponse;
  callerFingerprint: CallerFingerprint;
  guessOriginOf: GuessOriginOf;
  noteLogin: NoteLogin;
}

const schema = operation({
  operationId: 'completeLogin',
  summary: 'Take the second step of a login, or log in with a passkey, which opens the session.',
  description:
    'With `passkey`, it is a whole login: send what the browser answered to the [options](#/Sessions/getPasskeyOptions), without `login_token`. 401 `passkey_unknown` means that the account no longer has the passkey, so that a page may call `signalUnknownCredential`. Otherwise, it is for a login that was answered 401 `second_factor_required`. Send its `login_token` with a code of the authenticator app or with a recovery code, never with both. Each code works once, and so does every earlier one of the app. The login token is good for 5 minutes and may be sent again, until the password changes or the account is disabled. Wrong codes are limited for each account, and for each device that has logged in with a code before (`RATE_LIMIT_FACTOR`), and five times as many for the account in all; recovery codes work all the same. To be recognised as such a device from any address, send its last refresh token as `Authorization: Bearer`, even if it has expired or was revoked.',
  tags: ['Sessions'],
  security: [],
  refuses: [
    'invalid_login_token',
    'invalid_second_factor',
    'invalid_passkey',
    'passkey_unknown',
    'factors_disabled',
    'rate_limited',
    'overloaded',
    'unavailable',
  ],
  body: Type.Object(
    {
      login_token: Type.Optional(
        Type.String({
          description: 'The `login_token` of the first step; not with `passkey`',
          writeOnly: true,
          examples: [LOGIN_TOKEN],
        }),
      ),
      code: Type.Optional(
        Type.String({
          description:
            'The six digits that the authenticator app shows; instead of `recovery_code`. Spaces, dashes and the script of the digits make no difference',
          writeOnly: true,
          examples: ['287082'],
        }),
      ),
      recovery_code: Type.Optional(
        Type.String({
          description:
            'One of the recovery codes; instead of `code`. Case, spaces and dashes make no difference',
          writeOnly: true,
          examples: ['MFRG-GZDF-MZTW-Q2LK-NNWG-2ZLB'],
        }),
      ),
      passkey: Type.Optional(PasskeyLogin),
      device: Type.Optional(Device),
    },
    {
      title: 'SecondStep',
      additionalProperties: false,
      // The examples of all members would be one too many.
      examples: [{ login_token: LOGIN_TOKEN, code: '287082', device: 'Kitchen tablet' }],
    },
  ),
  response: { 200: PairSchema },
});

export const secondFactorRoute: FastifyPluginCallbackTypebox<SecondFactorRoute> = (
  app,
  { completeLogin, logInWithPasskey, tokenPairResponse, callerFingerprint, guessOriginOf, noteLogin },
  done,
) => {
  app.addHook('onRequest', (request, _reply, next) => {
    noteLogin(request);
    next();
  });
  // As a login, but no password is hashed: full queues of hashes are no reason to refuse it.
  app.post('/api/auth/second-factor', { schema, config: { budget: 'account' } }, async (request) => {
    const given = givenOf(request.body);
    const from = {
      device: deviceNameOf(request.body.device, userAgentTextOf(request)),
      caller: callerFingerprint(request),
      origin: await guessOriginOf(request),
      from: request,
    };
    const grant =
      'answer' in given
        ? await logInWithPasskey.logIn({ ...given, ...from })
        : await completeLogin({ ...given, ...from });
    return tokenPairResponse(grant);
  });
  done();
};

interface GivenBody {
  login_token?: string;
  code?: string;
  recovery_code?: string;
  passkey?: LoginAnswer;
}

/** @throws AuthError `validation_failed` unless there is exactly one, with the login token that it takes */
function givenOf(
  body: GivenBody,
): Pick<CompleteLoginRequest, 'loginToken' | 'given'> | Pick<PasskeyLoginRequest, 'answer'> {
  const { login_token: loginToken, code, recovery_code: recoveryCode, passkey: answer } = body;
  if (answer) {
    const other = (['login_token', 'code', 'recovery_code'] as const).find(
      (name) => body[name] !== undefined,
    );
    if (other === undefined) return { answer };
    const message = 'must not be there together with passkey';
    throw refused({ path: `/${other}`, code: 'not_allowed', message });
  }
  if (loginToken === undefined) {
    const message = 'is required, unless there is a passkey';
    throw refused({ path: '/login_token', code: 'required', message });
  }
  if (code !== undefined && recoveryCode === undefined)
    return { loginToken, given: { method: 'totp', code } };
  if (code === undefined && recoveryCode !== undefined)
    return { loginToken, given: { method: 'recovery_code', code: recoveryCode } };
  throw refused(
    code === undefined
      ? { path: '/code', code: 'required', message: 'is required, unless there is a recovery_code' }
      : { path: '/recovery_code', code: 'not_allowed', message: 'must not be there together with code' },
  );
}

function refused(error: FieldError): AuthError {
  return new AuthError('validation_failed', { errors: [error] });
}
