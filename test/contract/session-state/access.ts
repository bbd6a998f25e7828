import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../session-state.ts';

const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const llt = { userId: 7, tokenId: 12 };
const user = aUser();
const { createdAt } = aLongLived();

export function checkAccessContract(contract: Contract): void {
  contract('confirms the latest pair by the first use of its access token', async (t, { states }) => {
    const now = await states.now();
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    await states.put(aSession(state), user, now);
    const good = { outcome: 'good', user, createdAt };
    const confirmed = { ...state, confirmed: true };
    t.strictSame(
      await states.checkAccess(key, state.latest),
      { ...good, confirmed },
      'with the state to write',
    );
    t.strictSame(await states.checkAccess(key, state.latest), good, 'and goes on being good');
    const presented = { generation: state.parent, elapsed: 0, window: 0, client: 'home' };
    t.match(await states.rotate(key, presented), { outcome: 'reused' }, 'so the answer was not lost');
  });

  contract('refuses a superseded access token, and the session lives on', async (t, { states }) => {
    const now = await states.now();
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    await states.put(aSession(state), user, now);
    for (const generation of [state.latest - 1, state.parent, 1]) {
      t.strictSame(await states.checkAccess(key, generation), { outcome: 'superseded', user, createdAt });
    }
    const presented = { generation: state.parent, elapsed: 0, window: 0, client: 'home' };
    t.match(await states.rotate(key, presented), { row: 'unconfirmed' }, 'it has confirmed nothing');
  });

  contract('takes an access token newer than its state, and changes nothing', async (t, { states }) => {
    const now = await states.now();
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    await states.put(aSession(state), user, now);
    t.strictSame(await states.checkAccess(key, state.latest + 1), { outcome: 'good', user, createdAt });
    t.match(await states.checkAccess(key, state.latest), { outcome: 'good' }, 'the latest did not move');
    const presented = { generation: state.parent, elapsed: 0, window: 0, client: 'home' };
    await states.put(aSession(state, { id: 21 }), user, now);
    await states.checkAccess({ ...key, tokenId: 21 }, state.latest + 1);
    t.match(await states.rotate({ ...key, tokenId: 21 }, presented), { row: 'unconfirmed' });
  });

  contract('takes a long-lived token and notes its use', async (t, { states }) => {
    const now = await states.now();
    await states.put(aLongLived(), user, now);
    t.strictSame(await states.lastUses(7, [12]), new Map(), 'not used yet');
    const { usedAt, ...first } = { usedAt: 0, ...(await states.checkLongLived(llt)) };
    t.strictSame(first, { outcome: 'good', user, createdAt });
    const used = (await states.lastUses(7, [12])).get(12) ?? 0;
    t.equal(usedAt, used, 'with the use to write');
    t.ok(Number.isSafeInteger(used) && used >= Math.floor(now / 1000), 'in milliseconds');
    t.ok(used <= Math.floor((await states.now()) / 1000));
    t.strictSame(await states.checkLongLived(llt), { outcome: 'good', user, createdAt }, 'nothing to write');
    t.equal((await states.lastUses(7, [12])).get(12), used, 'to the minute');
  });

  contract('notes the use of a long-lived token again after a minute', async (t, { states }) => {
    const now = await states.now();
    const ms = Math.floor(now / 1000);
    await states.put(aLongLived({ lastUsedAt: ms - 50_000 }), user, now);
    await states.put(aLongLived({ id: 13, lastUsedAt: ms - 60_001 }), user, now);
    await states.checkLongLived(llt);
    await states.checkLongLived({ ...llt, tokenId: 13 });
    const uses = await states.lastUses(7, [12, 13]);
    t.equal(uses.get(12), ms - 50_000);
    t.ok((uses.get(13) ?? 0) >= ms);
  });

  contract('knows the last use of every token it holds, and of no other', async (t, { states }) => {
    const now = await states.now();
    await states.put(aSession(initialState(now - 1_234_567, 'home')), user, now);
    await states.put(aLongLived({ lastUsedAt: 1_795_000_000_999 }), user, now);
    await states.put(aLongLived({ id: 13 }), user, now);
    await states.put(aLongLived({ id: 14, lastUsedAt: 5 }), user, now);
    await states.revoke({ userId: 7, tokenId: 14 });
    const uses = await states.lastUses(7, [99, 14, 13, 12, 11]);
    t.strictSame(
      [...uses].sort(([one], [other]) => one - other),
      [
        [11, Math.floor((now - 1_234_567) / 1000)],
        [12, 1_795_000_000_999],
      ],
    );
    t.strictSame(await states.lastUses(7, []), new Map());
    t.strictSame(await states.lastUses(8, [11, 12]), new Map(), 'of another user');
  });
}
