import { test, type Test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { EndedPosition } from '../../src/domain/tokens/ended-token.ts';
import type { Revocation, TokenStore } from '../../src/domain/tokens/ports.ts';
import type { User } from '../../src/domain/user.ts';
import { LIFETIMES as lifetimes, ROOM } from '../support/token.ts';

export interface TokenStoreUnderTest {
  tokens: TokenStore;
  /** Two accounts. */
  ada: User;
  bob: User;
  disable: (user: User) => Promise<void>;
}

const AT = 1_795_000_000_789;
const MICROS = AT * 1000 + 123;
const aNewSession = (latest = MICROS) => ({
  name: 'Firefox',
  createdAt: AT,
  state: initialState(latest, 'home'),
});

/** Adds a session whose latest generation was issued at that time. */
async function addSession(tokens: TokenStore, user: User, latest = MICROS, conditions = ROOM) {
  const added = await tokens.addSession(user.id, aNewSession(latest), conditions);
  if (!added) throw new Error('no session was added');
  return added;
}

/** The contract of every TokenStore. @param open returns a separate store for each test. */
export function tokenStoreContract(
  implementation: string,
  open: (t: Test) => Promise<TokenStoreUnderTest>,
): void {
  const contract = (sentence: string, run: (t: Test, store: TokenStoreUnderTest) => Promise<void>) => {
    test(`${implementation}: ${sentence}`, async (t) => {
      await run(t, await open(t));
    });
  };

  contract('finds an added token, to the last digit, with its owner', async (t, { tokens, ada }) => {
    const session = {
      ...aNewSession(),
      state: { ...initialState(MICROS, 'home'), parent: 3, confirmed: true },
    };
    const added = await tokens.addSession(ada.id, session, ROOM);
    const llt = await tokens.addLongLived(
      ada.id,
      { name: 'Kitchen', createdAt: AT + 1, kid: 'a key', createdBy: null },
      100,
    );
    if (!added || llt === null) throw new Error('not added');
    t.strictSame(added.replaced, []);
    t.strictSame(added.user, ada, 'as it is on record');
    t.not(llt, added.id, 'all tokens share one sequence of ids');
    const common = {
      userId: ada.id,
      lastUsedAt: null,
      revokedAt: null,
      expiresAt: null,
      createdBy: null,
      limited: null,
    };
    const limited = { scopes: ['orders:read', 'orders:write'], audience: 'orders' };
    const ofLimited = await tokens.addLongLived(
      ada.id,
      { name: 'Pipeline', createdAt: AT, kid: 'a key', expiresAt: AT + 60_000, limited, createdBy: null },
      100,
    );
    t.match((await tokens.find(ofLimited ?? 0))?.record, { type: 'llt', limited, expiresAt: AT + 60_000 });
    t.strictSame(await tokens.find(added.id), {
      record: { ...common, ...session, id: added.id, type: 'session' },
      user: ada,
    });
    const state = { latest: 0, parent: 0, first: 0, confirmed: false, caller: '' };
    t.strictSame(await tokens.find(llt), {
      record: { ...common, id: llt, type: 'llt', name: 'Kitchen', createdAt: AT + 1, state },
      user: ada,
    });
    t.equal(await tokens.find(999), null);
    t.equal(await tokens.find(Number.MAX_SAFE_INTEGER), null);
  });

  contract('adds nothing for a disabled or an unknown user', async (t, { tokens, ada, disable }) => {
    const before = await tokens.addSession(ada.id, aNewSession(), ROOM);
    await disable(ada);
    for (const userId of [ada.id, 999]) {
      t.equal(await tokens.addSession(userId, aNewSession(), ROOM), null);
      await t.rejects(
        tokens.addLongLived(userId, { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null }, 100),
        {
          name: 'AuthError',
          code: 'invalid_token',
          reason: userId === ada.id ? 'disabled' : 'gone',
        },
      );
    }
    t.equal((await tokens.list(ada.id)).length, 1);
    t.match(await tokens.find(before?.id ?? 0), { user: { disabled: true } });
  });

  contract('makes room by ending the least recently used session', async (t, { tokens, ada, bob }) => {
    const ids: number[] = [];
    const used = [5, 3, 9, 4].map((seconds) => MICROS + seconds * 1_000_000);
    for (const latest of used)
      ids.push((await tokens.addSession(ada.id, aNewSession(latest), ROOM))?.id ?? 0);
    await tokens.addSession(bob.id, aNewSession(MICROS), ROOM);
    await tokens.addLongLived(ada.id, { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null }, 100);

    const fifth = await addSession(tokens, ada, MICROS, { ...ROOM, limit: 5 });
    t.strictSame(fifth.replaced, [], 'there is room for five');
    await tokens.revoke(ada.id, fifth.id, AT);
    const next = await addSession(tokens, ada, MICROS, { ...ROOM, limit: 3 });
    t.strictSame(next.replaced.toSorted(), [ids[1], ids[3]].toSorted());
    t.match(await tokens.find(ids[1] ?? 0), { record: { revokedAt: AT } });
    t.equal((await tokens.list(bob.id)).length, 1);
    t.equal((await tokens.list(ada.id)).length, 4);
  });

  contract('does not count an expired session', async (t, { tokens, ada }) => {
    await addSession(tokens, ada, MICROS);
    const added = await addSession(tokens, ada, MICROS + 1, { ...ROOM, limit: 1, liveSince: MICROS });
    t.strictSame(added.replaced, [], 'expired at this very microsecond');
    const third = await addSession(tokens, ada, MICROS, { ...ROOM, limit: 1, liveSince: MICROS });
    t.strictSame(third.replaced, [added.id]);
  });

  contract('does not count a session past its greatest age', async (t, { tokens, ada }) => {
    const first = await addSession(tokens, ada);
    const one = { ...ROOM, limit: 1 };
    const second = await addSession(tokens, ada, MICROS + 1, { ...one, createdSince: AT });
    t.strictSame(second.replaced, [], 'ended at this very millisecond');
    const third = await addSession(tokens, ada, MICROS + 2, { ...one, createdSince: AT - 1 });
    t.strictSame(third.replaced.toSorted(), [first.id, second.id].toSorted());
  });

  contract('adds no more long-lived tokens than the limit', async (t, { tokens, ada, bob }) => {
    const token = { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null };
    const first = await tokens.addLongLived(ada.id, token, 2);
    await tokens.addSession(ada.id, aNewSession(), ROOM);
    t.not(await tokens.addLongLived(ada.id, token, 2), null);
    t.equal(await tokens.addLongLived(ada.id, token, 2), null);
    t.not(await tokens.addLongLived(bob.id, token, 2), null);
    await tokens.revoke(ada.id, first ?? 0, AT);
    t.not(await tokens.addLongLived(ada.id, token, 2), null, 'a revoked one makes room');
  });

  contract('keeps to the limits when twenty are added concurrently', async (t, { tokens, ada }) => {
    const token = { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null };
    const added = await Promise.all(Array.from({ length: 20 }, () => tokens.addLongLived(ada.id, token, 5)));
    t.equal(added.filter((id) => id !== null).length, 5);
    const sessions = Array.from({ length: 20 }, (_, i) =>
      tokens.addSession(ada.id, aNewSession(MICROS + i), { ...ROOM, limit: 5 }),
    );
    t.equal((await Promise.all(sessions)).filter(Boolean).length, 20);
    t.equal((await tokens.list(ada.id)).filter(({ type }) => type === 'session').length, 5);
  });

  contract('revokes once, and only for the token’s owner and type', async (t, { tokens, ada, bob }) => {
    const { id } = await addSession(tokens, ada);
    t.equal(await tokens.revoke(bob.id, id, AT), null);
    t.equal(await tokens.revoke(ada.id, id, AT, 'llt'), null);
    t.equal(await tokens.revoke(ada.id, 999, AT), null);
    t.match(await tokens.find(id), { record: { revokedAt: null } });
    t.equal(await tokens.revoke(ada.id, id, AT + 5, 'session'), 'now');
    t.equal(await tokens.revoke(ada.id, id, AT + 9), 'unfinished', 'a repeat succeeds');
    t.match(await tokens.find(id), { record: { revokedAt: AT + 5 } }, 'the first time stays');
  });

  contract('revokes many at once, each by the rules of its own request', async (t, store) => {
    const { tokens, ada, bob, disable } = store;
    const one = (of: User, id: number, more: Partial<Revocation> = {}): Revocation => {
      return { key: { userId: of.id, tokenId: id }, caller: null, type: undefined, ...more };
    };
    const idOf = async (user: User) => (await addSession(tokens, user)).id;
    const [own, ended, target] = [await idOf(ada), await idOf(ada), await idOf(ada)];
    const [theirs, disabled] = [await idOf(bob), await idOf(bob)];
    await tokens.revoke(ada.id, ended, AT);
    const refused = { code: 'invalid_token' };
    t.match(
      await tokens.revokeMany(
        [
          one(ada, own, { type: 'session' }),
          one(ada, own),
          one(ada, ended),
          one(bob, own),
          one(ada, 999_999_999),
          one(ada, target, { type: 'llt' }),
          one(ada, target, { caller: ended }),
          one(ada, target, { caller: theirs }),
        ],
        AT + 5,
      ),
      ['now', 'now', 'unfinished', null, null, null, refused, refused],
    );
    t.match(await tokens.find(own), { record: { revokedAt: AT + 5 } });
    t.match(await tokens.find(target), { record: { revokedAt: null } }, 'no request could end it');
    t.match(await tokens.find(ended), { record: { revokedAt: AT } }, 'the first time stays');
    t.strictSame(await tokens.revokeMany([one(bob, theirs, { caller: disabled })], AT + 6), ['now']);
    await disable(bob);
    t.match(await tokens.revokeMany([one(bob, theirs, { caller: disabled })], AT + 7), [
      { code: 'invalid_token', reason: 'disabled' },
    ]);
    t.strictSame(await tokens.revokeMany([], AT), []);
  });

  const HOUR = 3_600_000;
  const endedOf = async (tokens: TokenStore, user: User, range = {}, times = lifetimes) =>
    (await tokens.listEnded(user.id, { since: 0, now: AT, limit: 10, ...range }, times)).map(
      ({ id, endedAt, reason }) => [id, endedAt - AT, reason],
    );

  contract('lists ended tokens page by page, even if many ended at once', async (t, { tokens, ada }) => {
    const ids = [];
    for (let i = 0; i < 5; i++) ids.push((await addSession(tokens, ada)).id);
    const [last, ...others] = ids as [number, ...number[]];
    for (const id of others) await tokens.revoke(ada.id, id, AT);
    await tokens.revoke(ada.id, last, AT + 1);
    const found: number[] = [];
    for (let before: EndedPosition | undefined; ;) {
      const page = await tokens.listEnded(ada.id, { since: 0, now: AT + 1, limit: 2, before }, lifetimes);
      found.push(...page.map(({ id }) => id));
      before = page.at(-1);
      if (!before) break;
    }
    t.strictSame(found, [last, ...others.reverse()]);
  });

  contract('ends all tokens of one user together, and returns them', async (t, { tokens, ada, bob }) => {
    const session = (await addSession(tokens, ada)).id;
    const llt =
      (await tokens.addLongLived(
        ada.id,
        { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null },
        100,
      )) ?? 0;
    const revoked = (await addSession(tokens, ada)).id;
    const unused = (await addSession(tokens, ada, MICROS - 9)).id;
    await tokens.revokeForReuse(ada.id, revoked, AT, 1);
    const theirs = await addSession(tokens, bob);
    const ending = {
      at: AT + 5,
      reason: 'password',
      usedSince: MICROS - 9,
      caller: null,
      keepsCaller: false,
    } as const;
    const { ended, before } = await tokens.revokeAll(ada.id, ending);
    t.equal(before, unused, 'the highest id');
    t.strictSame(
      ended.map(({ id, revokedAt, userId }) => [id, revokedAt, userId]),
      [session, llt].map((id) => [id, AT + 5, ada.id]),
    );
    t.strictSame(ended[0], (await tokens.find(session))?.record);
    t.strictSame(
      (await tokens.list(ada.id)).map(({ id }) => id),
      [unused],
      'not used since',
    );
    t.equal((await tokens.list(bob.id)).length, 1);
    t.strictSame(await endedOf(tokens, ada), [
      [llt, 5, 'password'],
      [session, 5, 'password'],
      [revoked, 0, 'reuse'],
    ]);
    t.strictSame(await tokens.revokeAll(ada.id, ending), { ended: [], before: unused }, 'again');
    t.strictSame(await tokens.revokeAll(999, ending), { ended: [], before: 0 });
    t.match(await tokens.find(theirs.id), { record: { revokedAt: null } });
  });

  contract('keeps one session if it is good', async (t, { tokens, ada, bob }) => {
    const [kept, other] = [await addSession(tokens, ada), await addSession(tokens, ada)];
    const llt =
      (await tokens.addLongLived(
        ada.id,
        { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null },
        100,
      )) ?? 0;
    const ending = { at: AT, reason: 'logout', usedSince: 0, keepsCaller: true } as const;
    const callerOf = (tokenId: number) => ({ tokenId, withFactor: null });
    for (const [userId, tokenId] of [
      [bob.id, kept.id],
      [ada.id, 999],
    ] as const)
      await t.rejects(tokens.revokeAll(userId, { ...ending, caller: callerOf(tokenId) }), {
        code: 'invalid_token',
      });
    t.equal((await tokens.list(ada.id)).length, 3, 'no token ended');
    const { ended, before } = await tokens.revokeAll(ada.id, { ...ending, caller: callerOf(kept.id) });
    t.strictSame([ended.map(({ id }) => id), before], [[other.id, llt], null]);
    t.match(await tokens.find(kept.id), { record: { revokedAt: null } });
    await t.rejects(tokens.revokeAll(ada.id, { ...ending, caller: callerOf(other.id) }), {
      code: 'invalid_token',
    });
    t.match(
      await tokens.find(kept.id),
      { record: { revokedAt: null } },
      'a kept session that has ended ends no other',
    );
  });

  contract('lets a caller act only while its token is good', async (t, { tokens, ada, bob, disable }) => {
    const [caller, target, theirs] = [
      await addSession(tokens, ada),
      await addSession(tokens, ada),
      await addSession(tokens, bob),
    ];
    const key = { userId: ada.id, tokenId: caller.id };
    const createdBy = { sessionId: caller.id, withFactor: false, generation: MICROS };
    const token = { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy };
    const ending = { at: AT, reason: 'logout', usedSince: 0, keepsCaller: false } as const;
    t.not(await tokens.addLongLived(ada.id, token, 9), null);
    t.equal(await tokens.revokeByCaller(key, theirs.id, AT), null, 'of another user');
    t.equal(await tokens.revokeByCaller(key, target.id, AT, 'llt'), null, 'of another type');
    t.equal(await tokens.revokeByCaller(key, 999, AT), null);
    t.equal(await tokens.revokeByCaller(key, target.id, AT, 'session'), 'now');
    t.equal(await tokens.revokeByCaller(key, target.id, AT + 1), 'unfinished', 'a repeat succeeds');
    t.match(await tokens.find(target.id), { record: { revokedAt: AT } });
    t.match(await tokens.find(theirs.id), { record: { revokedAt: null } });

    const refuses = async (userId: number, tokenId: number, why: string) => {
      const asking = { ...token, createdBy: { ...createdBy, sessionId: tokenId } };
      const refused = { code: 'invalid_token' };
      await t.rejects(tokens.addLongLived(userId, asking, 9), refused, why);
      await t.rejects(tokens.revokeByCaller({ userId, tokenId }, caller.id, AT), refused, why);
      const asCaller = { tokenId, withFactor: null };
      await t.rejects(tokens.revokeAll(userId, { ...ending, caller: asCaller }), refused, why);
    };
    await refuses(ada.id, target.id, 'the target has ended');
    await refuses(ada.id, theirs.id, 'the target belongs to another user');
    await refuses(ada.id, 999, 'the target does not exist');
    t.equal((await tokens.list(ada.id)).length, 2, 'no token was ended or created');
    await disable(ada);
    await refuses(ada.id, caller.id, 'the caller’s user is disabled');
  });

  contract('records why each token ended, and keeps the first reason', async (t, { tokens, ada }) => {
    const [one, other] = [await addSession(tokens, ada, MICROS + 1), await addSession(tokens, ada, MICROS)];
    await tokens.revoke(ada.id, one.id, AT + 1);
    await tokens.revokeForReuse(ada.id, one.id, AT + 2, 1);
    await addSession(tokens, ada, MICROS + 2, { ...ROOM, limit: 1 });
    await tokens.revoke(ada.id, other.id, AT + 3, 'session', 'admin');
    t.strictSame(await endedOf(tokens, ada), [
      [one.id, 1, 'logout'],
      [other.id, 0, 'replaced'],
    ]);
  });

  contract(
    'lists ended tokens, newest first, back to the requested time',
    async (t, { tokens, ada, bob }) => {
      const used = (hours: number) => (AT - hours * HOUR) * 1000;
      const sessions = [];
      for (const hours of [0.5, 3, 2, 4, 5]) sessions.push((await addSession(tokens, ada, used(hours))).id);
      const [live = 0, three = 0, two = 0, stolen = 0, loggedOut = 0] = sessions;
      const llt =
        (await tokens.addLongLived(
          ada.id,
          { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null },
          100,
        )) ?? 0;
      const ahead =
        (await tokens.addLongLived(
          ada.id,
          { name: 'Hall', createdAt: AT, kid: 'a key', createdBy: null },
          100,
        )) ?? 0;
      await tokens.addLongLived(ada.id, { name: 'Attic', createdAt: 1, kid: 'a key', createdBy: null }, 100);
      await addSession(tokens, bob, used(2));
      await tokens.revoke(ada.id, llt, AT - 90 * 60_000);
      await tokens.revoke(ada.id, ahead, AT + 7, 'llt', 'admin');
      await tokens.revokeForReuse(ada.id, stolen, AT - 30, 1);
      await tokens.revoke(ada.id, loggedOut, AT - 20);
      /** A refresh token's times are in whole seconds. */
      const floor = (ms: number) => Math.floor((AT + ms) / 1000) * 1000 - AT;
      const all = [
        [ahead, 7, 'admin'],
        [stolen, -30, 'reuse'],
        [two, floor(-HOUR), 'expired'],
        [llt, -90 * 60_000, 'logout'],
        [three, floor(-2 * HOUR), 'expired'],
        [loggedOut, floor(-4 * HOUR), 'expired'],
      ];
      t.strictSame(await endedOf(tokens, ada), all);
      t.strictSame(await endedOf(tokens, ada, { limit: 3 }), all.slice(0, 3));
      t.strictSame(await endedOf(tokens, ada, { since: AT - 2 * HOUR }), all.slice(0, 4));
      t.strictSame(await endedOf(tokens, ada, { now: AT + HOUR / 2 }), [
        [live, floor(HOUR / 2), 'expired'],
        ...all,
      ]);
      const aged = await endedOf(tokens, ada, { now: AT + 60_000 }, { ...lifetimes, session: 60 });
      t.strictSame(aged[0], [live, 60_000, 'expired'], 'by its greatest age');
      const [kitchen] = (await tokens.listEnded(ada.id, { since: 0, now: AT, limit: 10 }, lifetimes)).filter(
        ({ id }) => id === llt,
      );
      const common = { name: 'Kitchen', createdAt: AT, createdBy: null, lastUsedAt: null, limited: null };
      t.strictSame(kitchen, { ...common, id: llt, type: 'llt', endedAt: AT - 90 * 60_000, reason: 'logout' });
      t.strictSame(await endedOf(tokens, { ...ada, id: 999 }), []);
    },
  );

  contract('lists unrevoked tokens, oldest first', async (t, { tokens, ada, bob }) => {
    const ids: number[] = [];
    for (const name of ['a', 'b', 'c']) {
      ids.push((await addSession(tokens, ada)).id);
      ids.push(
        (await tokens.addLongLived(ada.id, { name, createdAt: AT, kid: 'a key', createdBy: null }, 100)) ?? 0,
      );
    }
    await addSession(tokens, bob);
    await tokens.revoke(ada.id, ids[2] ?? 0, AT);
    const listed = await tokens.list(ada.id);
    t.strictSame(
      listed.map(({ id }) => id),
      ids.filter((_, i) => i !== 2),
    );
    t.strictSame(listed[0], (await tokens.find(ids[0] ?? 0))?.record);
    const together = await Promise.all([bob.id, 999, ada.id].map((userId) => tokens.list(userId)));
    t.strictSame(together.slice(1), [[], listed], 'each user’s own');
    t.strictSame(
      together[0]?.map(({ userId }) => userId),
      [bob.id],
    );
    const unused = await addSession(tokens, ada, 5);
    const since = async (micros: number) => (await tokens.list(ada.id, micros)).map(({ id }) => id);
    t.strictSame(
      await since(5),
      ids.filter((_, i) => i !== 2),
    );
    t.ok((await since(4)).includes(unused.id));
  });
}
