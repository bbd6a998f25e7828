import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { purge } from '../../../src/infra/postgres/purge.ts';
import { testRecords } from '../../support/records.ts';

test('sessions long expired and tokens long revoked go, and nothing else', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const at = (seconds: number) => initialState(seconds * 1e6, '');
  const stale = await aSession(at(100));
  const live = await aSession(at(300));
  const revokedLongAgo = await aSession(at(300));
  const revokedLately = await aSession(at(300));
  const pending = await aSession(at(100));
  const llt = {
    userId: live.userId,
    tokenId: (await tokens.addLongLived(live.userId, { name: 'x', createdAt: 1, kid: 'a key' }, 5)) ?? 0,
  };
  await tokens.revoke(revokedLongAgo.userId, revokedLongAgo.tokenId, 1000);
  await tokens.revoke(revokedLately.userId, revokedLately.tokenId, 9000);
  await revocations.settle([revokedLongAgo.tokenId, revokedLately.tokenId]);
  await tokens.revoke(pending.userId, pending.tokenId, 1000);

  t.equal(await purge(postgres.prisma, { unusedSince: 200e6, revokedBefore: 5000 }), 2);
  const kept = { stale, live, revokedLongAgo, revokedLately, pending, llt };
  for (const [name, { tokenId }] of Object.entries(kept)) {
    const isGone = name === 'stale' || name === 'revokedLongAgo';
    t.equal((await tokens.find(tokenId)) === null, isGone, name);
  }
});

test('a row that is in use is passed over, and a second purge gives way', async (t) => {
  const { aSession, tokens, postgres } = await testRecords(t);
  const { tokenId } = await aSession(initialState(1e6, ''));
  const options = { unusedSince: 200e6, revokedBefore: 0 };
  await postgres.prisma.$transaction(async (tx) => {
    await tx.$queryRaw`SELECT id FROM tokens WHERE id = ${BigInt(tokenId)} FOR UPDATE`;
    t.equal(await purge(postgres.prisma, options), 0);
    await tx.$queryRaw`SELECT pg_advisory_xact_lock(4117200902)::text`;
    t.equal(await purge(postgres.prisma, options), null);
  });
  t.not(await tokens.find(tokenId), null);
  t.equal(await purge(postgres.prisma, options), 1);
});
