import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import { CACHE_TTL, type Contract } from '../session-state.ts';

const HOUR = 3_600_000_000;
/** Real time goes on between two steps; nothing here depends on less than this many seconds. */
const MARGIN = 60;
const key = { userId: 7, tokenId: 11 };
const llt = { userId: 7, tokenId: 12 };
const user = aUser();

export function lifetimeContract(contract: Contract): void {
  contract('forgets a session some time after its last rebuild', async (t, { states, pass }) => {
    const now = await states.now();
    const latest = now - HOUR;
    await states.put(aSession(initialState(latest, 'home')), user, now);
    await pass(CACHE_TTL - MARGIN);
    t.match(await states.checkAccess(key, latest), { outcome: 'good' });
    await pass(2 * MARGIN);
    t.match(await states.checkAccess(key, latest), { outcome: 'missing' }, 'a use keeps it no longer');
    t.equal((await states.lastUses(7, [11])).size, 0);
    t.equal(await states.put(aSession(initialState(latest, 'home')), user, await states.now()), true);
  });

  contract('forgets a long-lived token likewise', async (t, { states, pass }) => {
    await states.put(aLongLived(), user, await states.now());
    await pass(CACHE_TTL - MARGIN);
    t.match(await states.checkLongLived(llt), { outcome: 'good' });
    await pass(2 * MARGIN);
    t.match(await states.checkLongLived(llt), { outcome: 'missing' });
  });

  contract('keeps a session and its user from rotation to rotation', async (t, { states, pass }) => {
    const now = await states.now();
    await states.put(aSession(initialState(now - HOUR, 'home')), user, now);
    let generation = now - HOUR;
    for (let i = 0; i < 3; i++) {
      await pass(CACHE_TTL - MARGIN);
      const presented = { generation, elapsed: 0, window: 0, client: 'home' };
      const answer = await states.rotate(key, presented);
      if (answer.outcome !== 'issued') throw new Error(answer.outcome);
      generation = answer.state.latest;
      t.strictSame(answer.user, user);
    }
    await pass(CACHE_TTL + MARGIN);
    t.match(await states.checkAccess(key, generation), { outcome: 'missing' });
  });

  contract('keeps a user as long as any of its tokens', async (t, { states, pass }) => {
    const now = await states.now();
    await states.put(aSession(initialState(now, 'home')), user, now);
    await pass(CACHE_TTL / 2);
    await states.put(aLongLived(), user, await states.now());
    await pass(CACHE_TTL / 2 + MARGIN);
    t.match(await states.checkAccess(key, now), { outcome: 'missing' });
    t.match(await states.checkLongLived(llt), { outcome: 'good', user });
    await pass(CACHE_TTL / 2);
    t.match(await states.checkLongLived(llt), { outcome: 'missing' });
  });

  contract('keeps a tombstone for twice as long', async (t, { states, pass }) => {
    const now = await states.now();
    const record = aSession(initialState(now, 'home'));
    await states.put(record, user, now);
    await states.revoke(key);
    await pass(2 * CACHE_TTL - MARGIN);
    t.strictSame(await states.checkAccess(key, now), { outcome: 'revoked' });
    t.equal(await states.put(record, user, await states.now()), false, 'and no put ends it earlier');
    await pass(2 * MARGIN);
    t.match(await states.checkAccess(key, now), { outcome: 'missing' });
  });

  contract('keeps the tombstone of a reused session for twice as long', async (t, { states, pass }) => {
    const now = await states.now();
    const latest = now - HOUR;
    await states.put(aSession({ ...initialState(latest, 'home'), parent: 9 }), user, now);
    const superseded = { generation: 5, elapsed: 0, window: 0, client: 'home' };
    t.match(await states.rotate(key, superseded), { outcome: 'reused' });
    await pass(2 * CACHE_TTL - MARGIN);
    t.strictSame(await states.checkAccess(key, latest), { outcome: 'reused' });
    await pass(2 * MARGIN);
    t.match(await states.checkAccess(key, latest), { outcome: 'missing' });
  });

  contract('renews a tombstone that is set again', async (t, { states, pass }) => {
    await states.revoke(key);
    await pass(CACHE_TTL);
    await states.revoke(key);
    await pass(2 * CACHE_TTL - MARGIN);
    t.strictSame(await states.checkAccess(key, 1), { outcome: 'revoked' });
  });
}
