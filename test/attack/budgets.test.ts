import { test } from 'tap';
import { buildTestApp, type TestApp } from '../support/app.ts';
import { anAccount, signUp } from '../support/client.ts';
import { aFactor, firstStep } from '../support/factors.ts';
import { refused } from '../support/problem.ts';
import { routesOf } from '../support/routes.ts';
import '../support/watch-leaks.ts';
import { attackedOperations, bodyOf, headersOf, type Attacked } from './operations.ts';

const ALLOWED = 3;
/** More than any allowance: that of all codes of an account is five times as large. */
const REQUESTS = 30;

const ENVIRONMENT = {
  TRUST_PROXY: 'loopback',
  RATE_LIMIT_LOGIN: '1/600',
  RATE_LIMIT_SIGNUP: '1/600',
  RATE_LIMIT_NETWORK: `${ALLOWED}/600`,
  RATE_LIMIT_SIGNUP_NETWORK: `${ALLOWED}/600`,
  RATE_LIMIT_FACTOR: `${ALLOWED}/600`,
};

/** By budget: why a caller is refused who has a new address each time. */
const REASONS = {
  guesses: 'network',
  signups: 'signup_network',
  resets: 'reset_network',
  account: /^factor/,
} as const;

/** Although they are no GET (http/auth/passkey, http/outages). */
const TOUCHES_NO_STORE = ['getPasskeyOptions'];

/** What makes each request another one; without it, the example is sent again and again. */
const RENEWED: Record<string, (target: TestApp) => Promise<() => object>> = {
  logIn: () => Promise.resolve(() => ({ username: anAccount().username, password: 'wrong' })),
  signUp: () => Promise.resolve(() => anAccount()),
  requestPasswordReset: () => Promise.resolve(() => ({ username: anAccount().username })),
  completeLogin: async (target) => {
    const account = anAccount();
    await aFactor(target, await signUp(target, account));
    const login_token = await firstStep(target, account.username);
    return () => ({ login_token, code: '000000' });
  },
};

/** Sends requests from one /48, each from another /64. @returns the first 429, and how many came before */
async function flood(target: TestApp, operation: Attacked, network: string) {
  const renew = await RENEWED[operation.name]?.(target);
  for (let i = 0; i < REQUESTS; i++) {
    const answer = await target.inject({
      method: operation.method,
      url: operation.path,
      headers: { ...headersOf(operation), 'x-forwarded-for': `2001:db8:${network}:${i}::1` },
      payload: bodyOf(operation, renew?.()) ?? '',
    });
    if (answer.statusCode === 429) return { answer, before: i };
  }
  return null;
}

test('every public operation spends something of its network, or says why not', async (t) => {
  let target: TestApp | undefined;
  const routes = await routesOf(async () => {
    target = await buildTestApp(t, { env: ENVIRONMENT });
  });
  if (!target) return;
  const budgetOf = ({ method, template }: Attacked) =>
    routes.find((route) => route.method === method && route.url === template)?.options.config?.budget;
  const spent = new Set<string>();
  const operations = attackedOperations().filter(({ schemes }) => schemes.length === 0);
  t.ok(operations.length >= 9, `${operations.length} operations`);
  for (const [i, operation] of operations.entries()) {
    const budget = budgetOf(operation);
    if (typeof budget === 'object') {
      t.ok(budget.none.length > 20, `${operation.name}: ${budget.none}`);
      const isFree = operation.method === 'GET' || TOUCHES_NO_STORE.includes(operation.name);
      t.ok(isFree, `${operation.name} only reads`);
      continue;
    }
    if (budget === undefined) throw new Error(`${operation.name} has no budget`);
    spent.add(budget);
    // Each in a network of its own: some share a counter.
    const network = (0x10 + i).toString(16);
    const found = await flood(target, operation, network);
    if (!found) {
      t.fail(`${operation.name}: ${REQUESTS} requests from one /48`);
      continue;
    }
    refused(t, found.answer, 429, 'rate_limited');
    t.match(found.answer.json(), { reason: REASONS[budget] }, operation.name);
    t.equal(found.before, ALLOWED, operation.name);
  }
  t.strictSame([...spent].sort(), Object.keys(REASONS).sort());
});
