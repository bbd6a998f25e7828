import type { Acr } from '../../../src/domain/principal.ts';
import { buildTestApp, type TestApp } from '../../support/app.ts';
import { audienceClients, exchanged } from '../../support/audiences.ts';
import {
  call,
  claimsOf,
  createLimited,
  createLongLived,
  headerOf,
  signUp,
  verify,
} from '../../support/client.ts';
import { refused } from '../../support/problem.ts';
import { aRegisteredService } from '../../support/registered-service.ts';
import { serviceToken } from '../../support/service-tokens.ts';
import { workDone } from '../../support/spy.ts';
import { onAStore } from '../../support/stores.ts';
import { aStoredSession, forge } from '../../support/tokens.ts';

/** Everywhere a proxy can demand something, for AUDIENCE and for `orders`. A slash at the end is the same path. */
const OWN = ['/api/auth/verify', '/api/auth/verify/', '/api/auth/scopes/a/verify'];
const OF_ORDERS = [
  '/api/auth/verify?audience=orders',
  '/api/auth/audiences/orders/verify',
  '/api/auth/audiences/orders/verify/',
  '/api/auth/audiences/orders/scopes/a/verify',
];
/** One of each kind of demand, and all that pass it: `proven` and `phr` were opened with a factor and with a passkey an hour
 * ago, `fresh` without one now. */
const DEMANDS: Record<string, { passing: string[]; challenge: string }> = {
  'demand_acr=phr': { passing: ['phr'], challenge: 'acr_values="phr"' },
  'demand_acr=mfa': { passing: ['proven', 'phr'], challenge: 'acr_values="mfa"' },
  'demand_max_age=300': { passing: ['fresh'], challenge: 'max_age="300"' },
  'demand_max_age=7200': { passing: ['proven', 'phr', 'fresh'], challenge: 'max_age="7200"' },
  'demand_acr=mfa&demand_max_age=7200': {
    passing: ['proven', 'phr'],
    challenge: 'acr_values="mfa", max_age="7200"',
  },
  'demand_acr=mfa&demand_max_age=300': { passing: [], challenge: 'acr_values="mfa", max_age="300"' },
};

const withQuery = (path: string, query: string) => `${path}${path.includes('?') ? '&' : '?'}${query}`;

/** An access token of a session that was opened an hour ago. */
async function aProvenToken(target: TestApp, acr: Acr = 'mfa'): Promise<string> {
  const latest = (Date.now() - 60_000) * 1000;
  const session = await aStoredSession(target, { latest, first: latest }, { acr });
  return session.mint('access', latest);
}

/** The token as 1.0.0 would have signed it. */
function asSignedBefore({ composition }: TestApp, token: string): string {
  const [key] = composition.app.keyRing.current().signing;
  return forge(headerOf(token), { ...claimsOf(token), auth_time: undefined }, key?.privateKey ?? '');
}

