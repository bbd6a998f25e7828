import type { SessionStateStore } from '../../../src/domain/sessions/ports.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../session-state.ts';

const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const user = aUser();

/** Every question that can be asked about a token. */
const questions = (states: SessionStateStore, userId: number, tokenId: number, generation: number) => [
  states.rotate({ userId, tokenId }, { generation, elapsed: 0, window: 0, client: 'home' }),
  states.checkAccess({ userId, tokenId }, generation),
  states.checkLongLived({ userId, tokenId }),
];

export function putContract(contract: Contract): void {
  contract('says what is missing, and when', async (t, { states }) => {
    const before = await states.now();
    const answers = await Promise.all(questions(states, 7, 11, before));
    const after = await states.now();
    t.equal(answers.length, 3);
    for (const answer of answers) {
      if (answer.outcome !== 'missing') throw new Error(answer.outcome);
      t.strictSame(Object.keys(answer).sort(), ['now', 'outcome']);
      t.ok(before <= answer.now && answer.now <= after && Number.isSafeInteger(answer.now));
    }
  });

  contract('does not find a token for another user', async (t, { states }) => {
    const now = await states.now();
    await states.put(aSession(initialState(now, 'home')), user, now);
    await states.put(aLongLived({ id: 12, userId: 8 }), aUser({ id: 8 }), now);
    for (const answer of await Promise.all(questions(states, 8, 11, now))) {
      t.equal(answer.outcome, 'missing');
    }
  });

  contract('keeps the state that stands already', async (t, { states }) => {
    const now = await states.now();
    t.equal(await states.put(aSession(initialState(now - HOUR, 'home')), user, now), true);
    t.equal(await states.put(aSession(initialState(now - 2 * HOUR, 'home')), user, now), false);
    t.match(await states.checkAccess(key, now - 2 * HOUR), { outcome: 'superseded' });
    t.match(await states.checkAccess(key, now - HOUR), { outcome: 'good' });
  });

  contract('takes the newest reading of a user: who was disabled is let in again', async (t, { states }) => {
    const now = await states.now();
    await states.put(aLongLived(), aUser({ username: 'old', name: 'Old', disabled: true }), now);
    t.match(await states.checkLongLived({ userId: 7, tokenId: 12 }), { outcome: 'disabled' });
    await states.put(aLongLived({ id: 13 }), user, now);
    t.match(await states.checkLongLived({ userId: 7, tokenId: 13 }), { outcome: 'good', user });
  });

  contract('takes nothing made from what was read more than 10 s ago', async (t, { states }) => {
    const now = await states.now();
    const record = aSession(initialState(now, 'home'));
    t.equal(await states.put(record, user, now - 10_000_001), false);
    t.match(await states.checkAccess(key, now), { outcome: 'missing' });
    t.equal(await states.put(record, user, now - 8_000_000), true);
    t.match(await states.checkAccess(key, now), { outcome: 'good' });
  });

  contract('lets no late rebuild stand on a tombstone', async (t, { states }) => {
    const now = await states.now();
    await states.revoke(key);
    t.equal(await states.put(aSession(initialState(now, 'home')), user, now), false);
    for (const answer of await Promise.all(questions(states, 7, 11, now))) {
      t.strictSame(answer, { outcome: 'revoked' });
    }
  });

  contract('buries whatever stands there, again and again', async (t, { states }) => {
    const now = await states.now();
    await states.put(aSession(initialState(now, 'home')), user, now);
    await states.put(aLongLived(), user, now);
    await states.revoke(key);
    await states.revoke(key);
    for (const answer of await Promise.all(questions(states, 7, 11, now))) {
      t.strictSame(answer, { outcome: 'revoked' });
    }
    t.match(await states.checkLongLived({ userId: 7, tokenId: 12 }), { outcome: 'good' }, 'no other token');
  });

  contract('refuses every token of a disabled user', async (t, { states }) => {
    const now = await states.now();
    const disabled = aUser({ id: 9, disabled: true });
    await states.put(aSession(initialState(now, 'home'), { userId: 9 }), disabled, now);
    for (const answer of await Promise.all(questions(states, 9, 11, now))) {
      t.strictSame(answer, { outcome: 'disabled' });
    }
    await states.revoke({ userId: 9, tokenId: 11 });
    t.strictSame(await states.checkAccess({ userId: 9, tokenId: 11 }, now), { outcome: 'revoked' });
  });

  contract('gives names back as they were', async (t, { states }) => {
    const now = await states.now();
    const odd = aUser({ id: 10, username: 'ådà-名', name: '"O\'Neill" {7}:\\ 👩‍🚀 %s', createdAt: 1 });
    await states.put(aLongLived({ userId: 10, createdAt: 2 }), odd, now);
    t.match(await states.checkLongLived({ userId: 10, tokenId: 12 }), {
      outcome: 'good',
      user: odd,
      createdAt: 2,
    });
  });
}
