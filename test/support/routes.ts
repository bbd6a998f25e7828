import diagnostics from 'node:diagnostics_channel';
import type { FastifyInstance } from 'fastify';

export interface Route {
  method: string;
  url: string;
  schema: unknown;
}

/** Every route registered while `build` runs. Fastify announces each new instance on a diagnostics channel. */
export async function routesOf(build: () => Promise<unknown>): Promise<Route[]> {
  const routes: Route[] = [];
  const listen = (message: unknown) => {
    const { fastify } = message as { fastify: FastifyInstance };
    fastify.addHook('onRoute', ({ method, url, schema }) => {
      for (const each of [method].flat()) routes.push({ method: each, url, schema });
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
