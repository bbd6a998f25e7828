import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import { makeWriteBehind } from '../../../src/domain/sessions/write-behind.ts';
import { makeRevocations } from '../../../src/domain/tokens/revocations.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
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
  const { aSession, tokens, revocations } = await testRecords(t);
  const [old, recent] = [await aSession(), await aSession()];
  await tokens.revoke(old.userId, old.tokenId, Date.now() - 120_000);
  await tokens.revoke(recent.userId, recent.tokenId, Date.now() - 30_000);
  await revocations.settle([old.tokenId, recent.tokenId]);

  const states = aStore();
  await makeRevocations({ revocations, states, clock }).renew(60_000);
  t.equal((await states.checkAccess(recent, 1)).outcome, 'revoked');
  t.equal((await states.checkAccess(old, 1)).outcome, 'missing');
});

test('a theft that the record does not know yet stays queued, and is not forgotten', async (t) => {
  const { aSession, tokens, revocations } = await testRecords(t);
  const key = await aSession();
  const states = aStore();
  let isAway = true;
  const revoke = makeRevoke({
    states,
    revocations,
    clock,
    tokens: { revoke: (...args) => (isAway ? away() : tokens.revoke(...args)) },
  });
  const endForReuse = makeEndForReuse({ states, revoke });
  await endForReuse.end(key);
  t.equal(endForReuse.size(), 1);
  await endForReuse.retry();
  t.equal(endForReuse.size(), 1, 'still away');
  isAway = false;
  await endForReuse.retry();
  t.equal(endForReuse.size(), 0);
  t.not((await tokens.find(key.tokenId))?.record.revokedAt, null);
});

test('rotations are written once for each session, the newest state, and a failed flush loses none', async (t) => {
  const { aSession, writer, stateOf } = await testRecords(t);
  const [a, b] = [await aSession(), await aSession()];
  let isAway = true;
  const writeBehind = makeWriteBehind({
    states: aStore(),
    writer: { ...writer, saveStates: (states) => (isAway ? away() : writer.saveStates(states)) },
  });
  for (const latest of [2e6, 4e6, 3e6]) writeBehind.note(a, initialState(latest, ''));
  writeBehind.note(b, initialState(2e6, ''));
  t.equal(writeBehind.size(), 2);
  await t.rejects(writeBehind.flush(), { code: 'unavailable' });
  t.equal(writeBehind.size(), 2);
  writeBehind.note(a, { ...initialState(4e6, ''), confirmed: true });

  isAway = false;
  await writeBehind.flush();
  t.equal(writeBehind.size(), 0);
  t.strictSame(await stateOf(a.tokenId), { ...initialState(4e6, ''), confirmed: true });
  t.strictSame(await stateOf(b.tokenId), initialState(2e6, ''));
});

test('a session that was rotated here and revoked there gets its tombstone at the flush', async (t) => {
  const { aSession, tokens, writer } = await testRecords(t);
  const key = await aSession();
  const states = aStore();
  const writeBehind = makeWriteBehind({ states, writer });
  writeBehind.note(key, initialState(5e6, ''));
  await tokens.revoke(key.userId, key.tokenId, Date.now());
  await writeBehind.flush();
  t.equal((await states.checkAccess(key, 5e6)).outcome, 'revoked');
});
