import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeRevocations } from '../../../src/domain/tokens/revocations.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { testRecords } from '../../support/records.ts';

const clock = { now: () => Date.now(), monotonic: () => performance.now() };
const aStore = () => makeMemorySessionState({ cacheTtl: 3600, now: () => Date.now() * 1000 });

function away(): never {
  throw new AuthError('unavailable');
}

test('a revocation whose tombstone could not be set is finished by a sweep', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  const states = aStore();
  const revoke = makeRevoke({ states: { revoke: away }, tokens, revocations, clock });
  await t.rejects(revoke(key.userId, key.tokenId), { code: 'unavailable' });
  t.equal((await states.checkAccess(key, 1)).outcome, 'missing', 'no tombstone yet');

  await makeRevocations({ revocations, states, clock }).sweep();
  t.equal((await states.checkAccess(key, 1)).outcome, 'revoked');
  t.strictSame(await revocations.pending(10), []);
});

test('a sweep that cannot set the tombstones leaves their marks', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await t.rejects(makeRevocations({ revocations, states: { revokeAll: away }, clock }).sweep(), {
    code: 'unavailable',
  });
  t.strictSame(await revocations.pending(10), [key]);
});

test('what was revoked lately is set again in a store that has forgotten it', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const [old, recent] = [await aSession(), await aSession()];
  // Revoked long before: what counts is when the tombstone was set.
  for (const key of [old, recent]) await tokens.revoke(key.userId, key.tokenId, Date.now() - 7_200_000);
  await revocations.settle([old.tokenId, recent.tokenId]);
  await postgres.prisma.$executeRaw`
    UPDATE tokens SET settled_at = settled_at - interval '2 minutes' WHERE id = ${old.tokenId}`;

  const states = aStore();
  await makeRevocations({ revocations, states, clock }).renew(60_000);
  t.equal((await states.checkAccess(recent, 1)).outcome, 'revoked');
  t.equal((await states.checkAccess(old, 1)).outcome, 'missing');
});

test('after an outage the renewal looks back as far as it has lasted, once', async (t) => {
  const { aSession, tokens, revocations, postgres } = await testRecords(t);
  const key = await aSession();
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await revocations.settle([key.tokenId]);
  await postgres.prisma.$executeRaw`UPDATE tokens SET settled_at = settled_at - interval '5 minutes'`;

  const time = aClock();
  let states = aStore();
  let isAway = false;
  const renewals = makeRevocations({
    revocations: {
      ...revocations,
      settledSince: (...asked) => (isAway ? away() : revocations.settledSince(...asked)),
    },
    states: { revokeAll: (keys) => states.revokeAll(keys) },
    clock: time,
  });
  const outcome = async () => (await states.checkAccess(key, 1)).outcome;
  await renewals.renewRecent();
  t.equal(await outcome(), 'missing', 'it was set longer ago than a minute');

  isAway = true;
  for (let i = 0; i < 5; i++) {
    time.pass(60_000);
    await t.rejects(renewals.renewRecent(), { code: 'unavailable' });
  }
  isAway = false;
  await renewals.renewRecent();
  t.equal(await outcome(), 'revoked');

  states = aStore();
  await renewals.renewRecent();
  t.equal(await outcome(), 'missing', 'a minute is enough again');
});
