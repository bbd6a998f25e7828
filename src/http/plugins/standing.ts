import type { FastifyInstance, onRequestHookHandler } from 'fastify';
import fp from 'fastify-plugin';
import { AuthError } from '../../domain/errors.ts';
import type { Standing } from '../../domain/standing.ts';

interface StandingOptions {
  standing: Standing;
}

/**
 * Refuses every request while this replica disagrees with its installation: its 401 would end sessions that are good.
 * A hook of each route, before those of authentication and limits, and after that of CORS, so that scripts can read it.
 */
function standing(app: FastifyInstance, options: StandingOptions, done: () => void): void {
  const refuse: onRequestHookHandler = (_request, _reply, next) => {
    next(options.standing.objection() === null ? undefined : new AuthError('unavailable'));
  };
  app.addHook('onRoute', (route) => {
    route.onRequest = [refuse, ...[route.onRequest ?? []].flat()];
  });
  done();
}

export default fp(standing, { name: 'standing', fastify: '5.x' });
