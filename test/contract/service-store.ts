import { test, type Test } from 'tap';
import {
  MAX_TRUSTS,
  TrustRefusedError,
  TwoSecretsError,
} from '../../src/domain/services/registered-service.ts';
import type { ServiceStore } from '../../src/domain/services/ports.ts';

const CREATED = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
const hash = (byte: number) => new Uint8Array(32).fill(byte);
const aClient = (name: string, byte = 1) => ({
  serviceId: `id-of-${name}`,
  name,
  secretHash: hash(byte),
  createdAt: CREATED,
  rights: ['introspect', 'users.read', 'call:orders'] as const,
  audience: null,
  roles: ['billing:read'],
});

/** The contract of every store of registered services. */
export function clientStoreContract(kind: string, open: (t: Test) => Promise<ServiceStore>): void {
  const holds = (sentence: string, run: (t: Test, store: ServiceStore) => Promise<void>) =>
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
    t.equal(await store.add({ ...aClient('a', 2), serviceId: 'another' }), false);
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

  void holds(
    'changes the roles, ends the tokens, disables and enables, each for one client',
    async (t, store) => {
      for (const name of ['a', 'b']) await store.add(aClient(name));
      const now = async () => {
        const [{ roles, version, disabledAt } = stored('none'), other = null] = await store.list();
        t.same(plain(other), plain(stored('b')));
        return { roles, version, disabledAt };
      };
      t.match(await store.setRoles('a', ['x', 'y']), { roles: ['x', 'y'], version: 1 });
      t.match(await store.endTokens('a'), { version: 2, disabledAt: null });
      t.match(await store.disable('a', CREATED), { version: 3, disabledAt: CREATED });
      t.match(
        await store.disable('a', CREATED + 5),
        { version: 3, disabledAt: CREATED },
        'a repeat changes nothing',
      );
      t.strictSame(await now(), { roles: ['x', 'y'], version: 3, disabledAt: CREATED });
      t.match(await store.enable('a'), { version: 3, disabledAt: null });
      t.strictSame(await now(), { roles: ['x', 'y'], version: 3, disabledAt: null });
    },
  );

  void holds('a pair of issuer and subject opens one client, of at most 16', async (t, store) => {
    for (const name of ['a', 'b']) await store.add(aClient(name));
    const pair = (subject: string, issuer = 'https://issuer.example') => ({ issuer, subject });
    for (let i = 0; i < 2; i++) t.match(await store.trust('a', pair('s'), null), { trusts: [pair('s')] });
    await t.rejects(store.trust('b', pair('s'), null), new TrustRefusedError('taken'));
    t.match(await store.trust('b', pair('s', 'https://other.example'), null), { trusts: { length: 1 } });
    for (let i = 1; i < MAX_TRUSTS; i++) await store.trust('a', pair(String(i)), null);
    await t.rejects(store.trust('a', pair('more'), null), new TrustRefusedError('full'));
    t.match(
      await store.trust('a', pair('s'), null),
      { trusts: { length: MAX_TRUSTS } },
      'a repeat is none more',
    );
    t.match(await store.untrust('b', pair('s')), { trusts: { length: 1 } }, 'that of another client stays');
    t.match(await store.untrust('a', pair('s')), { trusts: { length: MAX_TRUSTS - 1 } });
    t.match(await store.trust('b', pair('s'), null), { trusts: { length: 2 } });
    t.equal(await store.trust('none', pair('t'), null), null);
    t.equal(await store.untrust('none', pair('t')), null);
  });

  void holds('keeps an issuer’s keys while a client trusts it', async (t, store) => {
    for (const name of ['a', 'b']) await store.add(aClient(name));
    const trust = { issuer: 'https://issuer.example', subject: 's' };
    const issuers = async () => Object.fromEntries(await store.issuers());
    const jwks = (kid: string) => ({ keys: [{ kty: 'OKP', kid }] });
    t.strictSame(await issuers(), {});
    await store.trust('a', trust, null);
    t.strictSame(await issuers(), { [trust.issuer]: null });
    await store.trust('a', trust, jwks('1'));
    await store.trust('b', { ...trust, subject: 't' }, jwks('2'));
    await store.trust('a', trust, null);
    t.strictSame(await issuers(), { [trust.issuer]: jwks('2') }, 'the last ones, for every client');
    await store.untrust('a', trust);
    t.strictSame(await issuers(), { [trust.issuer]: jwks('2') });
    await store.remove('b');
    await store.trust('a', trust, null);
    t.strictSame(await issuers(), { [trust.issuer]: null }, 'none wait for the next client');
    await store.trust('a', trust, jwks('3'));
    await store.untrust('a', trust);
    await store.trust('a', trust, null);
    t.strictSame(await issuers(), { [trust.issuer]: null }, 'nor after the last trust');
  });

  void holds('a removed client is gone, and its name is free', async (t, store) => {
    await store.add(aClient('a'));
    t.equal(await store.remove('a'), true);
    t.equal(await store.remove('a'), false);
    t.strictSame(await store.list(), []);
    t.equal(await store.add({ ...aClient('a', 9), serviceId: 'another' }), true);
  });

  void holds('returns null for an unknown name', async (t, store) => {
    t.equal(await store.rotate('a', hash(2), { at: CREATED, again: false }), null);
    t.equal(await store.finishRotation('a'), null);
    t.equal(await store.allow('a', ['revoke']), null);
    t.equal(await store.setRoles('a', []), null);
    t.equal(await store.endTokens('a'), null);
    t.equal(await store.disable('a', CREATED), null);
    t.equal(await store.enable('a'), null);
  });
}

type Client = Awaited<ReturnType<ServiceStore['list']>>[number];

function stored(name: string): Client {
  const never = { previousHash: null, rotatedAt: null, disabledAt: null };
  return { ...aClient(name), ...never, version: 1, trusts: [] };
}

/** Decodes bytes as text. */
function plain(client: Client | null) {
  const hex = (bytes: Uint8Array | null) => bytes && Buffer.from(bytes).toString('hex');
  return client && { ...client, secretHash: hex(client.secretHash), previousHash: hex(client.previousHash) };
}
