import { test, type Test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { TokenStore } from '../../src/domain/tokens/ports.ts';
import type { User } from '../../src/domain/users/user.ts';

export interface TokenStoreUnderTest {
  tokens: TokenStore;
  /** Two accounts. */
  ada: User;
  bob: User;
  disable: (user: User) => Promise<void>;
}

const AT = 1_795_000_000_789;
const MICROS = AT * 1000 + 123;
const room = { limit: 100, liveSince: 0 };
const aNewSession = (latest = MICROS) => ({
  name: 'Firefox',
  createdAt: AT,
  state: initialState(latest, 'home'),
});

/** Adds a session, whose latest generation was issued then. */
async function addSession(
  tokens: TokenStore,
  user: User,
  latest = MICROS,
  limits: Parameters<TokenStore['addSession']>[2] = room,
) {
  const added = await tokens.addSession(user.id, aNewSession(latest), limits);
  if (!added) throw new Error('no session was added');
  return added;
}

/** What every TokenStore must do. @param open a store of its own for each test. */
export function tokenStoreContract(
  implementation: string,
  open: (t: Test) => Promise<TokenStoreUnderTest>,
): void {
  const contract = (sentence: string, run: (t: Test, store: TokenStoreUnderTest) => Promise<void>) => {
    test(`${implementation}: ${sentence}`, async (t) => {
      await run(t, await open(t));
    });
  };

  contract('finds what was added, to the last digit, with its owner', async (t, { tokens, ada }) => {
    const session = {
      ...aNewSession(),
      state: { ...initialState(MICROS, 'home'), parent: 3, confirmed: true },
    };
    const added = await tokens.addSession(ada.id, session, room);
    const llt = await tokens.addLongLived(ada.id, { name: 'Kitchen', createdAt: AT + 1 }, 100);
    if (!added || llt === null) throw new Error('not added');
    t.strictSame(added.replaced, []);
    t.not(llt, added.id, 'one sequence of ids');
    const common = { userId: ada.id, lastUsedAt: null, revokedAt: null };
    t.strictSame(await tokens.find(added.id), {
      record: { ...common, ...session, id: added.id, type: 'session' },
      user: ada,
    });
    const state = { latest: 0, parent: 0, first: 0, confirmed: false, client: '' };
    t.strictSame(await tokens.find(llt), {
      record: { ...common, id: llt, type: 'llt', name: 'Kitchen', createdAt: AT + 1, state },
      user: ada,
    });
    t.equal(await tokens.find(999), null);
    t.equal(await tokens.find(Number.MAX_SAFE_INTEGER), null);
  });

  contract('adds nothing for a disabled user or for nobody', async (t, { tokens, ada, disable }) => {
    const before = await tokens.addSession(ada.id, aNewSession(), room);
    await disable(ada);
    for (const userId of [ada.id, 999]) {
      t.equal(await tokens.addSession(userId, aNewSession(), room), null);
      await t.rejects(tokens.addLongLived(userId, { name: 'Kitchen', createdAt: AT }, 100), {
        name: 'AuthError',
        code: 'invalid_token',
      });
    }
    t.equal((await tokens.list(ada.id)).length, 1);
    t.match(await tokens.find(before?.id ?? 0), { user: { disabled: true } });
  });

  contract('makes room by ending the session unused for longest', async (t, { tokens, ada, bob }) => {
    const ids: number[] = [];
    const used = [5, 3, 9, 4].map((seconds) => MICROS + seconds * 1_000_000);
    for (const latest of used)
      ids.push((await tokens.addSession(ada.id, aNewSession(latest), room))?.id ?? 0);
    await tokens.addSession(bob.id, aNewSession(MICROS), room);
    await tokens.addLongLived(ada.id, { name: 'Kitchen', createdAt: AT }, 100);

    const fifth = await addSession(tokens, ada, MICROS, { limit: 5, liveSince: 0 });
    t.strictSame(fifth.replaced, [], 'there is room for five');
    await tokens.revoke(ada.id, fifth.id, AT);
    const next = await addSession(tokens, ada, MICROS, { limit: 3, liveSince: 0 });
    t.strictSame(next.replaced.toSorted(), [ids[1], ids[3]].toSorted());
    t.match(await tokens.find(ids[1] ?? 0), { record: { revokedAt: AT } });
    t.equal((await tokens.list(bob.id)).length, 1);
    t.equal((await tokens.list(ada.id)).length, 4);
  });

  contract('counts no session that has expired', async (t, { tokens, ada }) => {
    await addSession(tokens, ada, MICROS);
    const added = await addSession(tokens, ada, MICROS + 1, { limit: 1, liveSince: MICROS });
    t.strictSame(added.replaced, [], 'expired at this very microsecond');
    const third = await addSession(tokens, ada, MICROS, { limit: 1, liveSince: MICROS });
    t.strictSame(third.replaced, [added.id]);
  });

  contract('counts no session past its greatest age', async (t, { tokens, ada }) => {
    const first = await addSession(tokens, ada);
    const limits = { limit: 1, liveSince: 0 };
    const second = await addSession(tokens, ada, MICROS + 1, { ...limits, createdSince: AT });
    t.strictSame(second.replaced, [], 'ended at this very millisecond');
    const third = await addSession(tokens, ada, MICROS + 2, { ...limits, createdSince: AT - 1 });
    t.strictSame(third.replaced.toSorted(), [first.id, second.id].toSorted());
  });

  contract('adds no more long-lived tokens than may be', async (t, { tokens, ada, bob }) => {
    const token = { name: 'Kitchen', createdAt: AT };
    const first = await tokens.addLongLived(ada.id, token, 2);
    await tokens.addSession(ada.id, aNewSession(), room);
    t.not(await tokens.addLongLived(ada.id, token, 2), null);
    t.equal(await tokens.addLongLived(ada.id, token, 2), null);
    t.not(await tokens.addLongLived(bob.id, token, 2), null);
    await tokens.revoke(ada.id, first ?? 0, AT);
    t.not(await tokens.addLongLived(ada.id, token, 2), null, 'a revoked one makes room');
  });

  contract('keeps to the limits when twenty are added at once', async (t, { tokens, ada }) => {
    const token = { name: 'Kitchen', createdAt: AT };
    const added = await Promise.all(Array.from({ length: 20 }, () => tokens.addLongLived(ada.id, token, 5)));
    t.equal(added.filter((id) => id !== null).length, 5);
    const sessions = Array.from({ length: 20 }, (_, i) =>
      tokens.addSession(ada.id, aNewSession(MICROS + i), { limit: 5, liveSince: 0 }),
    );
    t.equal((await Promise.all(sessions)).filter(Boolean).length, 20);
    t.equal((await tokens.list(ada.id)).filter(({ type }) => type === 'session').length, 5);
  });

  contract('revokes once, for its owner and its type only', async (t, { tokens, ada, bob }) => {
    const { id } = await addSession(tokens, ada);
    t.equal(await tokens.revoke(bob.id, id, AT), false);
    t.equal(await tokens.revoke(ada.id, id, AT, 'llt'), false);
    t.equal(await tokens.revoke(ada.id, 999, AT), false);
    t.match(await tokens.find(id), { record: { revokedAt: null } });
    t.equal(await tokens.revoke(ada.id, id, AT + 5, 'session'), true);
    t.equal(await tokens.revoke(ada.id, id, AT + 9), true, 'again is as good');
    t.match(await tokens.find(id), { record: { revokedAt: AT + 5 } }, 'the first time counts');
  });

  contract('lists what is not revoked, oldest first', async (t, { tokens, ada, bob }) => {
    const ids: number[] = [];
    for (const name of ['a', 'b', 'c']) {
      ids.push((await addSession(tokens, ada)).id);
      ids.push((await tokens.addLongLived(ada.id, { name, createdAt: AT }, 100)) ?? 0);
    }
    await addSession(tokens, bob);
    await tokens.revoke(ada.id, ids[2] ?? 0, AT);
    const listed = await tokens.list(ada.id);
    t.strictSame(
      listed.map(({ id }) => id),
      ids.filter((_, i) => i !== 2),
    );
    t.strictSame(listed[0], (await tokens.find(ids[0] ?? 0))?.record);
    t.strictSame(await tokens.list(999), []);
  });
}
