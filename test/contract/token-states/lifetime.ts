import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import { NOTE_TTL } from '../../../src/domain/tokens/token-state-store.ts';
import { CACHE_TTL, type Contract } from '../token-states.ts';

const HOUR = 3_600_000_000;
/** Real time passes between two steps; no assertion depends on a smaller number of seconds. */
const MARGIN = 60;
const key = { userId: 7, tokenId: 11 };
const llt = { userId: 7, tokenId: 12 };
const user = aUser();

export function lifetimeContract(contract: Contract): void {
  contract('forgets a session some time after its last rebuild', async (t, { tokenStates, pass }) => {
    const now = await tokenStates.preparePut(7);
    const latest = now - HOUR;
    await tokenStates.put(aSession(initialState(latest, 'home')), user, now);
    await pass(CACHE_TTL - MARGIN);
    t.match(await tokenStates.checkAccess(key, latest), { outcome: 'good' });
    await pass(2 * MARGIN);
    t.match(await tokenStates.checkAccess(key, latest), { outcome: 'missing' }, 'a use does not prolong it');
    t.equal((await tokenStates.lastUses(7, [11])).size, 0);
    t.equal(
      await tokenStates.put(aSession(initialState(latest, 'home')), user, await tokenStates.preparePut(7)),
      true,
    );
  });

  contract('forgets a long-lived token likewise', async (t, { tokenStates, pass }) => {
    await tokenStates.put(aLongLived(), user, await tokenStates.preparePut(7));
    await pass(CACHE_TTL - MARGIN);
    t.match(await tokenStates.checkLongLived(llt), { outcome: 'good' });
    await pass(2 * MARGIN);
    t.match(await tokenStates.checkLongLived(llt), { outcome: 'missing' });
  });

  contract('a rotation prolongs a session and its user', async (t, { tokenStates, pass }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aSession(initialState(now - HOUR, 'home')), user, now);
    let generation = now - HOUR;
    for (let i = 0; i < 3; i++) {
      await pass(CACHE_TTL - MARGIN);
      const presented = { generation, elapsed: 0, window: 0, caller: 'home' };
      const answer = await tokenStates.rotate(key, presented);
      if (answer.outcome !== 'issued') throw new Error(answer.outcome);
      generation = answer.state.latest;
      t.strictSame(answer.user, user);
    }
    await pass(CACHE_TTL + MARGIN);
    t.match(await tokenStates.checkAccess(key, generation), { outcome: 'missing' });
  });

  contract('keeps a user as long as any of its tokens', async (t, { tokenStates, pass }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aSession(initialState(now, 'home')), user, now);
    await pass(CACHE_TTL / 2);
    await tokenStates.put(aLongLived(), user, await tokenStates.preparePut(7));
    await pass(CACHE_TTL / 2 + MARGIN);
    t.match(await tokenStates.checkAccess(key, now), { outcome: 'missing' });
    t.match(await tokenStates.checkLongLived(llt), { outcome: 'good', user });
    await pass(CACHE_TTL / 2);
    t.match(await tokenStates.checkLongLived(llt), { outcome: 'missing' });
  });

  contract('keeps a tombstone twice as long', async (t, { tokenStates, pass }) => {
    const now = await tokenStates.preparePut(7);
    const record = aSession(initialState(now, 'home'));
    await tokenStates.put(record, user, now);
    await tokenStates.revoke(key);
    await pass(2 * CACHE_TTL - MARGIN);
    t.strictSame(await tokenStates.checkAccess(key, now), { outcome: 'revoked' });
    t.equal(
      await tokenStates.put(record, user, await tokenStates.preparePut(7)),
      false,
      'no put shortens it',
    );
    await pass(2 * MARGIN);
    t.match(await tokenStates.checkAccess(key, now), { outcome: 'missing' });
  });

  contract('keeps the tombstone of a reused session twice as long', async (t, { tokenStates, pass }) => {
    const now = await tokenStates.preparePut(7);
    const latest = now - HOUR;
    await tokenStates.put(aSession({ ...initialState(latest, 'home'), parent: 9 }), user, now);
    const superseded = { generation: 5, elapsed: 0, window: 0, caller: 'home' };
    t.match(await tokenStates.rotate(key, superseded), { outcome: 'reused' });
    await pass(2 * CACHE_TTL - MARGIN);
    t.strictSame(await tokenStates.checkAccess(key, latest), { outcome: 'reused' });
    await pass(2 * MARGIN);
    t.match(await tokenStates.checkAccess(key, latest), { outcome: 'missing' });
  });

  contract(
    'notes an ended token for two minutes, and shortens no tombstone',
    async (t, { tokenStates, pass }) => {
      const now = await tokenStates.preparePut(7);
      await tokenStates.put(aSession(initialState(now, 'home')), user, now);
      // A read-through notes the end of a token of which the store knows nothing.
      const unknown = { userId: 7, tokenId: 13 };
      for (const each of [key, unknown]) {
        await tokenStates.noteEnded(each);
        t.strictSame(
          await tokenStates.checkAccess(each, now),
          { outcome: 'revoked' },
          'instead of any state',
        );
      }
      await pass(NOTE_TTL - MARGIN);
      t.strictSame(await tokenStates.checkAccess(key, now), { outcome: 'revoked' });
      await pass(2 * MARGIN);
      t.match(await tokenStates.checkAccess(key, now), { outcome: 'missing' });
      await tokenStates.revoke(key);
      await tokenStates.noteEnded(key);
      await pass(2 * CACHE_TTL - MARGIN);
      t.strictSame(await tokenStates.checkAccess(key, 1), { outcome: 'revoked' });
    },
  );

  contract('notes the end of a token that it does not hold', async (t, { tokenStates }) => {
    await tokenStates.noteEnded(key);
    t.strictSame(await tokenStates.checkAccess(key, 1), { outcome: 'revoked' });
  });

  contract('ends many tokens at once, held or not, for one reason', async (t, { tokenStates, pass }) => {
    for (const outcome of ['revoked', 'reused'] as const) {
      const keys = [11, 12, 13].map((id) => ({ userId: outcome === 'revoked' ? 7 : 8, tokenId: id }));
      const [{ userId }] = keys as [(typeof keys)[0]];
      const now = await tokenStates.preparePut(userId);
      const record = aSession(initialState(now, 'home'), { userId });
      await tokenStates.put(record, aUser({ id: userId }), now);
      await tokenStates.put(aLongLived({ userId }), aUser({ id: userId }), now);
      await tokenStates.revokeAll(keys, outcome === 'revoked' ? undefined : outcome);
      await pass(2 * CACHE_TTL - MARGIN);
      for (const each of keys) t.strictSame(await tokenStates.checkAccess(each, now), { outcome });
      t.equal(await tokenStates.put(record, user, await tokenStates.preparePut(userId)), false);
    }
  });

  contract('setting a tombstone again renews it', async (t, { tokenStates, pass }) => {
    await tokenStates.revoke(key);
    await pass(CACHE_TTL);
    await tokenStates.revoke(key);
    await pass(2 * CACHE_TTL - MARGIN);
    t.strictSame(await tokenStates.checkAccess(key, 1), { outcome: 'revoked' });
  });
}
