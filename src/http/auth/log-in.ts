import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { LogIn } from '../../domain/sessions/log-in.ts';
import { callerTurn } from '../caller/network.ts';
import type { CallerFingerprint } from '../caller/fingerprint.ts';
import { deviceNameOf, userAgentTextOf } from '../caller/user-agent.ts';
import type { GuessOriginOf } from '../caller/guess-origin.ts';
import type { NoteLogin } from '../caller/hidden-callers.ts';
import { operation } from '../openapi/operation.ts';
import { type TokenPairResponse, PairSchema } from '../token-pair-response.ts';
import { closedBody, Device, Password } from '../schemas.ts';

interface LogInRoute {
  logIn: LogIn;
  tokenPairResponse: TokenPairResponse;
  callerFingerprint: CallerFingerprint;
  guessOriginOf: GuessOriginOf;
  noteLogin: NoteLogin;
}

const schema = operation({
  operationId: 'logIn',
  summary: 'Log in with a password, which opens a session.',
  description:
    'A wrong password, an unknown user and a disabled user get the same answer. A user who has `MAX_SESSIONS_PER_USER` (100) sessions loses the one that was unused for longest. Failed logins are limited for each name, and for each device that has logged in before. To be recognised as such a device from any address, send its last refresh token or long-lived token as `Authorization: Bearer`, even if it has expired or was revoked. If the account has a second factor, the answer to a right password is 401 `second_factor_required`, and [the second step](#/Sessions/completeLogin) opens the session.',
  tags: ['Sessions'],
  security: [],
  refuses: ['invalid_credentials', 'second_factor_required', 'rate_limited', 'overloaded', 'unavailable'],
  body: closedBody('LogIn', {
    username: Type.String({
      description: 'The username or the e-mail address',
      shown: { minLength: 1, maxLength: 254 },
      examples: ['ada'],
    }),
    password: Password,
    device: Type.Optional(Device),
  }),
  response: { 200: PairSchema },
});

export const logInRoute: FastifyPluginCallbackTypebox<LogInRoute> = (
  app,
  { logIn, tokenPairResponse, callerFingerprint, guessOriginOf, noteLogin },
  done,
) => {
  // First: the limits refuse many of the logins of hidden callers.
  app.addHook('onRequest', (request, _reply, next) => {
    noteLogin(request);
    next();
  });
  const config = { budget: 'guesses' } as const;
  app.post('/api/auth', { schema, config, onRequest: app.refuseWhenFull('login') }, async (request) => {
    const { username, password } = request.body;
    const device = deviceNameOf(request.body.device, userAgentTextOf(request));
    const caller = {
      caller: callerFingerprint(request),
      turn: callerTurn(request),
      origin: await guessOriginOf(request),
      from: request,
    };
    return tokenPairResponse(await logIn({ username, password, device, ...caller }));
  });
  done();
};
