import type { FastifyPluginCallbackTypebox } from '@fastify/type-provider-typebox';
import type { AccountFactors } from '../../domain/factors/account-factors.ts';
import { BY_SERVICE } from '../openapi/description.ts';
import { operation } from '../openapi/operation.ts';
import { factorsBody, FactorsSchema } from '../own-account/factors.ts';
import { serviceOf } from '../plugins/authenticate-service.ts';
import { endedTokens, refuseBody } from '../schemas.ts';
import { accountId, AccountParams } from './account-schema.ts';

interface AccountFactorsRoute {
  accountFactors: AccountFactors;
}

const common = {
  tags: ['Users'],
  security: BY_SERVICE,
  refuses: ['user_unknown'],
  params: AccountParams,
} as const;

const listSchema = operation({
  ...common,
  operationId: 'listUserFactors',
  summary: 'List the second factors of an account.',
  description: 'Needs the right `users.read`.',
  response: { 200: FactorsSchema },
});

const removeSchema = operation({
  ...common,
  refuses: ['user_unknown', 'rate_limited'],
  operationId: 'removeUserFactors',
  summary: 'Remove all second factors of an account, and log it out on all devices.',
  description:
    'For a user who has lost the factor and the recovery codes: make sure that it is the user who asks, because the password alone opens the account afterwards. You may repeat the request. It needs the right `users.factors`.',
  response: { 200: endedTokens('UserFactorsRemoved', 'second factors removed') },
});

/** An account's second factors, for registered services. */
export const accountFactorsRoutes: FastifyPluginCallbackTypebox<AccountFactorsRoute> = (
  app,
  { accountFactors },
  done,
) => {
  app.get(
    '/api/users/:id/factors',
    { schema: listSchema, ...app.auth.service('users.read') },
    async (request) => factorsBody(await accountFactors.list(accountId(request.params))),
  );

  app.delete(
    '/api/users/:id/factors',
    { schema: removeSchema, ...app.auth.service('users.factors') },
    async (request) => {
      refuseBody(request.body);
      const ended = await accountFactors.removeAll(accountId(request.params), serviceOf(request), request);
      return { msg: 'second factors removed', ended };
    },
  );
  done();
};
