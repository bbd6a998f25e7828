import { test } from 'tap';
import { initialState } from '../../../src/domain/sessions/rotation.ts';
import { makeReadThrough } from '../../../src/domain/tokens/read-through.ts';
import { makeRevoke } from '../../../src/domain/tokens/revoke.ts';
import { makeMemorySessionState } from '../../../src/infra/memory/session-state.ts';
import { aClock } from '../../support/clock.ts';
import { makeMemoryTokenStore } from '../../support/memory-token-store.ts';
import { aUser } from '../../support/token.ts';

const room = { limit: 100, liveSince: 0 };

/** A session and an LLT of user 1 on record, and a store that knows nothing of them. */
async function anEmptiedStore() {
  const clock = aClock();
  const user = aUser({ id: 1 });
  const tokens = makeMemoryTokenStore([user, aUser({ id: 2, username: 'bob' })]);
  const states = makeMemorySessionState({ cacheTtl: 3600, now: clock.micros });
  const generation = clock.micros();
  const createdAt = clock.now();
  const session = { name: 'Firefox', createdAt, state: initialState(generation, 'home') };
  const added = await tokens.addSession(1, session, room);
  const llt = await tokens.addLongLived(1, { name: 'Kitchen', createdAt, kid: 'a key' }, 100);
  const key = { userId: 1, tokenId: added?.id ?? 0 };
  const longLived = { userId: 1, tokenId: llt ?? 0 };
  const revoke = makeRevoke({ states, tokens, revocations: tokens, clock });
  const good = { outcome: 'good', user, createdAt };
  return { clock, tokens, states, generation, key, longLived, revoke, good };
}

test('a missing key is rebuilt from its record, once', async (t) => {
  const { tokens, states, generation, key, longLived, good } = await anEmptiedStore();
  let finds = 0;
  const find = (id: number) => (finds++, tokens.find(id));
  const readThrough = makeReadThrough({ states, tokens: { find } });

  for (let i = 0; i < 3; i++) {
    t.match(await readThrough(key, 'session', () => states.checkAccess(key, generation)), good);
    t.match(await readThrough(longLived, 'llt', () => states.checkLongLived(longLived)), good);
  }
  t.equal(finds, 2, 'what is in the store asks no database');
});

test('a revoked record is gone, is not put back, and is asked once', async (t) => {
  const { tokens, states, generation, key } = await anEmptiedStore();
  let finds = 0;
  const find = (id: number) => (finds++, tokens.find(id));
  const readThrough = makeReadThrough({ states, tokens: { find } });
  await tokens.revoke(key.userId, key.tokenId, 1);
  const ask = () => states.checkAccess(key, generation);
  t.strictSame(await readThrough(key, 'session', ask), { outcome: 'gone' });
  t.strictSame(await readThrough(key, 'session', ask), { outcome: 'revoked' });
  t.equal(finds, 1);
});

test('a token without a record, of another user or of another type is gone', async (t) => {
  const { tokens, states, generation, key, longLived } = await anEmptiedStore();
  const readThrough = makeReadThrough({ states, tokens });
  const presented = [
    [{ userId: 1, tokenId: 99 }, 'session'],
    [{ userId: 1, tokenId: 99 }, 'llt'],
    [{ userId: 2, tokenId: key.tokenId }, 'session'],
    [{ userId: 2, tokenId: longLived.tokenId }, 'llt'],
    [key, 'llt'],
    [longLived, 'session'],
  ] as const;
  for (const [asked, type] of presented) {
    const answer = await readThrough(asked, type, () => states.checkAccess(asked, generation));
    t.strictSame(answer, { outcome: 'gone' }, `${JSON.stringify(asked)} as ${type}`);
    t.match(await states.checkAccess(asked, generation), { outcome: 'missing' }, 'and nothing was put');
  }
});

test('a token of a disabled user is rebuilt as what it is', async (t) => {
  const { tokens, states, generation, key } = await anEmptiedStore();
  const readThrough = makeReadThrough({ states, tokens });
  tokens.disable(1);
  const answer = await readThrough(key, 'session', () => states.checkAccess(key, generation));
  t.strictSame(answer, { outcome: 'disabled' });
});

test('a revocation between reading the record and putting it back wins', async (t) => {
  const { tokens, states, generation, key, revoke } = await anEmptiedStore();
  const find = async (id: number) => {
    const found = await tokens.find(id);
    t.equal(await revoke(key.userId, key.tokenId), true);
    return found;
  };
  const readThrough = makeReadThrough({ states, tokens: { find } });
  const ask = () => states.checkAccess(key, generation);
  t.strictSame(await readThrough(key, 'session', ask), { outcome: 'revoked' });
  t.strictSame(await ask(), { outcome: 'revoked' });
});

test('a rotation between reading the record and putting it back wins', async (t) => {
  const { tokens, states, generation, key } = await anEmptiedStore();
  const readThrough = makeReadThrough({ states, tokens });
  const refresh = () =>
    readThrough(key, 'session', () =>
      states.rotate(key, { generation, elapsed: 0, window: 0, client: 'home' }),
    );
  const find = async (id: number) => {
    const found = await tokens.find(id);
    t.match(await refresh(), { outcome: 'issued' });
    return found;
  };
  const late = makeReadThrough({ states, tokens: { find } });
  const answer = await late(key, 'session', () => states.checkAccess(key, generation));
  t.match(answer, { outcome: 'superseded' }, 'the rotated state stands');
});

test('a record that was read too long ago is read again', async (t) => {
  const { clock, tokens, states, generation, key, good } = await anEmptiedStore();
  let finds = 0;
  const find = async (id: number) => {
    const found = await tokens.find(id);
    if (++finds === 1) clock.pass(10_001);
    return found;
  };
  const readThrough = makeReadThrough({ states, tokens: { find } });
  t.match(await readThrough(key, 'session', () => states.checkAccess(key, generation)), good);
  t.equal(finds, 2);
});

test('a key that is missing again and again is an outage, and no verdict', async (t) => {
  const { clock, tokens, states, generation, key } = await anEmptiedStore();
  let finds = 0;
  const find = async (id: number) => {
    const found = await tokens.find(id);
    finds++;
    clock.pass(10_001);
    return found;
  };
  const readThrough = makeReadThrough({ states, tokens: { find } });
  const asking = readThrough(key, 'session', () => states.checkAccess(key, generation));
  await t.rejects(asking, { name: 'AuthError', code: 'unavailable' });
  t.equal(finds, 2);
});
