import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { SignUp } from '../../domain/users/sign-up.ts';
import type { ClientOf } from '../client.ts';
import { deviceOf } from '../device.ts';
import { operation } from '../openapi/operation.ts';
import type { PairBody } from '../pair.ts';
import type { Limit } from '../plugins/rate-limit.ts';
import { closedBody, Device, PairSchema, Password, Username } from '../schemas.ts';

interface SignUpRoute {
  signUp: SignUp;
  pairBody: PairBody;
  clientOf: ClientOf;
  limit: Limit;
}

const schema = operation({
  operationId: 'signUp',
  summary: 'Open an account and its first session',
  description:
    'Usernames and e-mail addresses are unique whatever their case. The address is not verified, and no answer ever shows it.',
  tags: ['Accounts'],
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
    name: Type.String({
      description: 'What the user is called, 1 to 128 characters, not blank',
      examples: ['Ada Lovelace'],
    }),
    email: Type.String({
      description: 'At most 254 characters, with one `@`',
      writeOnly: true,
      examples: ['ada@example.com'],
    }),
    password: Password,
    device: Type.Optional(Device),
  }),
  response: { 200: PairSchema },
});

export const signUpRoute: FastifyPluginCallbackTypebox<SignUpRoute> = (app, options, done) => {
  const { signUp, pairBody, clientOf, limit } = options;
  const onRequest = [app.refuseWhenLate, app.limitByAddress('signup', limit), app.refuseWhenFull];
  app.post('/api/auth/signup', { schema, onRequest }, async (request) => {
    const { device = deviceOf(request.headers['user-agent']), ...account } = request.body;
    return pairBody(await signUp({ ...account, device, client: clientOf(request) }));
  });
  done();
};
