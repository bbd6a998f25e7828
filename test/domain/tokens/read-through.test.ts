import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { withReadThrough } from '../../../src/domain/tokens/read-through.ts';
import { makeRevokeTokens } from '../../../src/domain/tokens/revoke.ts';
import { makeMemoryTokenStates } from '../../../src/infra/memory/token-states.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser, ROOM } from '../../support/token.ts';
import { UNOBSERVED } from '../../support/unobserved.ts';

/** A session and an LLT of user 1 in the record, and an empty store. */
async function anEmptiedStore() {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2, username: 'bob' })]);
  const tokenStates = makeMemoryTokenStates({ cacheTtl: 3600, now: clock.micros });
  const generation = clock.micros();
  const createdAt = clock.now();
  const session = { name: 'Firefox', createdAt, state: initialState(generation, 'home') };
  const added = await tokens.addSession(1, session, ROOM);
  const llt = await tokens.addLongLived(
    1,
    { name: 'Kitchen', createdAt, kid: 'a key', createdBy: null },
    100,
  );
  const key = { userId: 1, tokenId: added?.id ?? 0 };
  const longLived = { userId: 1, tokenId: llt ?? 0 };
  const { revoke } = makeRevokeTokens({
    ...someQueues(),
    tokenStates,
    tokens,
    revocations: tokens,
    clock,
    endOfTick: () => Promise.resolve(),
    pause: () => Promise.resolve(),
  });
  const good = { outcome: 'good', user, createdAt };
  return { clock, tokens, tokenStates, generation, key, longLived, revoke, good };
}

test('a missing key is rebuilt from its record, once', async (t) => {
  const { clock, tokens, tokenStates, generation, key, longLived, good } = await anEmptiedStore();
  let finds = 0;
  const find = (id: number) => (finds++, tokens.find(id));
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });

  for (let i = 0; i < 3; i++) {
    t.match(await readThrough.checkAccess(key, generation), good);
    t.match(await readThrough.checkLongLived(longLived), good);
  }
  t.equal(finds, 2, 'a key in the store needs no query');
});

test('a revoked record is not rebuilt, and is queried once', async (t) => {
  const { clock, tokens, tokenStates, generation, key } = await anEmptiedStore();
  let finds = 0;
  const find = (id: number) => (finds++, tokens.find(id));
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });
  await tokens.revoke(key.userId, key.tokenId, 1);
  for (let i = 0; i < 2; i++)
    t.strictSame(await readThrough.checkAccess(key, generation), { outcome: 'revoked' });
  t.equal(finds, 1);
});

test('a note that the store does not take changes no answer', async (t) => {
  const { clock, tokens, tokenStates, generation, key } = await anEmptiedStore();
  const noteEnded = () => Promise.reject(new AuthError('unavailable'));
  const full = { ...tokenStates, noteEnded };
  const readThrough = withReadThrough(full, { tokens, clock, observe: UNOBSERVED });
  await tokens.revoke(key.userId, key.tokenId, 1);
  t.strictSame(await readThrough.checkAccess(key, generation), { outcome: 'revoked' });
});

test('a token without a record, of another user or of another type is gone', async (t) => {
  const { clock, tokens, tokenStates, generation, key, longLived } = await anEmptiedStore();
  const readThrough = withReadThrough(tokenStates, { tokens, clock, observe: UNOBSERVED });
  const presented = [
    [{ userId: 1, tokenId: 99 }, 'session'],
    [{ userId: 1, tokenId: 99 }, 'llt'],
    [{ userId: 2, tokenId: key.tokenId }, 'session'],
    [{ userId: 2, tokenId: longLived.tokenId }, 'llt'],
    [key, 'llt'],
    [longLived, 'session'],
  ] as const;
  for (const [asked, type] of presented) {
    const answer = await (type === 'llt'
      ? readThrough.checkLongLived(asked)
      : readThrough.checkAccess(asked, generation));
    t.strictSame(answer, { outcome: 'gone' }, `${JSON.stringify(asked)} as ${type}`);
    t.match(await tokenStates.checkAccess(asked, generation), { outcome: 'missing' }, 'nothing was put');
  }
});

