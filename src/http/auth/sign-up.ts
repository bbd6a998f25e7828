import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { SignUp } from '../../domain/users/sign-up.ts';
import type { ClientOf } from '../client.ts';
import { deviceOf } from '../device.ts';
import type { PairBody } from '../pair.ts';
import type { Limit } from '../plugins/rate-limit.ts';
import { closedBody, Device, PairSchema, Password, Username } from '../schemas.ts';

interface SignUpRoute {
  signUp: SignUp;
  pairBody: PairBody;
  clientOf: ClientOf;
  limit: Limit;
}

const schema = {
  operationId: 'signUp',
  summary: 'Open an account and its first session',
  body: closedBody({
    username: Username,
    name: Type.String({ description: '1 to 128 characters', examples: ['Ada Lovelace'] }),
    email: Type.String({ description: 'At most 254 characters', examples: ['ada@example.com'] }),
    password: Password,
    device: Type.Optional(Device),
  }),
  response: { 200: PairSchema },
};

export const signUpRoute: FastifyPluginCallbackTypebox<SignUpRoute> = (app, options, done) => {
  const { signUp, pairBody, clientOf, limit } = options;
  const onRequest = [app.refuseWhenLate, app.limitByAddress('signup', limit), app.refuseWhenFull];
  app.post('/api/auth/signup', { schema, onRequest }, async (request) => {
    const { device = deviceOf(request.headers['user-agent']), ...account } = request.body;
    return pairBody(await signUp({ ...account, device, client: clientOf(request) }));
  });
  done();
};
