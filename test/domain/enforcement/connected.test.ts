import { test } from 'tap';
import { makeConnected } from '../../../src/domain/enforcement/connected.ts';
import { makeProgress } from '../../../src/domain/enforcement/progress.ts';
import { AuthError } from '../../../src/domain/errors.ts';
import type { ReaderKey } from '../../../src/domain/enforcement/ports.ts';
import type { ServiceIdentity } from '../../../src/domain/services/registered-service.ts';
import { aClock } from '../../support/clock.ts';

const aConnection = (id: string | null) => ({
  id,
  service: { serviceId: 'shop' } as ServiceIdentity,
});

function aWorld() {
  const clock = aClock();
  const state = {
    connected: [] as ReturnType<typeof aConnection>[],
    missing: [] as ReaderKey[],
    isAway: false,
    folds: 0,
    end: { epoch: 'e', seq: 1 },
    noted: [] as string[],
    tallied: [] as number[],
    removals: 0,
  };
  const { pass, tally, readers } = makeConnected({
    store: {
      note(connected) {
        if (state.isAway) return Promise.reject(new AuthError('unavailable'));
        state.noted = connected.map(({ reader, isNew }) => `${reader}${isNew ? ' new' : ''}`);
        return Promise.resolve(state.missing);
      },
      fold: () => {
        state.folds++;
        return Promise.resolve();
      },
      removeSilent: () => {
        state.removals++;
        return Promise.resolve();
      },
      tally: ({ seq }) => {
        state.tallied.push(seq);
        return Promise.resolve({ current: 1, behind: 0, silent: 0, nameless: 0 });
      },
    },
    connected: () => state.connected,
    feed: { end: () => Promise.resolve(state.end) },
    clock,
  });
  const passes = async (count: number) => {
    for (let i = 0; i < count; i++) {
      await pass().catch(() => undefined);
      clock.pass(10_000);
    }
  };
  return { state, passes, tally, readers, clock };
}

test('a row is added for a new connection, and again only if a note misses it', async (t) => {
  const { state, passes } = aWorld();
  state.connected = [aConnection('a'), aConnection(null), aConnection(null)];
  await passes(1);
  t.strictSame(state.noted, ['a new', ' new'], 'those without an id share a row');
  await passes(1);
  t.strictSame(state.noted, ['a', ' new']);
  state.missing = [{ serviceId: 'shop', reader: 'a' }];
  await passes(1);
  state.missing = [];
  await passes(1);
  t.strictSame(state.noted, ['a new', ' new'], 'an operator had forgotten it');
  state.connected.push(aConnection('a'));
  await passes(1);
  t.strictSame(state.noted, ['a new', ' new'], 'another connection of the same process');
});

test('the silent are removed after a minute of notes, and not after an outage', async (t) => {
  const { state, passes } = aWorld();
  await passes(6);
  t.equal(state.removals, 0);
  await passes(2);
  t.equal(state.removals, 2);
  state.isAway = true;
  await passes(1);
  state.isAway = false;
  await passes(6);
  t.equal(state.removals, 2);
  await passes(1);
  t.equal(state.removals, 3);
});

test('readers are counted against the end of the feed 45 s ago', async (t) => {
  const { state, passes, tally, readers } = aWorld();
  for (let seq = 1; seq <= 5; seq++) {
    state.end = { epoch: 'e', seq };
    await passes(1);
    t.equal(tally(), null, 'no end is old enough');
    t.equal(readers(), 1, 'which says nothing of how many there are');
  }
  state.end = { epoch: 'e', seq: 6 };
  await passes(1);
  t.match(tally(), { current: 1 });
  await passes(1);
  t.strictSame(state.tallied, [1, 1, 1, 1, 1, 1, 2]);
  state.isAway = true;
  await passes(1);
  t.equal(state.folds, 8, 'readers are folded although a note fails');
  t.equal(readers(), 1, 'an outage makes nobody confirm more often');
});

test('the time until all have confirmed is measured, only while something is unconfirmed', async (t) => {
  const clock = aClock();
  const observed: number[] = [];
  const asked: string[] = [];
  let least: number | null = 0;
  const { note, measure } = makeProgress({
    store: {
      least: (epoch) => {
        asked.push(epoch);
        return Promise.resolve(least);
      },
    },
    clock,
    observe: { revocationEnforced: (seconds) => observed.push(seconds) },
  });
  note({ epoch: 'e', seq: 5 });
  await measure();
  t.strictSame(asked, [], 'a snapshot has no time of its own');
  note({ epoch: 'e', seq: 6 });
  note({ epoch: 'e', seq: 6 });
  clock.pass(1000);
  note({ epoch: 'e', seq: 9 });
  least = 6;
  await measure();
  t.strictSame(observed, [1]);
  clock.pass(1000);
  least = null;
  await measure();
  t.strictSame(observed, [1], 'a reader is in another epoch');
  least = 9;
  await measure();
  t.strictSame(observed, [1, 1]);
  await measure();
  t.equal(asked.length, 3, 'nothing is unconfirmed');
  note({ epoch: 'e', seq: 10 });
  least = Infinity;
  await measure();
  t.strictSame(observed, [1, 1], 'nobody reads the feed');
  note({ epoch: 'e', seq: 11 });
  note({ epoch: 'f', seq: 3 });
  await measure();
  note({ epoch: 'f', seq: 4 });
  clock.pass(600_001);
  await measure();
  t.equal(asked.length, 4, 'neither of an earlier epoch, nor older than ten minutes');
});
