import { test, type Test } from 'tap';
import { TwoSecretsError } from '../../src/domain/clients/service-client.ts';
import type { ClientStore } from '../../src/domain/clients/ports.ts';

const CREATED = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const hash = (byte: number) => new Uint8Array(32).fill(byte);
const aClient = (name: string, byte = 1) => ({
  clientId: `id-of-${name}`,
  name,
  secretHash: hash(byte),
  createdAt: CREATED,
  rights: ['introspect', 'users.read'] as const,
  audience: null,
});

/** The contract of every store of registered services. */
export function clientStoreContract(kind: string, open: (t: Test) => Promise<ClientStore>): void {
  const holds = (sentence: string, run: (t: Test, store: ClientStore) => Promise<void>) =>
    test(`${kind}: ${sentence}`, async (t) => {
      await run(t, await open(t));
    });

  void holds('lists added clients by name', async (t, store) => {
    t.strictSame(await store.list(), []);
    for (const name of ['b', 'a', '日本']) t.equal(await store.add(aClient(name)), true);
    t.same(
      (await store.list()).map(plain),
      ['a', 'b', '日本'].map((name) => plain(stored(name))),
    );
  });

  void holds('keeps the first client of a name and refuses a second', async (t, store) => {
    t.equal(await store.add(aClient('a')), true);
    t.equal(await store.add({ ...aClient('a', 2), clientId: 'another' }), false);
    t.same((await store.list()).map(plain), [plain(stored('a'))]);
  });

  void holds('keeps the audience of a client, and gives it to no other', async (t, store) => {
    const orders = { ...aClient('a'), audience: 'orders' };
    t.equal(await store.add(orders), true);
    t.equal(await store.add({ ...aClient('b'), audience: 'orders' }), false);
    for (const [name, audience] of [
      ['b', 'Orders'],
      ['c', null],
      ['d', null],
    ] as const)
      t.equal(await store.add({ ...aClient(name), audience }), true, name);
    const audiences = (await store.list()).map(({ audience }) => audience);
    t.strictSame(audiences, ['orders', 'Orders', null, null]);
    t.equal((await store.rotate('a', hash(2), { at: CREATED, again: false }))?.audience, 'orders');
    t.equal((await store.finishRotation('a'))?.audience, 'orders');
    t.equal((await store.allow('a', []))?.audience, 'orders');
    t.equal(await store.remove('a'), true);
    t.equal(await store.add({ ...aClient('e'), audience: 'orders' }), true, 'it is free again');
  });

  void holds('keeps the old secret good during a rotation, until it is finished', async (t, store) => {
    await store.add(aClient('a'));
    await store.add(aClient('b'));
    const rotated = { ...stored('a'), secretHash: hash(2), previousHash: hash(1), rotatedAt: CREATED + 5 };
    t.same(plain(await store.rotate('a', hash(2), { at: CREATED + 5, again: false })), plain(rotated));
    await t.rejects(store.rotate('a', hash(9), { at: CREATED + 6, again: false }), TwoSecretsError);
    const again = { ...rotated, secretHash: hash(3), rotatedAt: CREATED + 6 };
    t.same(plain(await store.rotate('a', hash(3), { at: CREATED + 6, again: true })), plain(again));
    const finished = { ...again, previousHash: null };
    t.same(plain(await store.finishRotation('a')), plain(finished));
    t.same(plain(await store.finishRotation('a')), plain(finished), 'finishing again is a no-op');
    t.same(
      (await store.list()).map(plain),
      [plain(finished), plain(stored('b'))],
      'the other client is unchanged',
    );
  });

  void holds('does one of several concurrent rotations', async (t, store) => {
    await store.add(aClient('a'));
    const rotations = await Promise.all(
      [2, 3, 4, 5].map((byte) =>
        store.rotate('a', hash(byte), { at: CREATED, again: false }).catch(() => null),
      ),
    );
    const [client] = await store.list();
    const done = rotations.filter((rotated) => rotated !== null);
    t.equal(done.length, 1);
    t.same(plain(done[0] ?? null), plain(client ?? null), 'its answer equals the stored client');
  });

  void holds('replaces the rights of one client', async (t, store) => {
    await store.add(aClient('a'));
    await store.add(aClient('b'));
    const allowed = { ...stored('a'), rights: ['users.write'] };
    t.same(plain(await store.allow('a', ['users.write'])), plain(allowed as never));
    t.same((await store.list()).map(plain), [plain(allowed as never), plain(stored('b'))]);
    t.same((await store.allow('a', []))?.rights, []);
  });

  void holds('a removed client is gone, and its name is free', async (t, store) => {
    await store.add(aClient('a'));
    t.equal(await store.remove('a'), true);
    t.equal(await store.remove('a'), false);
    t.strictSame(await store.list(), []);
    t.equal(await store.add({ ...aClient('a', 9), clientId: 'another' }), true);
  });

  void holds('returns null for an unknown name', async (t, store) => {
    t.equal(await store.rotate('a', hash(2), { at: CREATED, again: false }), null);
    t.equal(await store.finishRotation('a'), null);
    t.equal(await store.allow('a', ['revoke']), null);
  });
}

type Client = Awaited<ReturnType<ClientStore['list']>>[number];

function stored(name: string): Client {
  return { ...aClient(name), previousHash: null, rotatedAt: null };
}

/** Decodes bytes as text. */
function plain(client: Client | null) {
  const hex = (bytes: Uint8Array | null) => bytes && Buffer.from(bytes).toString('hex');
  return client && { ...client, secretHash: hex(client.secretHash), previousHash: hex(client.previousHash) };
}
