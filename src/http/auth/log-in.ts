import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import Type from 'typebox';
import type { LogIn } from '../../domain/sessions/log-in.ts';
import type { ClientOf } from '../client.ts';
import { deviceOf } from '../device.ts';
import { operation } from '../openapi/operation.ts';
import type { PairBody } from '../pair.ts';
import type { Limit } from '../plugins/rate-limit.ts';
import { closedBody, Device, PairSchema, Password } from '../schemas.ts';

interface LogInRoute {
  logIn: LogIn;
  pairBody: PairBody;
  clientOf: ClientOf;
  limit: Limit;
}

const schema = operation({
  operationId: 'logIn',
  summary: 'Log in',
  description:
    'Begins a session on one device. Wrong password, unknown user and disabled user get the same answer. A user who has `MAX_SESSIONS_PER_USER` (100) sessions loses the one unused for longest.',
  tags: ['Sessions'],
  security: [],
  refuses: ['invalid_credentials', 'rate_limited', 'overloaded', 'unavailable'],
  body: closedBody('LogIn', {
    username: Type.String({ description: 'The username, or the e-mail address', examples: ['ada'] }),
    password: Password,
    device: Type.Optional(Device),
  }),
  response: { 200: PairSchema },
});

export const logInRoute: FastifyPluginCallbackTypebox<LogInRoute> = (
  app,
  { logIn, pairBody, clientOf, limit },
  done,
) => {
  const onRequest = [app.refuseWhenLate, app.limitByAddress('login', limit), app.refuseWhenFull];
  app.post('/api/auth', { schema, onRequest }, async (request) => {
    const { username, password, device = deviceOf(request.headers['user-agent']) } = request.body;
    return pairBody(await logIn({ username, password, device, client: clientOf(request) }));
  });
  done();
};
