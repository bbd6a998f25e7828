import { onEveryRecords } from '../../support/records.ts';

onEveryRecords(
  'a revocation is pending until it is settled',
  async (t, { aSession, tokens, revocations }) => {
    const key = await aSession();
    t.strictSame(await revocations.pending(10), []);
    await tokens.revoke(key.userId, key.tokenId, Date.now());
    t.strictSame(await revocations.pending(10), [key]);
    await revocations.settle([key.tokenId]);
    t.strictSame(await revocations.pending(10), []);
  },
);

onEveryRecords(
  'a session that had to make room is pending as well',
  async (t, { aSession, tokens, revocations }) => {
    const { userId, tokenId } = await aSession();
    const session = {
      name: 'x',
      createdAt: Date.now(),
      state: { latest: 2e6, parent: 0, first: 2e6, confirmed: false, client: '' },
    };
    const added = await tokens.addSession(userId, session, { limit: 1, liveSince: 0 });
    t.strictSame(added?.replaced, [tokenId]);
    t.strictSame(await revocations.pending(10), [{ userId, tokenId }]);
  },
);

onEveryRecords(
  'revocations are listed by time and id, page by page',
  async (t, { aSession, tokens, revocations }) => {
    const keys = [await aSession(), await aSession(), await aSession()];
    for (const [i, key] of keys.entries())
      await tokens.revoke(key.userId, key.tokenId, i === 2 ? 2000 : 1000);
    const all = await revocations.revokedSince({ at: 0, id: 0 }, 10);
    t.strictSame(
      all.map(({ key }) => key),
      keys,
    );
    const page = await revocations.revokedSince({ at: 1000, id: keys[0]?.tokenId ?? 0 }, 1);
    t.strictSame(page, [{ key: keys[1], at: 1000 }]);
    t.strictSame(await revocations.revokedSince({ at: 2000, id: keys[2]?.tokenId ?? 0 }, 10), []);
  },
);
