import { test } from 'tap';
import { makeClockCheck } from '../src/clock.ts';
import { makeLatchkey } from '../src/latchkey.ts';
import type { VerifierError } from '../src/verifier-error.ts';

const NOW = 1_795_000_000_000;
const TOLERANCE = 5;
const at = (ms: number) => new Date(ms).toUTCString();

/** A verifier's requests to a server that answers with these headers. */
function asking() {
  const world = { headers: {} as Record<string, string>, now: NOW, takes: 0, status: 200 };
  const errors: VerifierError[] = [];
  const latchkey = makeLatchkey({
    settings: {
      issuer: 'https://id.example',
      audience: 'latchkey',
      url: 'https://id.example',
      client: { id: 'a', secret: 'b' },
      fetch: () => {
        world.now += world.takes;
        return Promise.resolve(new Response('{}', { status: world.status, headers: world.headers }));
      },
    },
    reader: { id: 'reader-0123456789', about: () => ({}) },
    clock: { now: () => world.now, monotonic: () => 0 },
    onRenew: () => undefined,
    onDate: makeClockCheck(TOLERANCE, (error) => errors.push(error)),
  });
  /** @returns how many reports the answer led to. */
  const ask = async (headers: Record<string, string>, { now = NOW, takes = 0, status = 200 } = {}) => {
    const before = errors.length;
    Object.assign(world, { headers, now, takes, status });
    await latchkey.reportUses([1]).catch(() => undefined);
    return errors.length - before;
  };
  return { ask, errors };
}

test('a clock that differs by more than the tolerance is reported, once until it is right', async (t) => {
  const { ask, errors } = asking();
  const date = at(NOW);
  for (const ahead of [0, 6900, -6900]) t.equal(await ask({ date }, { now: NOW + ahead }), 0, `${ahead}`);
  t.equal(await ask({ date }, { now: NOW + 7100 }), 1);
  t.match(errors, [{ code: 'unavailable', reason: 'clock', message: / 7 s ahead of Latchkey's/ }]);
  t.equal(await ask({ date }, { now: NOW + 9000 }), 0, 'told already');
  t.equal(await ask({ date }, { now: NOW - 60_000 }), 0, 'and wrong all the time');
  t.equal(await ask({ date }), 0, 'right again');
  t.equal(await ask({ date }, { now: NOW - 60_000 }), 1);
  t.match(errors[1], { reason: 'clock', message: / 60 s behind Latchkey's/ });
});

test('an answer that takes long says no more than it can, and that of any status counts', async (t) => {
  const { ask } = asking();
  t.equal(await ask({ date: at(NOW) }, { takes: 60_000 }), 0, 'answered at once, and late to arrive');
  t.equal(await ask({ date: at(NOW + 60_000) }, { takes: 60_000 }), 0, 'answered late');
  t.equal(await ask({ date: at(NOW + 70_000) }, { takes: 60_000 }), 1);
  const other = asking();
  t.equal(await other.ask({ date: at(NOW + 70_000) }, { status: 503 }), 1);
});

test('a date that is missing, malformed or from a cache says nothing', async (t) => {
  const { ask } = asking();
  const old = at(NOW - 3_600_000);
  for (const headers of [
    {},
    { date: '' },
    { date: 'yesterday' },
    { date: '1' },
    { date: '2026' },
    { date: 'Mon, 99 Foo 2026 00:00:00 GMT' },
    { date: old.replace('GMT', '+0200') },
    { date: `${old}, ${old}` },
    { date: old, age: '3600' },
    { date: old, age: '0' },
    { date: old, age: 'x' },
  ])
    t.equal(await ask(headers as Record<string, string>), 0, JSON.stringify(headers));
  t.equal(await ask({ date: old }), 1);
});
