import { ANY_GENERATION, initialState } from '../../../src/domain/sessions/rotation.ts';
import { aLongLived, aSession, aUser } from '../../support/token.ts';
import type { Contract } from '../token-states.ts';

const HOUR = 3_600_000_000;
const key = { userId: 7, tokenId: 11 };
const llt = { userId: 7, tokenId: 12 };
const user = aUser({ roles: ['editor', 'billing:read'], emailVerified: true });
const { createdAt } = aLongLived();

export function checkAccessContract(contract: Contract): void {
  contract('the first use of an access token confirms the latest pair', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    await tokenStates.put(aSession(state), user, now);
    const good = { outcome: 'good', user, createdAt };
    const confirmed = { ...state, confirmed: true };
    t.strictSame(
      await tokenStates.checkAccess(key, state.latest),
      { ...good, confirmed },
      'with the state to write',
    );
    t.strictSame(await tokenStates.checkAccess(key, state.latest), good, 'still good');
    const presented = { generation: state.parent, elapsed: 0, window: 0, caller: 'home' };
    t.match(
      await tokenStates.rotate(key, presented),
      { outcome: 'reused' },
      'the older refresh token now counts as reused',
    );
  });

  contract('refuses a superseded access token and keeps the session', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    await tokenStates.put(aSession(state), user, now);
    for (const generation of [state.latest - 1, state.parent, 1]) {
      t.strictSame(await tokenStates.checkAccess(key, generation), {
        outcome: 'superseded',
        user,
        createdAt,
      });
    }
    const presented = { generation: state.parent, elapsed: 0, window: 0, caller: 'home' };
    t.match(
      await tokenStates.rotate(key, presented),
      { row: 'unconfirmed' },
      'a refused token confirms nothing',
    );
  });

  contract(
    'answers whether a session lives, without a pair and without a change',
    async (t, { tokenStates }) => {
      const now = await tokenStates.preparePut(7);
      const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
      t.match(await tokenStates.checkAccess(key, ANY_GENERATION), { outcome: 'missing' });
      await tokenStates.put(aSession(state), user, now);
      const good = { outcome: 'good', user, createdAt };
      t.strictSame(await tokenStates.checkAccess(key, ANY_GENERATION), good);
      const presented = { generation: state.parent, elapsed: 0, window: 0, caller: 'home' };
      t.match(await tokenStates.rotate(key, presented), { row: 'unconfirmed' }, 'it has confirmed nothing');
      t.strictSame(await tokenStates.checkAccess(key, ANY_GENERATION), good, 'after a refresh too');
      await tokenStates.revoke(key);
      t.strictSame(await tokenStates.checkAccess(key, ANY_GENERATION), { outcome: 'revoked' });
    },
  );

  contract('accepts an access token newer than its state, without a change', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    await tokenStates.put(aSession(state), user, now);
    t.strictSame(await tokenStates.checkAccess(key, state.latest + 1), { outcome: 'good', user, createdAt });
    t.match(
      await tokenStates.checkAccess(key, state.latest),
      { outcome: 'good' },
      'the latest generation is unchanged',
    );
    const presented = { generation: state.parent, elapsed: 0, window: 0, caller: 'home' };
    await tokenStates.put(aSession(state, { id: 21 }), user, now);
    await tokenStates.checkAccess({ ...key, tokenId: 21 }, state.latest + 1);
    t.match(await tokenStates.rotate({ ...key, tokenId: 21 }, presented), { row: 'unconfirmed' });
  });

  contract('checks many tokens at once, each with its own outcome', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(200);
    const state = { ...initialState(now - HOUR, 'home'), parent: now - 2 * HOUR };
    // More users than share a call.
    const users = Array.from({ length: 30 }, (_, i) =>
      aUser({
        id: 100 + i,
        username: `user${i}`,
        emailVerified: i % 3 === 0,
        roles: i % 2 ? [`role${i}`] : [],
      }),
    );
    for (const owner of users) {
      const of = { userId: owner.id };
      const asOf = await tokenStates.preparePut(owner.id);
      await tokenStates.put(aSession(state, { ...of, id: 11 }), owner, asOf);
      await tokenStates.put(aLongLived({ ...of, id: 12 }), owner, asOf);
      await tokenStates.put(aSession(state, { ...of, id: 13 }), owner, asOf);
      await tokenStates.revoke({ ...of, tokenId: 13 });
    }
    await tokenStates.put(aSession(state, { userId: 200 }), aUser({ id: 200, disabled: true }), now);
    const outcomes = await Promise.all([
      ...users.map(async (owner) => {
        const of = (tokenId: number) => ({ userId: owner.id, tokenId });
        const [superseded, first, again, longLived, revoked, missing] = await Promise.all([
          tokenStates.checkAccess(of(11), state.parent),
          tokenStates.checkAccess(of(11), state.latest),
          tokenStates.checkAccess(of(11), state.latest),
          tokenStates.checkLongLived(of(12)),
          tokenStates.checkAccess(of(13), state.latest),
          tokenStates.checkLongLived(of(14)),
        ]);
        const known = { user: owner, createdAt };
        t.strictSame(superseded, { outcome: 'superseded', ...known });
        t.strictSame(first, { outcome: 'good', ...known, confirmed: { ...state, confirmed: true } });
        t.strictSame(again, { outcome: 'good', ...known }, 'in order');
        t.match(longLived, { outcome: 'good', ...known });
        t.strictSame(revoked, { outcome: 'revoked' });
        t.equal(missing.outcome, 'missing');
        return owner.username;
      }),
      (async () => {
        const disabled = await tokenStates.checkAccess({ userId: 200, tokenId: 11 }, state.latest);
        t.strictSame(disabled, { outcome: 'disabled' });
        return 'disabled';
      })(),
    ]);
    t.equal(outcomes.length, 31);
  });

  contract('accepts a long-lived token and notes its use', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aLongLived(), user, now);
    t.strictSame(await tokenStates.lastUses(7, [12]), new Map(), 'not used yet');
    const { usedAt, ...first } = { usedAt: 0, ...(await tokenStates.checkLongLived(llt)) };
    t.strictSame(first, { outcome: 'good', user, createdAt });
    const used = (await tokenStates.lastUses(7, [12])).get(12) ?? 0;
    t.equal(usedAt, used, 'with the use to write');
    t.ok(Number.isSafeInteger(used) && used >= Math.floor(now / 1000), 'in milliseconds');
    t.ok(used <= Math.floor((await tokenStates.now()) / 1000));
    t.strictSame(
      await tokenStates.checkLongLived(llt),
      { outcome: 'good', user, createdAt },
      'nothing to write',
    );
    t.equal((await tokenStates.lastUses(7, [12])).get(12), used, 'to the minute');
  });

  contract('notes the use of a long-lived token again after a minute', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    const ms = Math.floor(now / 1000);
    await tokenStates.put(aLongLived({ lastUsedAt: ms - 50_000 }), user, now);
    await tokenStates.put(aLongLived({ id: 13, lastUsedAt: ms - 60_001 }), user, now);
    await tokenStates.checkLongLived(llt);
    await tokenStates.checkLongLived({ ...llt, tokenId: 13 });
    const uses = await tokenStates.lastUses(7, [12, 13]);
    t.equal(uses.get(12), ms - 50_000);
    t.ok((uses.get(13) ?? 0) >= ms);
  });

  contract('returns the last use of every token it holds, and of no other', async (t, { tokenStates }) => {
    const now = await tokenStates.preparePut(7);
    await tokenStates.put(aSession(initialState(now - 1_234_567, 'home')), user, now);
    await tokenStates.put(aLongLived({ lastUsedAt: 1_795_000_000_999 }), user, now);
    await tokenStates.put(aLongLived({ id: 13 }), user, now);
    await tokenStates.put(aLongLived({ id: 14, lastUsedAt: 5 }), user, now);
    await tokenStates.revoke({ userId: 7, tokenId: 14 });
    const uses = await tokenStates.lastUses(7, [99, 14, 13, 12, 11]);
    t.strictSame(
      [...uses].sort(([one], [other]) => one - other),
      [
        [11, Math.floor((now - 1_234_567) / 1000)],
        [12, 1_795_000_000_999],
      ],
    );
    t.strictSame(await tokenStates.lastUses(7, []), new Map());
    t.strictSame(await tokenStates.lastUses(8, [11, 12]), new Map(), 'of another user');
  });
}
