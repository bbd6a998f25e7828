import { test } from 'tap';
import { makeServiceTokens } from '../src/service-tokens.ts';
import type { ServiceToken } from '../src/verified-token.ts';
import { deferred } from '../../../test/support/deferred.ts';

const aToken = (clientId: string, version: number, jti = 'j') =>
  ({ clientId, roles: ['own'], claims: { client_version: version, jti } }) as unknown as ServiceToken;

function tokens() {
  const world = { asked: 0, answer: (): Promise<string[]> => Promise.resolve(['present']) };
  const services = makeServiceTokens({
    introspect: () => {
      world.asked++;
      return world.answer().then((roles) => ({ roles, emailVerified: false }));
    },
  });
  const list = (versions: Record<string, number>) => {
    services.learn({ type: 'clients', versions: new Map(Object.entries(versions)) });
  };
  return { services, list, world };
}

test('a token is good with the version that the feed lists, and has ended with a lower one', (t) => {
  const { services, list } = tokens();
  services.connected();
  list({ shop: 3, other: 9 });
  t.strictSame(services.known(aToken('shop', 3), false), ['own']);
  t.notOk(services.hasEnded(aToken('shop', 3)));
  t.ok(services.hasEnded(aToken('shop', 2)));
  t.equal(services.known(aToken('shop', 2), false), null);
  list({ shop: 4 });
  t.ok(services.hasEnded(aToken('shop', 3)));
  t.end();
});

test('of a higher version, and of a client that is not listed, nothing is known', (t) => {
  const { services, list } = tokens();
  services.connected();
  list({ shop: 3 });
  for (const token of [aToken('shop', 4), aToken('new', 0)]) {
    t.equal(services.known(token, false), null);
    t.notOk(services.hasEnded(token));
  }
  list({});
  t.equal(services.known(aToken('shop', 3), false), null, 'a client that was disabled');
  t.end();
});

test('a list counts until the next connection, and longer if the feed is stale', (t) => {
  const { services, list } = tokens();
  t.equal(services.known(aToken('shop', 3), true), null);
  services.connected();
  list({ shop: 3 });
  services.connected();
  t.equal(services.known(aToken('shop', 3), false), null);
  t.strictSame(services.known(aToken('shop', 3), true), ['own']);
  t.ok(services.hasEnded(aToken('shop', 2)), 'an end stays known');
  list({ shop: 3 });
  t.strictSame(services.known(aToken('shop', 3), false), ['own']);
  t.end();
});

test('no version falls, if a later connection leads to a replica that is behind', (t) => {
  const { services, list } = tokens();
  list({ shop: 3 });
  services.connected();
  list({ shop: 2 });
  t.ok(services.hasEnded(aToken('shop', 2)));
  t.strictSame(services.known(aToken('shop', 3), false), ['own']);
  t.end();
});

test('an answer is kept for its token until the next list or connection', async (t) => {
  const { services, list } = tokens();
  for (const next of ['list', 'connection']) {
    list({ shop: 3 });
    t.strictSame(await services.ask('token', aToken('shop', 4)), ['present']);
    t.strictSame(services.known(aToken('shop', 4), false), ['present']);
    t.equal(services.known(aToken('shop', 4, 'another'), false), null);
    if (next === 'list') list({ shop: 3 });
    else services.connected();
    t.equal(services.known(aToken('shop', 4), true), null, next);
  }
});

test('an answer from before a list is not kept, and neither is a failure', async (t) => {
  const { services, list, world } = tokens();
  list({ shop: 3 });
  const answer = deferred<string[]>();
  world.answer = () => answer.promise;
  const asking = services.ask('token', aToken('shop', 4));
  list({ shop: 3 });
  answer.resolve([]);
  await asking;
  t.equal(services.known(aToken('shop', 4), false), null);
  world.answer = () => Promise.reject(new Error('no'));
  await t.rejects(services.ask('token', aToken('shop', 4)), { message: 'no' });
  t.equal(services.known(aToken('shop', 4), false), null);
});

test('keeps a thousand answers, the latest', async (t) => {
  const { services, list } = tokens();
  list({});
  for (let i = 0; i <= 1000; i++) await services.ask('token', aToken('shop', 1, String(i)));
  t.equal(services.known(aToken('shop', 1, '0'), false), null);
  for (const jti of ['1', '1000']) t.ok(services.known(aToken('shop', 1, jti), false), jti);
});
