import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { purge } from '../../../src/infra/postgres/purge.ts';
import { testRecords } from '../../support/records.ts';

test('removes long expired and long revoked tokens only', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const at = (seconds: number) => initialState(seconds * 1e6, '');
  const stale = await aSession(at(100));
  const live = await aSession(at(300));
  const revokedLongAgo = await aSession(at(300));
  const revokedLately = await aSession(at(300));
  const pending = await aSession(at(100));
  const aLongLived = async (expiresAt: number | null) => {
    const token = { name: 'x', createdAt: 1, kid: 'a key', expiresAt, createdBy: null };
    return { userId: live.userId, tokenId: (await tokens.addLongLived(live.userId, token, 5)) ?? 0 };
  };
  const llt = await aLongLived(null);
  const expiredLongAgo = await aLongLived(6999);
  const expiredLately = await aLongLived(7000);
  await tokens.revoke(revokedLongAgo.userId, revokedLongAgo.tokenId, 1000);
  await tokens.revoke(revokedLately.userId, revokedLately.tokenId, 9000);
  await revocations.settle([revokedLongAgo.tokenId, revokedLately.tokenId]);
  await tokens.revoke(pending.userId, pending.tokenId, 1000);

  t.equal(await purge(postgres.prisma, { unusedSince: 200e6, revokedBefore: 5000, expiredBefore: 7000 }), 3);
  const kept = { stale, live, revokedLongAgo, revokedLately, pending, llt, expiredLongAgo, expiredLately };
  for (const [name, { tokenId }] of Object.entries(kept)) {
    const isGone = ['stale', 'revokedLongAgo', 'expiredLongAgo'].includes(name);
    t.equal((await tokens.find(tokenId)) === null, isGone, name);
  }
});

test('skips a locked row, and a second purge yields', async (t) => {
  const { aSession, tokens, postgres } = await testRecords(t);
  const { tokenId } = await aSession(initialState(1e6, ''));
  const options = { unusedSince: 200e6, revokedBefore: 0, expiredBefore: 0 };
  await postgres.prisma.$transaction(async (tx) => {
    await tx.$queryRaw`SELECT id FROM tokens WHERE id = ${BigInt(tokenId)} FOR UPDATE`;
    t.equal(await purge(postgres.prisma, options), 0);
    await tx.$queryRaw`SELECT pg_advisory_xact_lock(4117200902)::text`;
    t.equal(await purge(postgres.prisma, options), null);
  });
  t.not(await tokens.find(tokenId), null);
  t.equal(await purge(postgres.prisma, options), 1);
});
