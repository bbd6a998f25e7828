import type { TokenKey } from '../../../src/domain/principal.ts';
import { NO_REQUEST, type Sourced } from '../../../src/domain/audit/source.ts';
import { test } from 'tap';
import type { AuditEvent } from '../../../src/domain/audit/event.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import { makeEndForReuse } from '../../../src/domain/sessions/end-for-reuse.ts';
import type { Tombstone } from '../../../src/domain/tokens/token-state-store.ts';
import type { StolenLongLived } from '../../../src/domain/tokens/ports.ts';
import { someQueues } from '../../support/bounded-queues.ts';
import { aClock } from '../../support/clock.ts';
import { deferred } from '../../support/deferred.ts';

/** A record that is down until the test restores it, and all calls to it and to the fast store. */
function aWorld(pool = 16) {
  const asked: string[] = [];
  const events: AuditEvent[] = [];
  const sources: Sourced[] = [];
  let answer: () => Promise<StolenLongLived | null> = () => Promise.reject(new AuthError('unavailable'));
  const note = (text: string) => {
    asked.push(text);
    return Promise.resolve();
  };
  let isFastAway = false;
  const tell = (text: string) => (isFastAway ? Promise.reject(new AuthError('unavailable')) : note(text));
  const queues = someQueues();
  const endForReuse = makeEndForReuse({
    ...queues,
    pool,
    tokens: {
      revokeForReuse: (userId, tokenId, _at, since) => {
        asked.push(`record ${userId}/${tokenId} since ${since ?? 'unknown'}`);
        return answer();
      },
    },
    tokenStates: {
      revoke: (...keys) => tell(`revoked ${keys.map(({ tokenId }) => tokenId).join()}`),
      revokeAll: (keys: readonly TokenKey[], tombstone?: Tombstone) =>
        tell(`${tombstone ?? 'revoked'} ${keys.map(({ tokenId }) => tokenId).join()}`),
    },
    revocations: { settle: (ids) => note(`settled ${ids.join()}`) },
    clock: aClock(),
    audit: (event, from) => {
      events.push(event);
      sources.push(from);
    },
  });
  const answers = (next: () => Promise<StolenLongLived | null>) => {
    answer = next;
  };
  const fail = (error: Error) => {
    answers(() => Promise.reject(error));
  };
  const succeed = (stolen: StolenLongLived | null = { ended: [], pending: [] }) => {
    answers(() => Promise.resolve(stolen));
  };
  const cutOff = () => {
    isFastAway = true;
  };
  return { endForReuse, asked, events, sources, answers, fail, succeed, cutOff, queues };
}

const key = { userId: 7, tokenId: 11 };

test('a theft stays queued if the lane of its account has no room', async (t) => {
  const { endForReuse, fail, succeed } = aWorld();
  fail(new AuthError('rate_limited', { reason: 'lane' }));
  await endForReuse.end(key, 5, NO_REQUEST);
  t.equal(endForReuse.size(), 1);
  succeed();
  await endForReuse.retry();
  t.equal(endForReuse.size(), 0);
});

test('a theft that the record cannot store yet stays queued', async (t) => {
  const { endForReuse, asked, succeed } = aWorld();
  await endForReuse.end(key, 5, NO_REQUEST);
  await endForReuse.end({ userId: 7, tokenId: 12 }, undefined, NO_REQUEST);
  t.equal(endForReuse.size(), 2);
  asked.length = 0;

  await endForReuse.retry();
  t.strictSame(asked, ['reused 11,12', 'record 7/11 since 5', 'record 7/12 since unknown']);
  t.equal(endForReuse.size(), 2, 'still away');

  succeed();
  await endForReuse.retry();
  t.equal(endForReuse.size(), 0);
  asked.length = 0;
  await endForReuse.retry();
  t.strictSame(asked, [], 'nothing is left to do');
});

test('a theft goes on record while the fast store is away, and then the sweep ends the session', async (t) => {
  const { endForReuse, asked, succeed, cutOff } = aWorld();
  endForReuse.queue(key, NO_REQUEST);
  cutOff();
  succeed();
  await t.rejects(endForReuse.retry(), { code: 'unavailable' });
  t.strictSame(asked, ['record 7/11 since unknown']);
  t.equal(endForReuse.size(), 0, 'a shutdown loses nothing');
});

test('a queued theft keeps the source of the request that found it', async (t) => {
  const { endForReuse, sources, succeed } = aWorld();
  const source = { address: '192.0.2.1', userAgent: 'thief', requestId: 'r-1', serviceId: null };
  await endForReuse.end(key, 5, { source });
  succeed({ ended: [14], pending: [] });
  await endForReuse.retry();
  t.strictSame(sources, [{ source }]);
});

test('the long-lived tokens of a stolen session get their tombstones with it, then all are settled', async (t) => {
  const { endForReuse, asked, events, succeed } = aWorld();
  succeed({ ended: [14, 15], pending: [13] });
  await endForReuse.end(key, 5, NO_REQUEST);
  t.strictSame(asked.slice(0, 1), ['record 7/11 since 5']);
  t.strictSame(asked.slice(1, -1), ['revoked 14,15,13,11']);
  t.strictSame(asked.slice(-1), ['settled 14,15,13,11']);
  t.strictSame(events, [{ event: 'llt.ended_for_reuse', userId: 7, tokenIds: [14, 15], by: 11 }]);
  succeed({ ended: [], pending: [] });
  await endForReuse.end(key, 5, NO_REQUEST);
  t.equal(events.length, 1, 'told once');
});

