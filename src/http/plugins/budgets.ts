import type { FastifyInstance, onRequestAsyncHookHandler, RouteOptions } from 'fastify';
import fp from 'fastify-plugin';
import './load-shedding.ts';
import './rate-limit.ts';

/**
 * What a public route spends, and the limit of addresses that counts its requests besides. An address alone bounds
 * nobody who has a /48:
 *
 * - `guesses`: failures of a network (RATE_LIMIT_NETWORK), which the use case counts (passwords/guessing-limits.ts).
 * - `signups`: accounts that a network opens (RATE_LIMIT_SIGNUP_NETWORK).
 * - `resets`: requests for a reset that a network sends (RATE_LIMIT_NETWORK), or a user with a token (RATE_LIMIT_ACCOUNT).
 * - `account`: wrong codes of an account (RATE_LIMIT_FACTOR), since whoever gets as far knows its password, and the sessions
 *   that its passkeys open (RATE_LIMIT_LLT). A passkey's answer that opens none leaves nothing, and is counted nowhere else.
 */
const BUDGETS = { guesses: 'login', signups: 'signup', resets: 'login', account: 'login' } as const;

/** `none` says why strangers may send as many requests as they like. */
export type RouteBudget = keyof typeof BUDGETS | { none: string };

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Of a route without an authentication hook, which does not start without one. */
    budget?: RouteBudget;
  }
}

const authenticating = new WeakSet<object>();

/** Marks a hook that refuses requests without a good token or secret. */
export function authenticates(hook: onRequestAsyncHookHandler): onRequestAsyncHookHandler {
  authenticating.add(hook);
  return hook;
}

function isPublic({ onRequest = [] }: RouteOptions): boolean {
  return ![onRequest].flat().some((hook) => authenticating.has(hook));
}

/** Gives each route with a budget the hooks of that, before its own, and demands one of each public route. */
function budgets(app: FastifyInstance, _options: object, done: () => void): void {
  const open: RouteOptions[] = [];
  app.addHook('onRoute', (route) => {
    if (isPublic(route)) open.push(route);
    const { budget } = route.config ?? {};
    if (typeof budget !== 'string') return;
    const limits = [app.refuseWhenLate, app.refuseWhenStoreFull, app.limitByAddress(BUDGETS[budget])];
    route.onRequest = [...limits, route.onRequest ?? []].flat();
  });
  // Not before: plugins of others get theirs from a hook that runs after this one.
  app.addHook('onReady', (next) => {
    const [forgotten] = open.filter(({ config }) => config?.budget === undefined);
    const problem = 'has neither an authentication hook nor a budget (src/http/plugins/budgets.ts)';
    next(forgotten && new Error(`${String(forgotten.method)} ${forgotten.url} ${problem}`));
  });
  done();
}

export default fp(budgets, {
  name: 'budgets',
  dependencies: ['rate-limit', 'load-shedding'],
  fastify: '5.x',
});
