import { test, type Test } from 'tap';
import { initialState } from '../../src/domain/sessions/rotation.ts';
import type { NewLongLived, RevocationStore, TokenStore } from '../../src/domain/tokens/ports.ts';
import type { User } from '../../src/domain/user.ts';
import { LIFETIMES as lifetimes, ROOM } from '../support/token.ts';

export interface LongLivedUnderTest {
  tokens: TokenStore;
  revocations: Pick<RevocationStore, 'pending' | 'settle'>;
  /** Two accounts. */
  ada: User;
  bob: User;
}

const AT = 1_795_000_000_000;

function aWorld({ tokens, revocations, ada, bob }: LongLivedUnderTest) {
  const addSession = async (user = ada) => {
    const session = { name: 'Firefox', createdAt: AT, state: initialState(AT * 1000, 'home') };
    const added = await tokens.addSession(user.id, session, ROOM);
    if (!added) throw new Error('no session was added');
    return added.id;
  };
  const add = (token: Partial<NewLongLived> = {}, user = ada, limit = 100) =>
    tokens.addLongLived(
      user.id,
      { name: 'Kitchen', createdAt: AT, kid: 'a key', createdBy: null, ...token },
      limit,
    );
  const create = async (sessionId: number, generation: number, user = ada) =>
    (await add({ createdBy: { sessionId, withFactor: false, generation } }, user)) ?? 0;
  const isGood = async (id: number) => (await tokens.find(id))?.record.revokedAt === null;
  const ended = (range = {}) =>
    tokens.listEnded(ada.id, { since: 0, now: AT, limit: 10, ...range }, lifetimes);
  const reasons = async (range = {}) =>
    (await ended(range)).map(({ id, endedAt, reason }) => [id, endedAt - AT, reason]);
  const pendingIds = async () => {
    const keys = [...(await revocations.pending(100, ada.id)), ...(await revocations.pending(100, bob.id))];
    return keys.map(({ tokenId }) => tokenId).sort((a, b) => a - b);
  };
  return { tokens, revocations, ada, bob, addSession, add, create, isGood, ended, reasons, pendingIds };
}

type World = ReturnType<typeof aWorld>;