test('a session whose record is gone is dropped', async (t) => {
  const { endForReuse, asked, succeed } = aWorld();
  succeed(null);
  await endForReuse.end(key, 5, NO_REQUEST);
  t.strictSame(asked, ['record 7/11 since 5']);
  t.equal(endForReuse.size(), 0);
});

test('if several tokens come back, the queue remembers the oldest', async (t) => {
  const { endForReuse, asked, succeed } = aWorld();
  for (const since of [8, 5, 9, undefined]) await endForReuse.end(key, since, NO_REQUEST);
  t.equal(endForReuse.queue(key, NO_REQUEST), false);
  asked.length = 0;
  succeed();
  await endForReuse.retry();
  t.strictSame(asked.slice(0, 2), ['reused 11', 'record 7/11 since 5']);
});

test('an unknown generation stays unknown until it is written', async (t) => {
  const { endForReuse, asked, succeed } = aWorld();
  endForReuse.queue(key, NO_REQUEST);
  succeed();
  await endForReuse.end(key, 5, NO_REQUEST);
  t.equal(asked[0], 'record 7/11 since unknown');
  await endForReuse.end(key, 5, NO_REQUEST);
  t.ok(asked.includes('record 7/11 since 5'), 'the next theft starts a new entry');
});

test('an older token that comes back during the write is not lost', async (t) => {
  const { endForReuse, asked, answers, fail, succeed } = aWorld();
  const written = deferred<StolenLongLived>();
  answers(() => written.promise);
  const ending = endForReuse.end(key, 8, NO_REQUEST);
  fail(new AuthError('unavailable'));
  await endForReuse.end(key, 5, NO_REQUEST);
  written.resolve({ ended: [], pending: [] });
  await ending;
  t.equal(endForReuse.size(), 1, 'the older one is not written yet');
  asked.length = 0;
  succeed();
  await endForReuse.retry();
  t.ok(asked.includes('record 7/11 since 5'));
  t.equal(endForReuse.size(), 0);
});

test('a theft found by another replica is queued once, and ended by the next retry', async (t) => {
  const { endForReuse, asked, succeed } = aWorld();
  succeed();
  t.equal(endForReuse.queue(key, NO_REQUEST), true);
  t.equal(endForReuse.queue(key, NO_REQUEST), false, 'queued already');
  t.strictSame(asked, [], 'the caller does not wait for it');
  await endForReuse.retry();
  t.strictSame(asked, ['reused 11', 'record 7/11 since unknown', 'revoked 11', 'settled 11']);
  t.equal(endForReuse.size(), 0);
  t.equal(endForReuse.queue(key, NO_REQUEST), true, 'queued again if it comes again');
});

test('a bug is logged, and the session stays queued', async (t) => {
  const { endForReuse, fail } = aWorld();
  for (const error of [new TypeError('a fault'), new AuthError('invalid_token', { reason: 'gone' })]) {
    fail(error);
    await t.rejects(endForReuse.end(key, 5, NO_REQUEST), error);
    t.equal(endForReuse.size(), 1);
  }
});

test('a full queue tries a theft once, and takes it when its tombstone is met again', async (t) => {
  const { endForReuse, asked, succeed, queues } = aWorld();
  for (let tokenId = 1; tokenId <= 10_000; tokenId++) endForReuse.queue({ userId: 7, tokenId }, NO_REQUEST);
  const late = { userId: 8, tokenId: 10_001 };
  await endForReuse.end(late, 5, NO_REQUEST);
  t.strictSame(asked, ['record 8/10001 since 5']);
  t.equal(endForReuse.queue(late, NO_REQUEST), false);
  t.strictSame([endForReuse.size(), queues.dropped], [10_000, { thefts: 2 }]);
  succeed();
  await endForReuse.retry();
  t.equal(endForReuse.queue(late, NO_REQUEST), true);
});

test('a retry tries eight at a time, and those that failed come last in the next', async (t) => {
  const { endForReuse, asked, answers, succeed } = aWorld();
  for (let tokenId = 1; tokenId <= 20; tokenId++) endForReuse.queue({ userId: 7, tokenId }, NO_REQUEST);
  const records = () =>
    asked.filter((what) => what.startsWith('record')).map((what) => /\/(\d+)/.exec(what)?.[1]);
  await endForReuse.retry();
  t.strictSame(records(), ['1', '2', '3', '4', '5', '6', '7', '8'], 'no more while the database is away');
  asked.length = 0;
  const written = deferred<StolenLongLived>();
  answers(() => written.promise);
  const retrying = endForReuse.retry();
  await new Promise(setImmediate);
  t.strictSame(records(), ['9', '10', '11', '12', '13', '14', '15', '16']);
  succeed();
  written.resolve({ ended: [], pending: [] });
  await retrying;
  t.strictSame(records().slice(-8), ['1', '2', '3', '4', '5', '6', '7', '8']);
  t.equal(endForReuse.size(), 0);
});

test('retries leave half of a small pool to requests', async (t) => {
  for (const [pool, tried] of [
    [1, 1],
    [5, 2],
    [15, 7],
    [1000, 8],
  ] as const) {
    const { endForReuse, asked } = aWorld(pool);
    for (let tokenId = 1; tokenId <= 20; tokenId++) endForReuse.queue({ userId: 7, tokenId }, NO_REQUEST);
    await endForReuse.retry();
    t.equal(asked.filter((what) => what.startsWith('record')).length, tried, `DATABASE_POOL=${pool}`);
  }
});