test('reports what a cache miss came to', async (t) => {
  const { clock, tokens, tokenStates, generation, key, longLived, revoke } = await anEmptiedStore();
  const outcomes: string[] = [];
  const observe = { readThrough: (outcome: string) => outcomes.push(outcome) };
  const find = async (id: number) => {
    const found = await tokens.find(id);
    if (id === longLived.tokenId) await revoke(key.userId, id);
    return found;
  };
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe });
  await readThrough.checkAccess(key, generation);
  await readThrough.checkLongLived(longLived);
  await readThrough.checkAccess({ userId: 1, tokenId: 99 }, generation);
  t.strictSame(outcomes, ['rebuilt', 'refused', 'gone']);
});

test('a token of a disabled user is rebuilt as disabled', async (t) => {
  const { clock, tokens, tokenStates, generation, key } = await anEmptiedStore();
  const readThrough = withReadThrough(tokenStates, { tokens, clock, observe: UNOBSERVED });
  tokens.disable(1);
  const answer = await readThrough.checkAccess(key, generation);
  t.strictSame(answer, { outcome: 'disabled' });
});

test('a revocation between reading the record and rebuilding wins', async (t) => {
  const { clock, tokens, tokenStates, generation, key, revoke } = await anEmptiedStore();
  const find = async (id: number) => {
    const found = await tokens.find(id);
    t.equal(await revoke(key.userId, key.tokenId), true);
    return found;
  };
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });
  t.strictSame(await readThrough.checkAccess(key, generation), { outcome: 'revoked' });
  t.strictSame(await tokenStates.checkAccess(key, generation), { outcome: 'revoked' });
});

test('a rotation between reading the record and rebuilding wins', async (t) => {
  const { clock, tokens, tokenStates, generation, key } = await anEmptiedStore();
  const readThrough = withReadThrough(tokenStates, { tokens, clock, observe: UNOBSERVED });
  const refresh = () => readThrough.rotate(key, { generation, elapsed: 0, window: 0, caller: 'home' });
  const find = async (id: number) => {
    const found = await tokens.find(id);
    t.match(await refresh(), { outcome: 'issued' });
    return found;
  };
  const late = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });
  const answer = await late.checkAccess(key, generation);
  t.match(answer, { outcome: 'superseded' }, 'the rotated state stays');
});

test('a record read too long ago is read again', async (t) => {
  const { clock, tokens, tokenStates, generation, key, good } = await anEmptiedStore();
  let finds = 0;
  const find = async (id: number) => {
    const found = await tokens.find(id);
    if (++finds === 1) clock.pass(10_001);
    return found;
  };
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });
  t.match(await readThrough.checkAccess(key, generation), good);
  t.equal(finds, 2);
});

test('a key that stays missing is an outage, not a verdict', async (t) => {
  const { clock, tokens, tokenStates, generation, key } = await anEmptiedStore();
  let finds = 0;
  const find = async (id: number) => {
    const found = await tokens.find(id);
    finds++;
    clock.pass(10_001);
    return found;
  };
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });
  const asking = readThrough.checkAccess(key, generation);
  await t.rejects(asking, { name: 'AuthError', code: 'unavailable' });
  t.equal(finds, 2);
});

test('the time of a rebuild counts as time inside the service', async (t) => {
  const { clock, tokens, tokenStates, generation, key } = await anEmptiedStore();
  const find = async (id: number) => {
    const found = await tokens.find(id);
    clock.pass(5001);
    return found;
  };
  const readThrough = withReadThrough(tokenStates, { tokens: { find }, clock, observe: UNOBSERVED });
  const answer = await readThrough.rotate(key, { generation, elapsed: 0, window: 0, caller: 'home' });
  t.match(answer, { outcome: 'refused', reason: 'stale' });
});
