import type { TokenStateStore } from '../../../src/domain/tokens/token-state-store.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../token-states.ts';

const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const user = aUser();

/** Every query about a token. */
const questions = (tokenStates: TokenStateStore, userId: number, tokenId: number, generation: number) => [
  tokenStates.rotate({ userId, tokenId }, { generation, elapsed: 0, window: 0, caller: 'home' }),
  tokenStates.checkAccess({ userId, tokenId }, generation),
  tokenStates.checkLongLived({ userId, tokenId }),
];

export function putContract(contract: Contract): void {
  contract('reports a missing key, with the store’s time', async (t, { tokenStates }) => {
    const before = await tokenStates.now();
    const answers = await Promise.all(questions(tokenStates, 7, 11, before));
    const after = await tokenStates.now();
    t.equal(answers.length, 3);
    for (const answer of answers) {
      if (answer.outcome !== 'missing') throw new Error(answer.outcome);
      t.strictSame(Object.keys(answer).sort(), ['now', 'outcome']);
      t.ok(before <= answer.now && answer.now <= after && Number.isSafeInteger(answer.now));
    }
  });

  contract('does not find a token under another user', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aSession(initialState(now, 'home')), user, now);
    await tokenStates.put(
      aLongLived({ id: 12, userId: 8 }),
      aUser({ id: 8 }),
      await tokenStates.preparePut(8),
    );
    for (const answer of await Promise.all(questions(tokenStates, 8, 11, now))) {
      t.equal(answer.outcome, 'missing');
    }
  });

  contract('keeps an existing state', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    t.equal(await tokenStates.put(aSession(initialState(now - HOUR, 'home')), user, now), true);
    t.equal(await tokenStates.put(aSession(initialState(now - 2 * HOUR, 'home')), user, now), false);
    t.match(await tokenStates.checkAccess(key, now - 2 * HOUR), { outcome: 'superseded' });
    t.match(await tokenStates.checkAccess(key, now - HOUR), { outcome: 'good' });
  });

  contract(
    'takes the newest reading of a user: a user enabled again is let in',
    async (t, { tokenStates }) => {
      const now = await tokenStates.preparePut(7);
      await tokenStates.put(aLongLived(), aUser({ username: 'old', name: 'Old', disabled: true }), now);
      t.match(await tokenStates.checkLongLived({ userId: 7, tokenId: 12 }), { outcome: 'disabled' });
      await tokenStates.put(aLongLived({ id: 13 }), user, now);
      t.match(await tokenStates.checkLongLived({ userId: 7, tokenId: 13 }), { outcome: 'good', user });
    },
  );

  contract('an older reading of a user never replaces newer names and roles', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    const llt = { userId: 7, tokenId: 12 };
    const named = (username: string, version?: number) => {
      const user = aUser({ username, name: username, roles: [`${username}:1`, 'editor'] });
      return version === undefined ? user : { ...user, version };
    };
    const namesAre = async (username: string) => {
      const answer = await tokenStates.checkLongLived(llt);
      if (answer.outcome !== 'good') throw new Error(answer.outcome);
      t.match(answer.user, { username, name: username });
      t.strictSame(answer.user.roles, [`${username}:1`, 'editor']);
    };
    await tokenStates.put(aLongLived(), named('a', 1), now);
    await namesAre('a');
    await tokenStates.put(aLongLived({ id: 16 }), named('z', 0), now);
    await namesAre('a');
    await tokenStates.putUser(named('b', 2));
    await namesAre('b');
    // A rebuild that was read before the change, an answer of this store, and a late repeat of the change before.
    await tokenStates.put(aLongLived({ id: 13 }), named('a', 1), now);
    await tokenStates.put(aLongLived({ id: 14 }), named('a'), now);
    await tokenStates.putUser(named('a', 1));
    await tokenStates.putUsers([named('a', 0), named('a', 1)]);
    await namesAre('b');
    await tokenStates.put(aLongLived({ id: 15 }), named('c', 2), now);
    await namesAre('c');
    await tokenStates.putUsers([named('d', 3)]);
    await namesAre('d');
    for (const tokenId of [13, 14, 15])
      t.match(await tokenStates.checkLongLived({ userId: 7, tokenId }), { outcome: 'good' });
  });

  contract('an older reading of a user never says that an address is verified', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    const llt = { userId: 7, tokenId: 12 };
    const at = (version: number, emailVerified: boolean) => aUser({ version, emailVerified });
    const verifiedIs = async (expected: boolean) => {
      const answer = await tokenStates.checkLongLived(llt);
      t.equal(answer.outcome === 'good' && answer.user.emailVerified, expected);
    };
    await tokenStates.put(aLongLived(), at(1, false), now);
    await verifiedIs(false);
    await tokenStates.putUser(at(2, true));
    await verifiedIs(true);
    await tokenStates.putUsers([at(3, false)]);
    await verifiedIs(false);
    await tokenStates.putUser(at(2, true));
    await tokenStates.putUsers([at(2, true)]);
    await tokenStates.put(aLongLived({ id: 13 }), at(2, true), now);
    await verifiedIs(false);
    await tokenStates.put(aLongLived({ id: 14 }), at(4, true), now);
    await verifiedIs(true);
    await tokenStates.putUser(aUser({ version: 5, disabled: true, emailVerified: true }));
    t.strictSame(await tokenStates.checkLongLived(llt), { outcome: 'disabled' });
    await tokenStates.putUser(at(6, true));
    await verifiedIs(true);
  });

  contract('a put without a user leaves the user as it is', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    t.equal(await tokenStates.put(aLongLived(), null, now), true);
    t.match(await tokenStates.checkLongLived({ userId: 7, tokenId: 12 }), { outcome: 'missing' });
    await tokenStates.put(aLongLived({ id: 13 }), aUser({ roles: ['editor'], version: 0 }), now);
    t.equal(await tokenStates.put(aLongLived({ id: 14 }), null, now), true);
    for (const tokenId of [12, 13, 14]) {
      const answer = await tokenStates.checkLongLived({ userId: 7, tokenId });
      t.match(answer, { outcome: 'good', user: aUser({ roles: ['editor'] }) });
    }
  });

  contract('a change of the user while its record is read wins', async (t, { tokenStates }) => {
    const changed = aUser({ username: 'new', roles: [], version: 1 });
    const answer = await tokenStates.checkLongLived({ userId: 7, tokenId: 12 });
    if (answer.outcome !== 'missing') throw new Error(answer.outcome);
    await tokenStates.putUser(changed);
    await tokenStates.put(aLongLived(), aUser({ roles: ['editor'], version: 0 }), answer.now);
    const next = await tokenStates.checkLongLived({ userId: 7, tokenId: 12 });
    // The store may have to be asked again for the user.
    if (next.outcome === 'missing') await tokenStates.put(aLongLived(), changed, next.now);
    const last = await tokenStates.checkLongLived({ userId: 7, tokenId: 12 });
    t.match(last, { outcome: 'good', user: aUser({ username: 'new' }) });
    t.strictSame('user' in last && last.user.roles, []);
  });

  contract('refuses a state read more than 10 s ago', async (t, { tokenStates, pass }) => {
    const now = await tokenStates.preparePut(7);
    const record = aSession(initialState(now, 'home'));
    t.equal(await tokenStates.put(record, user, now - 10_000_001), false);
    t.match(await tokenStates.checkAccess(key, now), { outcome: 'missing' });
    await pass(8);
    t.equal(await tokenStates.put(record, user, now), true);
    t.match(await tokenStates.checkAccess(key, now), { outcome: 'good' });
  });

  contract('no late rebuild replaces a tombstone', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.revoke(key);
    t.equal(await tokenStates.put(aSession(initialState(now, 'home')), user, now), false);
    for (const answer of await Promise.all(questions(tokenStates, 7, 11, now))) {
      t.strictSame(answer, { outcome: 'revoked' });
    }
  });

  contract('a tombstone replaces any state, each time', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aSession(initialState(now, 'home')), user, now);
    await tokenStates.put(aLongLived(), user, now);
    await tokenStates.revoke(key);
    await tokenStates.revoke(key);
    for (const answer of await Promise.all(questions(tokenStates, 7, 11, now))) {
      t.strictSame(answer, { outcome: 'revoked' });
    }
    t.match(
      await tokenStates.checkLongLived({ userId: 7, tokenId: 12 }),
      { outcome: 'good' },
      'no other token',
    );
  });

  contract('refuses every token of a disabled user', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(9);
    const disabled = aUser({ id: 9, disabled: true });
    await tokenStates.put(aSession(initialState(now, 'home'), { userId: 9 }), disabled, now);
    for (const answer of await Promise.all(questions(tokenStates, 9, 11, now))) {
      t.strictSame(answer, { outcome: 'disabled' });
    }
    await tokenStates.revoke({ userId: 9, tokenId: 11 });
    t.strictSame(await tokenStates.checkAccess({ userId: 9, tokenId: 11 }, now), { outcome: 'revoked' });
  });

  contract('returns names unchanged', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(10);
    const odd = aUser({
      id: 10,
      username: 'ådà-名',
      name: '"O\'Neill" {7}:\\ 👩‍🚀 %s',
      createdAt: 1,
      roles: ['a', 'b:c', 'd_e-9'],
    });
    await tokenStates.put(aLongLived({ userId: 10, createdAt: 2 }), odd, now);
    t.match(await tokenStates.checkLongLived({ userId: 10, tokenId: 12 }), {
      outcome: 'good',
      user: odd,
      createdAt: 2,
    });
  });
}
