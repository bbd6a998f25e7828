import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { SignUp } from '../../domain/sessions/sign-up.ts';
import { preferredLocale } from '../../domain/users/locale.ts';
import { callerTurn, type NetworkOf } from '../caller/network.ts';
import type { CallerFingerprint } from '../caller/fingerprint.ts';
import { deviceNameOf, userAgentTextOf } from '../caller/user-agent.ts';
import { operation } from '../openapi/operation.ts';
import { type TokenPairResponse, PairSchema } from '../token-pair-response.ts';
import { closedBody, Device, Email, Name, NewPassword, Username } from '../schemas.ts';

interface SignUpRoute {
  signUp: SignUp;
  tokenPairResponse: TokenPairResponse;
  callerFingerprint: CallerFingerprint;
  networkOf: NetworkOf;
}

const schema = operation({
  operationId: 'signUp',
  summary: 'Create an account and sign its user in.',
  description:
    'A username and an e-mail address belong to one account, whatever their case, and a username may not look like that of another account. The address counts as not verified until its owner proves it, and of a user’s own operations only `GET /api/user/email` shows it. The account’s `locale` is the language that `Accept-Language` prefers.',
  tags: ['Sessions'],
  security: [],
  refuses: [
    'username_taken',
    'email_taken',
    'password_refused',
    'signup_disabled',
    'rate_limited',
    'overloaded',
    'unavailable',
  ],
  body: closedBody('SignUp', {
    username: Username,
    name: Name,
    email: Email,
    password: NewPassword,
    device: Type.Optional(Device),
  }),
  response: { 200: PairSchema },
});

export const signUpRoute: FastifyPluginCallbackTypebox<SignUpRoute> = (app, options, done) => {
  const { signUp, tokenPairResponse, callerFingerprint, networkOf } = options;
  const config = { budget: 'signups' } as const;
  app.post(
    '/api/auth/signup',
    { schema, config, onRequest: app.refuseWhenFull('signup') },
    async (request) => {
      const device = deviceNameOf(request.body.device, userAgentTextOf(request));
      const caller = {
        caller: callerFingerprint(request),
        turn: callerTurn(request),
        network: networkOf(request),
        from: request,
      };
      const locale = preferredLocale(request.headers['accept-language']);
      return tokenPairResponse(await signUp({ ...request.body, device, locale, ...caller }));
    },
  );
  done();
};
