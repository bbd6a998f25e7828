import { test } from 'tap';
import { makeServiceClients } from '../../../src/domain/clients/authenticate.ts';
import { hashSecret } from '../../../src/domain/clients/secret.ts';
import type { ServiceClient } from '../../../src/domain/clients/service-client.ts';
import { AuthError } from '../../../src/domain/errors.ts';

function aDirectory(...secrets: [clientId: string, secret: string][]) {
  const clients = new Map<string, ServiceClient>();
  const add = (clientId: string, secret: string) =>
    clients.set(clientId, {
      clientId,
      name: `name of ${clientId}`,
      secretHash: hashSecret(secret),
      previousHash: null,
      createdAt: 1,
      rotatedAt: null,
    });
  for (const [clientId, secret] of secrets) add(clientId, secret);
  let refreshes = 0;
  return {
    add,
    refreshes: () => refreshes,
    find: (clientId: string) => clients.get(clientId),
    refresh: () => {
      refreshes++;
      return Promise.resolve();
    },
  };
}

test('a known client is admitted without a query of the record', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const clients = makeServiceClients(directory);
  const secretHash = hashSecret('secret');
  t.same(await clients.authenticate('a', 'secret'), { clientId: 'a', name: 'name of a', secretHash });
  t.equal(directory.refreshes(), 0);
  t.equal(clients.isStillGood({ clientId: 'a', name: '', secretHash }), true);
  t.equal(clients.isStillGood({ clientId: 'b', name: '', secretHash }), false);
  t.equal(clients.isStillGood({ clientId: 'a', name: '', secretHash: hashSecret('another') }), false);
});

test('no client is refused before the record is queried, for an unknown id or a wrong secret', async (t) => {
  const directory = aDirectory(['a', 'old']);
  const clients = makeServiceClients({
    ...directory,
    refresh: () => {
      directory.add('a', 'new');
      directory.add('b', 'secret');
      return directory.refresh();
    },
  });
  t.match(await clients.authenticate('a', 'new'), { clientId: 'a' });
  t.match(await clients.authenticate('b', 'secret'), { clientId: 'b' });
  t.equal(directory.refreshes(), 1, 'the first query loaded the second client too');
  for (const [id, secret] of [
    ['a', 'old'],
    ['a', ''],
    ['c', 'secret'],
    ['__proto__', 'secret'],
    ['', ''],
  ] as const)
    await t.rejects(clients.authenticate(id, secret), { code: 'invalid_client' }, id);
  t.equal(directory.refreshes(), 6);
});

test('an outage is not a refusal', async (t) => {
  const directory = aDirectory(['a', 'secret']);
  const refresh = () => Promise.reject(new AuthError('unavailable'));
  const clients = makeServiceClients({ ...directory, refresh });
  t.match(await clients.authenticate('a', 'secret'), { clientId: 'a' });
  await t.rejects(clients.authenticate('a', 'wrong'), { code: 'unavailable' });
  await t.rejects(clients.authenticate('b', 'secret'), { code: 'unavailable' });
});