onAStore('verify demands more of the login', async (t, env) => {
  const target = await buildTestApp(t, { env });
  await audienceClients(target.databaseUrl);
  const shop = await aRegisteredService(target.databaseUrl, 'shop', ['call:orders']);
  const { access_token: fresh } = await signUp(target);
  const proven = await aProvenToken(target);
  const phr = await aProvenToken(target, 'phr');
  const ask = (path: string, token: string | undefined, headers: Record<string, string> = {}) =>
    call(target, `GET ${path}`, { token, headers });
  const own: Record<string, string> = {
    proven,
    phr,
    fresh,
    'a token of 1.0.0': asSignedBefore(target, fresh),
    'a long-lived token': (await createLongLived(target, proven)).longlived_token,
    'a limited token': (await createLimited(target, proven, ['a'])).token,
  };
  const ofOrders: Record<string, string> = {
    proven: await exchanged(target, proven),
    phr: await exchanged(target, phr),
    fresh: await exchanged(target, fresh),
    'exchanged for a token of 1.0.0': await exchanged(target, own['a token of 1.0.0'] ?? ''),
    'a limited token': (await createLimited(target, proven, ['a'], { audience: 'orders' })).token,
    'a service’s token': await serviceToken(target, shop),
  };

  await t.test('of every kind of token', async (t) => {
    for (const [paths, tokens] of [
      [OWN, own],
      [OF_ORDERS, ofOrders],
    ] as const)
      for (const path of paths)
        for (const [name, token] of Object.entries(tokens)) {
          const plain = await ask(path, token);
          if (plain.statusCode === 403) {
            t.equal(name, 'a limited token', `${path} takes it`);
            continue;
          }
          for (const [query, { passing, challenge }] of Object.entries(DEMANDS)) {
            const answer = await ask(withQuery(path, query), token);
            if (passing.includes(name)) {
              t.equal(answer.statusCode, 200, `${name} ${path} ${query}`);
              t.strictSame(Object.keys(answer.headers), Object.keys(plain.headers), 'no other headers');
              continue;
            }
            refused(t, answer, 401, 'insufficient_user_authentication');
            const error = 'Bearer error="insufficient_user_authentication"';
            t.equal(answer.headers['www-authenticate'], `${error}, ${challenge}`, `${name} ${path} ${query}`);
            t.equal(answer.headers['x-auth-user'], undefined);
          }
        }
  });

  await t.test('and refuses every token where it does not understand the demand', async (t) => {
    const odd =
      'demand_acr=other demand_acr=phrh demand_acr=PHR demand_acr=phr%20mfa demand_acr= demand_acr demand_acr=MFA demand_acr=mfa%20 ' +
      'demand_acr=mfa&demand_acr=mfa demand_acr=mfa&demand%5Facr=other demand_max_age=-1 demand_max_age=0 ' +
      'demand_max_age=1e3 demand_max_age=07200 demand_max_age=7200.0 demand_max_age=%2B7200 demand_max_age= ' +
      'demand_max_age=99999999999 demand_max_age=7200&demand_max_age=7200 demand_maxage=7200 ' +
      'demand_acr=mfa&demand_amr=otp Demand_acr=mfa demand_=';
    for (const query of odd.split(' '))
      for (const path of ['/api/auth/verify', '/api/auth/verify/', '/api/auth/scopes/a/verify']) {
        const answer = await ask(withQuery(path, query), proven);
        refused(t, answer, 401, 'insufficient_user_authentication');
        t.match(answer.json(), { reason: 'demand' }, query);
        t.equal(answer.headers['www-authenticate'], 'Bearer error="insufficient_user_authentication"');
      }
    t.equal((await ask('/api/auth/verify?acr=other&max_age=x&%64emand=1', proven)).statusCode, 200);
  });

  await t.test('after it has checked the token, and asks PostgreSQL nothing', async (t) => {
    const path = '/api/auth/verify?demand_acr=mfa';
    refused(t, await ask(path, undefined), 401, 'token_missing');
    refused(t, await ask(path, 'x.y.z'), 401, 'invalid_token');
    t.strictSame(await workDone(t, () => ask(path, proven)), []);
  });

  await t.test('whatever its client sends', async (t) => {
    const [path = ''] = OWN;
    for (const uri of ['/?demand_acr=mfa', '/api/auth/verify?demand_max_age=99999', '/items?demand_acr=']) {
      const headers = {
        'x-forwarded-uri': uri,
        'x-original-url': uri,
        'demand-acr': 'mfa',
        demand_acr: 'mfa',
      };
      refused(
        t,
        await ask(`${path}?demand_acr=mfa`, fresh, headers),
        401,
        'insufficient_user_authentication',
      );
      t.equal((await ask(path, fresh, headers)).statusCode, 200);
    }
    // What follows the path is the client's own request: it demands nothing.
    for (const below of ['/orders?demand_acr=mfa', '//?demand_acr=other'])
      t.equal((await ask(path + below, fresh)).statusCode, 200, below);
    // A client's query that a proxy appends to its own can only add.
    for (const added of ['demand_acr=', 'demand_acr=other', 'demand_acr=mfa', 'demand_max_age=99999'])
      refused(
        t,
        await ask(`${path}?demand_acr=mfa&${added}`, fresh),
        401,
        'insufficient_user_authentication',
      );
    refused(
      t,
      await ask(`${path}?demand_max_age=300&demand_max_age=99999`, proven),
      401,
      'insufficient_user_authentication',
    );
    t.equal((await verify(target, fresh)).statusCode, 200, 'and goes on with its session');
  });
});