/** The contract of every TokenStore for long-lived tokens. @param open returns a separate store for each test. */
export function longLivedTokensContract(
  implementation: string,
  open: (t: Test) => Promise<LongLivedUnderTest>,
): void {
  const contract = (sentence: string, run: (t: Test, world: World) => Promise<void>) => {
    test(`${implementation}: ${sentence}`, async (t) => {
      await run(t, aWorld(await open(t)));
    });
  };

  contract('finds and lists expiry and origin of a long-lived token', async (t, world) => {
    const { tokens, ada, add, addSession, ended } = world;
    const session = await addSession();
    const createdBy = { sessionId: session, withFactor: false, generation: 5 };
    const id = (await add({ expiresAt: AT + 60_000, createdBy })) ?? 0;
    const older = (await add()) ?? 0;
    const record = { expiresAt: AT + 60_000, createdBy: session };
    t.match(await tokens.find(id), { record });
    t.match(await tokens.find(older), { record: { expiresAt: null, createdBy: null } });
    t.match(await tokens.list(ada.id), [{ id: session, createdBy: null }, { id, ...record }, { id: older }]);
    await tokens.revoke(ada.id, id, AT);
    t.match(await ended(), [{ id, createdBy: session, reason: 'logout' }]);
  });

  contract('does not count an expired long-lived token', async (t, { ada, add }) => {
    t.not(await add({ expiresAt: AT + 1000 }, ada, 1), null);
    t.equal(await add({ createdAt: AT + 999 }, ada, 1), null);
    t.not(await add({ createdAt: AT + 1000 }, ada, 1), null, 'expired at this very millisecond');
    t.equal(await add({ createdAt: AT + 1000 }, ada, 1), null);
  });

  contract('reports an expired long-lived token as expired', async (t, world) => {
    const { tokens, ada, add, addSession, reasons } = world;
    const session = await addSession();
    const createdBy = { sessionId: session, withFactor: false, generation: 5 };
    const id = (await add({ expiresAt: AT + 1000, createdBy })) ?? 0;
    await add();
    t.strictSame(await reasons({ now: AT + 999 }), []);
    t.strictSame(await reasons({ now: AT + 1000 }), [[id, 1000, 'expired']]);
    t.strictSame(await reasons({ now: AT + 1000, since: AT + 1000 }), []);
    await tokens.revokeForReuse(ada.id, session, AT + 5000, 5);
    t.strictSame(
      await reasons({ now: AT + 9000 }),
      [
        [session, 5000, 'reuse'],
        [id, 1000, 'expired'],
      ],
      'even if its session turns out to be stolen later',
    );
  });

  contract(
    'ends what a stolen session created with the stolen generation or a later one',
    async (t, world) => {
      const { tokens, ada, bob, addSession, add, create, isGood, reasons, pendingIds } = world;
      const [session, other, theirs] = [await addSession(), await addSession(), await addSession(bob)];
      const [before, at, after] = [
        await create(session, 4),
        await create(session, 5),
        await create(session, Number.MAX_SAFE_INTEGER),
      ];
      const kept = [
        before,
        await create(other, 9),
        other,
        theirs,
        await create(theirs, 9, bob),
        (await add()) ?? 0,
      ];
      const deleted = await create(session, 9);
      await tokens.revoke(ada.id, deleted, AT);

      t.strictSame(await tokens.revokeForReuse(ada.id, session, AT + 5, 5), {
        ended: [at, after],
        pending: [deleted],
      });
      for (const id of kept) t.ok(await isGood(id), String(id));
      t.strictSame(await reasons(), [
        [after, 5, 'reuse'],
        [at, 5, 'reuse'],
        [session, 5, 'reuse'],
        [deleted, 0, 'logout'],
      ]);
      t.strictSame(await pendingIds(), [session, at, after, deleted]);
    },
  );

  contract('ends them once, and returns those whose tombstone may be missing', async (t, world) => {
    const { tokens, revocations, ada, addSession, create, isGood, reasons } = world;
    const session = await addSession();
    const [older, one, two] = [await create(session, 3), await create(session, 5), await create(session, 6)];
    await tokens.revokeForReuse(ada.id, session, AT + 5, 5);
    await revocations.settle([one]);
    const again = await tokens.revokeForReuse(ada.id, session, AT + 9, 5);
    t.strictSame(again, { ended: [], pending: [two] });
    t.strictSame(await tokens.revokeForReuse(ada.id, session, AT + 9, undefined), { ended: [], pending: [] });
    t.ok(await isGood(older), 'the caller that found the theft knew the generation');
    t.strictSame(await tokens.revokeForReuse(ada.id, session, AT + 9, 3), { ended: [older], pending: [two] });
    t.strictSame(await reasons(), [
      [older, 9, 'reuse'],
      [two, 5, 'reuse'],
      [one, 5, 'reuse'],
      [session, 5, 'reuse'],
    ]);
  });

  contract(
    'ends all long-lived tokens of a stolen session if the generation is unknown',
    async (t, world) => {
      const { tokens, ada, addSession, add, create, isGood } = world;
      const [session, other] = [await addSession(), await addSession()];
      const [one, two] = [await create(session, 1), await create(session, 2)];
      const kept = [await create(other, 9), (await add()) ?? 0];
      const stolen = await tokens.revokeForReuse(ada.id, session, AT, undefined);
      t.strictSame(stolen, { ended: [one, two], pending: [] });
      for (const id of kept) t.ok(await isGood(id));
    },
  );

  contract('ends them even if the session has ended for another reason since', async (t, world) => {
    const { tokens, ada, addSession, create, reasons } = world;
    for (const since of [5, undefined]) {
      const session = await addSession();
      const id = await create(session, 5);
      await tokens.revoke(ada.id, session, AT);
      t.strictSame(await tokens.revokeForReuse(ada.id, session, AT + 5, since), { ended: [id], pending: [] });
      t.strictSame((await reasons({ limit: 1 })).flat(), [id, 5, 'reuse']);
      t.ok((await reasons()).some(([ended, , reason]) => ended === session && reason === 'logout'));
    }
  });

  contract('does not treat a session of another user or type as stolen', async (t, world) => {
    const { tokens, ada, bob, addSession, create, isGood, pendingIds } = world;
    const session = await addSession();
    const id = await create(session, 5);
    t.equal(await tokens.revokeForReuse(bob.id, session, AT, 5), null);
    t.equal(await tokens.revokeForReuse(ada.id, id, AT, 5), null);
    t.equal(await tokens.revokeForReuse(ada.id, 999_999, AT, 5), null);
    t.ok((await isGood(session)) && (await isGood(id)));
    t.strictSame(await pendingIds(), []);
  });
}
