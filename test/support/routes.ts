import diagnostics from 'node:diagnostics_channel';
import type { FastifyInstance, RouteOptions } from 'fastify';

export interface Route {
  method: string;
  url: string;
  schema: unknown;
  /** Plugins may change them after the route is added. */
  options: RouteOptions;
}

/** Every route registered while `build` runs. Fastify announces each new instance on a diagnostics channel. */
export async function routesOf(build: () => Promise<unknown>): Promise<Route[]> {
  const routes: Route[] = [];
  const listen = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook('onRoute', (options) => {
      const { url, schema } = options;
      for (const method of [options.method].flat()) routes.push({ method, url, schema, options });
    });
  };
  diagnostics.subscribe('fastify.initialization', listen);
  try {
    await build();
  } finally {
    diagnostics.unsubscribe('fastify.initialization', listen);
  }
  return routes;
}
