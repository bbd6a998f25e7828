import { test } from 'tap';
import {
  moved,
  newWatch,
  released,
  renewalOf,
  renewed,
  see,
  waitOf,
  type Lease,
  type Watch,
} from '../../../src/domain/tokens/lease.ts';

const START = 1_000_000;
const theirs: Lease = { replica: 'other', moves: 7, server: 'one', full: 5 };
const ours: Lease = { ...theirs, replica: 'self' };

/** A replica that saw each lease at its time, in milliseconds after the start. */
function seen(...looks: [at: number, lease: Lease | null][]): Watch {
  return looks.reduce((watch, [at, lease]) => see(watch, lease, 'self', START + at), newWatch(START));
}

/** A holder whose last renewal began at that time. */
const holding = (renewal: Partial<Watch> = {}): Watch => ({
  ...seen([0, ours]),
  fullAt: START,
  tenure: { since: START - 60_000, until: START, server: 'one' },
  ...renewal,
});

test('a replica waits for 600 ms without a move, by its own clock', (t) => {
  const wait = (watch: Watch, at: number) => waitOf(watch, 'self', START + at);
  t.equal(wait(seen([0, null]), 0), 0, 'nobody holds it');
  t.equal(wait(seen([0, ours]), 0), 0, 'it is ours');
  t.equal(wait(seen([0, released(theirs)]), 0), 0, 'its holder has stopped');
  t.equal(wait(seen([0, theirs]), 0), 600, 'it may have stood there for long, which says nothing');
  t.equal(wait(seen([0, theirs], [599, theirs]), 599), 1);
  t.equal(wait(seen([0, theirs], [600, theirs]), 600), 0);
  t.equal(wait(seen([0, theirs], [500, { ...theirs, moves: 8 }]), 700), 400);
  t.equal(wait(seen([0, theirs], [500, { ...theirs, replica: 'third' }]), 700), 400, 'taken over');
  t.equal(wait(seen([0, theirs], [500, { ...theirs, moves: 3 }]), 700), 400, 'after a failover');
  t.end();
});

test('a move goes on from the lease that was seen', (t) => {
  t.strictSame(moved(null, 'self'), { replica: 'self', moves: 1, server: '', full: 0 });
  t.strictSame(moved(theirs, 'self'), { replica: 'self', moves: 8, server: 'one', full: 5 });
  t.strictSame(released(ours), { ...ours, replica: '', moves: 8 });
  t.strictSame(moved(ours, 'self', 'two'), { replica: 'self', moves: 8, server: 'two', full: 8 });
  t.end();
});

test('the holder renews the last second, or what it has not renewed since', (t) => {
  t.strictSame(renewalOf(holding(), 'one', START + 250), {
    isFull: false,
    since: START - 750,
    startedAt: START + 250,
    server: 'one',
  });
  t.equal(renewalOf(holding(), 'one', START + 5000).since, START - 750, 'after 5 s of failures');
  t.end();
});

test('a full renewal covers the last minute, and more if the one before is long ago', (t) => {
  const since = (watch: Watch, server: string, at: number) => {
    const { isFull, since: from } = renewalOf(watch, server, START + at);
    return isFull ? START + at - from : null;
  };
  t.equal(since(holding(), 'one', 29_999), null);
  t.equal(since(holding(), 'one', 30_000), 60_000, 'every 30 s');
  t.equal(since(holding(), 'one', 100_000), 130_000, 'after an outage');
  t.equal(since(holding(), 'two', 250), 60_000, 'another server answers');
  const elsewhere = { since: START - 60_000, until: START, server: 'two' };
  t.equal(since(holding({ tenure: elsewhere }), 'one', 250), 60_000, 'a proxy led to another and back');
  t.equal(since(holding({ lease: null }), 'one', 250), 60_000, 'the lease is lost');
  t.equal(since(holding({ tenure: null }), 'one', 250), 60_000, 'it does not know what was renewed');
  t.equal(since(seen([400, null]), 'one', 400), 60_400, 'a replica that has just started');
  t.end();
});

test('a replica knows when others have made a full renewal', (t) => {
  const fullAt = (...looks: Parameters<typeof seen>) => seen(...looks).fullAt - START;
  const next = { ...theirs, moves: 9, full: 9 };
  t.equal(fullAt([100, theirs]), -30_000, 'it has not seen any');
  t.equal(fullAt([100, theirs], [350, { ...theirs, moves: 8 }]), -30_000);
  t.equal(fullAt([100, theirs], [350, next]), 100, 'not before it last looked');
  t.equal(fullAt([100, theirs], [350, { ...theirs, full: 3 }]), -30_000, 'a failover lost one');
  t.equal(fullAt([100, theirs], [350, null], [600, next]), -30_000, 'it may be any');
  t.end();
});

test('a renewal is known until it began, unless it left a gap', (t) => {
  const after = (isFull: boolean, delay: number, watch = holding()) =>
    renewed(
      watch,
      { isFull, since: START - 500, startedAt: START + 250, server: 'one' },
      START + 250 + delay,
    );
  const since = START - 60_000;
  t.match(after(false, 375), { fullAt: START, tenure: { since, until: START + 250 } });
  t.match(after(false, 376), { fullAt: START, tenure: null }, 'the next is full');
  t.match(after(true, 2000), { fullAt: START + 250, tenure: { since, until: START + 250 } });
  t.match(after(true, 2000, holding({ tenure: null })), {
    tenure: { since: START + 1500, until: START + 250 },
  });
  t.equal(see(holding(), theirs, 'self', START).tenure, null, 'another replica renews');
  t.equal(see(holding(), null, 'self', START).tenure, null);
  t.match(see(holding(), { ...ours, moves: 8 }, 'self', START).tenure, { until: START });
  t.end();
});
