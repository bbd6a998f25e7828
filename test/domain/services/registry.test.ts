import { randomBytes } from 'node:crypto';
import { test } from 'tap';
import { DEFAULT_RIGHTS } from '../../../src/domain/rights.ts';
import { makeRegisteredServices } from '../../../src/domain/services/authenticate.ts';
import { makeServiceDirectory } from '../../../src/domain/services/directory.ts';
import { makeServiceRegistry } from '../../../src/domain/services/registry.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryServiceStore } from '../../support/memory-service-store.ts';

function aRegistry() {
  const clock = aClock();
  const store = makeMemoryServiceStore();
  const registry = makeServiceRegistry({ store, randomBytes, clock });
  const sleep = (ms: number) => {
    clock.pass(ms);
    return Promise.resolve();
  };
  const directory = makeServiceDirectory({ store, clock, sleep });
  const clients = makeRegisteredServices(directory, clock);
  /** Whether the replicas admit a service once all of them know it. */
  const isGood = async (serviceId: string, secret: string) => {
    await directory.load();
    return clients.authenticate(serviceId, secret, 'introspect').then(
      () => true,
      () => false,
    );
  };
  return { store, registry, isGood };
}

test('a client is admitted by the secret shown at creation; only its hash is stored', async (t) => {
  const { store, registry, isGood } = aRegistry();
  const created = await registry.create('billing');
  if (!created) throw new Error('not created');
  t.equal(await isGood(created.serviceId, created.secret), true);
  t.notMatch(JSON.stringify(await store.list()), created.secret);
  t.equal(await registry.create('billing'), null, 'the name is taken');
  const other = await registry.create('shop');
  t.equal(await isGood(created.serviceId, other?.secret ?? ''), false, 'each client has its own secret');
});

test('a deleted client is refused, also after its name is reused', async (t) => {
  const { registry, isGood } = aRegistry();
  const created = await registry.create('billing');
  t.equal(await registry.remove('billing'), true);
  t.equal(await registry.remove('billing'), false);
  t.equal(await registry.rotate('billing'), null);
  t.equal(await registry.finishRotation('billing'), null);
  await registry.create('billing');
  t.equal(await isGood(created?.serviceId ?? '', created?.secret ?? ''), false);
});

test('a client has the first three rights, or those that it was given', async (t) => {
  const { registry, isGood } = aRegistry();
  t.strictSame(DEFAULT_RIGHTS, ['introspect', 'revoke', 'revocations']);
  const billing = await registry.create('billing');
  await registry.create('shop', ['users.read']);
  t.strictSame(
    (await registry.list()).map(({ name, rights }) => [name, rights]),
    [
      ['billing', DEFAULT_RIGHTS],
      ['shop', ['users.read']],
    ],
  );
  t.match(await registry.allow('billing', ['users.write']), { name: 'billing', rights: ['users.write'] });
  t.equal(await isGood(billing?.serviceId ?? '', billing?.secret ?? ''), false, 'the old rights are gone');
  t.equal(await registry.allow('no-such', ['users.write']), null);
});
