import type { TokenStateStore } from '../../../src/domain/tokens/token-states.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../token-states.ts';

const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const user = aUser();

/** Every query about a token. */
const questions = (tokenStates: TokenStateStore, userId: number, tokenId: number, generation: number) => [
  tokenStates.rotate({ userId, tokenId }, { generation, elapsed: 0, window: 0, client: 'home' }),
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
    const now = await tokenStates.now();
    await tokenStates.put(aSession(initialState(now, 'home')), user, now);
    await tokenStates.put(aLongLived({ id: 12, userId: 8 }), aUser({ id: 8 }), now);
    for (const answer of await Promise.all(questions(tokenStates, 8, 11, now))) {
      t.equal(answer.outcome, 'missing');
    }
  });

  contract('keeps an existing state', async (t, { tokenStates }) => {
    const now = await tokenStates.now();
    t.equal(await tokenStates.put(aSession(initialState(now - HOUR, 'home')), user, now), true);
    t.equal(await tokenStates.put(aSession(initialState(now - 2 * HOUR, 'home')), user, now), false);
    t.match(await tokenStates.checkAccess(key, now - 2 * HOUR), { outcome: 'superseded' });
    t.match(await tokenStates.checkAccess(key, now - HOUR), { outcome: 'good' });
  });

  contract(
    'takes the newest reading of a user: a user enabled again is let in',
    async (t, { tokenStates }) => {
      const now = await tokenStates.now();
      await tokenStates.put(aLongLived(), aUser({ username: 'old', name: 'Old', disabled: true }), now);
      t.match(await tokenStates.checkLongLived({ userId: 7, tokenId: 12 }), { outcome: 'disabled' });
      await tokenStates.put(aLongLived({ id: 13 }), user, now);
      t.match(await tokenStates.checkLongLived({ userId: 7, tokenId: 13 }), { outcome: 'good', user });
    },
  );

  contract('refuses a state read more than 10 s ago', async (t, { tokenStates }) => {
    const now = await tokenStates.now();
    const record = aSession(initialState(now, 'home'));
    t.equal(await tokenStates.put(record, user, now - 10_000_001), false);
    t.match(await tokenStates.checkAccess(key, now), { outcome: 'missing' });
    t.equal(await tokenStates.put(record, user, now - 8_000_000), true);
    t.match(await tokenStates.checkAccess(key, now), { outcome: 'good' });
  });

  contract('no late rebuild replaces a tombstone', async (t, { tokenStates }) => {
    const now = await tokenStates.now();
    await tokenStates.revoke(key);
    t.equal(await tokenStates.put(aSession(initialState(now, 'home')), user, now), false);
    for (const answer of await Promise.all(questions(tokenStates, 7, 11, now))) {
      t.strictSame(answer, { outcome: 'revoked' });
    }
  });

  contract('a tombstone replaces any state, each time', async (t, { tokenStates }) => {
    const now = await tokenStates.now();
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
    const now = await tokenStates.now();
    const disabled = aUser({ id: 9, disabled: true });
    await tokenStates.put(aSession(initialState(now, 'home'), { userId: 9 }), disabled, now);
    for (const answer of await Promise.all(questions(tokenStates, 9, 11, now))) {
      t.strictSame(answer, { outcome: 'disabled' });
    }
    await tokenStates.revoke({ userId: 9, tokenId: 11 });
    t.strictSame(await tokenStates.checkAccess({ userId: 9, tokenId: 11 }, now), { outcome: 'revoked' });
  });

  contract('returns names unchanged', async (t, { tokenStates }) => {
    const now = await tokenStates.now();
    const odd = aUser({ id: 10, username: 'ådà-名', name: '"O\'Neill" {7}:\\ 👩‍🚀 %s', createdAt: 1 });
    await tokenStates.put(aLongLived({ userId: 10, createdAt: 2 }), odd, now);
    t.match(await tokenStates.checkLongLived({ userId: 10, tokenId: 12 }), {
      outcome: 'good',
      user: odd,
      createdAt: 2,
    });
  });
}
