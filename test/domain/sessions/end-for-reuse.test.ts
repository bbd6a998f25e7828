import { test } from 'tap';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import type { TokenKey, Tombstone } from '../../../src/domain/sessions/ports.ts';

/** A record that is away until it is told to be back, and what was asked of it and of the fast store. */
function aWorld() {
  const asked: string[] = [];
  let failure: Error | null = new AuthError('unavailable');
  const endForReuse = makeEndForReuse({
    revoke: (userId, tokenId, type, reason) => {
      asked.push(`record ${userId}/${tokenId} ${type ?? 'any'}: ${reason ?? 'logout'}`);
      return failure ? Promise.reject(failure) : Promise.resolve(true);
    },
    states: {
      revokeAll: (keys: readonly TokenKey[], tombstone?: Tombstone) => {
        asked.push(`${tombstone ?? 'revoked'} ${keys.map(({ tokenId }) => tokenId).join()}`);
        return Promise.resolve();
      },
    },
  });
  const fail = (error: Error | null) => {
    failure = error;
  };
  return { endForReuse, asked, fail };
}

test('a theft that the record cannot take yet stays queued, and is not forgotten', async (t) => {
  const { endForReuse, asked, fail } = aWorld();
  await endForReuse.end({ userId: 7, tokenId: 11 });
  await endForReuse.end({ userId: 7, tokenId: 12 });
  t.equal(endForReuse.size(), 2);
  asked.length = 0;

  await endForReuse.retry();
  t.strictSame(asked, ['reused 11,12', 'record 7/11 session: reuse', 'record 7/12 session: reuse']);
  t.equal(endForReuse.size(), 2, 'still away');

  fail(null);
  await endForReuse.retry();
  t.equal(endForReuse.size(), 0);
  asked.length = 0;
  await endForReuse.retry();
  t.strictSame(asked, [], 'nothing is left to do');
});

test('what others come upon is queued once, and ended by the next retry', async (t) => {
  const { endForReuse, asked, fail } = aWorld();
  fail(null);
  t.equal(endForReuse.queue({ userId: 7, tokenId: 11 }), true);
  t.equal(endForReuse.queue({ userId: 7, tokenId: 11 }), false, 'queued already');
  t.strictSame(asked, [], 'nobody waits for it');
  await endForReuse.retry();
  t.strictSame(asked, ['reused 11', 'record 7/11 session: reuse']);
  t.equal(endForReuse.size(), 0);
  t.equal(endForReuse.queue({ userId: 7, tokenId: 11 }), true, 'and again, should it come again');
});

test('a fault of ours is said, and the session stays queued', async (t) => {
  const { endForReuse, fail } = aWorld();
  for (const error of [new TypeError('a fault'), new AuthError('invalid_token')]) {
    fail(error);
    await t.rejects(endForReuse.end({ userId: 7, tokenId: 11 }), error);
    t.equal(endForReuse.size(), 1);
  }
});
