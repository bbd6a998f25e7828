import { test, type Test } from 'tap';
import {
  checkAccess,
  initialState,
  MAX_ELAPSED,
  MAX_LEAD,
  MAX_LEAD_FOR_RECENT,
  rotate,
} from '../../../src/domain/sessions/rotation.ts';
import type {
  Presentation,
  RotationOutcome,
  SessionState,
} from '../../../src/domain/tokens/session-state.ts';
import { answerOf, CASES } from '../../contract/rotation-table.ts';

const WINDOW = 10_000_000;
/** A day in November 2026, in microseconds: 16 digits, as in production. */
const T = 1_795_000_000_123_457;
const HOUR = 3_600_000_000;

/** A session that `home` refreshed at T; its login was an hour before. */
function aState(overrides: Partial<SessionState> = {}): SessionState {
  return { latest: T, parent: T - HOUR, first: T, confirmed: false, caller: 'home', ...overrides };
}

/** The same client presents the latest refresh token an hour later, with the default window. */
function presenting(overrides: Partial<Presentation> = {}): Presentation {
  return { generation: T, now: T + HOUR, elapsed: 0, window: WINDOW, caller: 'home', ...overrides };
}

const held = (retryAfter: number) => ({ outcome: 'held', retryAfter });

/** Runs one presentation and checks that the given state is not mutated, which would spoil every comparison. */
function answer(t: Test, state: SessionState, presented: Presentation): RotationOutcome {
  const before = structuredClone(state);
  const outcome = rotate(state, presented);
  t.strictSame(state, before, 'the given state is not mutated');
  return outcome;
}

test('a new session starts at its first generation, without a parent', (t) => {
  t.strictSame(initialState(T, 'home'), { latest: T, parent: 0, first: T, confirmed: false, caller: 'home' });
  t.end();
});

test('every row of the table has its outcome', (t) => {
  for (const { title, outcome, at } of CASES) {
    const { state, presented } = at(T);
    t.strictSame(answer(t, state, presented), answerOf(outcome, state, presented), title);
  }
  t.end();
});

// The limits, to the microsecond.
for (const window of [0, WINDOW]) {
  test(`a request that has been inside for more than 5 s changes nothing (window ${window})`, (t) => {
    t.match(answer(t, aState(), presenting({ window, elapsed: MAX_ELAPSED + 1 })), { reason: 'stale' });
    t.match(answer(t, aState(), presenting({ window, elapsed: MAX_ELAPSED })), { outcome: 'issued' });
    t.equal(MAX_ELAPSED, 5_000_000);
    t.end();
  });

  test(`no pair is issued while the state is more than 60 s ahead of the clock (window ${window})`, (t) => {
    const refused = { outcome: 'refused', reason: 'clock' };
    const state = aState({ parent: T - 1_000, first: T - 10 });
    for (const generation of [T, T - 500, T - 1_000]) {
      t.strictSame(answer(t, state, presenting({ window, generation, now: T - MAX_LEAD - 1 })), refused);
      const atTheEdge = answer(t, state, presenting({ window, generation, now: T - MAX_LEAD }));
      t.match(atTheEdge, { outcome: 'issued', state: { latest: T + 1 } });
    }
    const ahead = presenting({ window, generation: T + 5, now: T + 5 - MAX_LEAD - 1 });
    t.strictSame(answer(t, state, ahead), refused, 'the newer of the two counts');
    t.match(answer(t, state, { ...ahead, now: ahead.now + 1 }), { row: 'ahead', state: { latest: T + 6 } });
    t.equal(MAX_LEAD, 60_000_000);
    t.end();
  });

  test(`while the clock is behind, a new generation is the next number (window ${window})`, (t) => {
    for (const now of [T - MAX_LEAD, T - 1, T, T + 1]) {
      t.match(answer(t, aState(), presenting({ window, now })), { state: { latest: T + 1, first: T + 1 } });
    }
    t.match(answer(t, aState(), presenting({ window, now: T + 2 })), { state: { latest: T + 2 } });
    t.end();
  });

  test(`a request that was inside before the latest pair was issued is recent (window ${window})`, (t) => {
    const state = aState({ confirmed: true });
    const parents = presenting({ window: 0, generation: state.parent, now: T + 2_000, elapsed: 2_000 });
    t.strictSame(answer(t, state, parents), { outcome: 'repeated', state });
    t.strictSame(answer(t, state, { ...parents, elapsed: 1_999 }), { outcome: 'reused' });
    const older = { ...parents, generation: state.parent - 1, window };
    t.strictSame(answer(t, state, older), held(Math.max(0, window - 2_000)));
    t.strictSame(answer(t, state, { ...older, now: T + MAX_ELAPSED, elapsed: MAX_ELAPSED }), {
      ...held(Math.max(0, window - MAX_ELAPSED)),
    });
    t.end();
  });

  test(`no request is recent while the state is ahead of the clock by more than 1 s and the window (window ${window})`, (t) => {
    const state = aState({ confirmed: true });
    const lead = Math.max(MAX_LEAD_FOR_RECENT, window);
    const edge = presenting({ window, generation: state.parent, now: T - lead });
    t.strictSame(answer(t, state, edge), { outcome: 'repeated', state });
    t.strictSame(answer(t, state, { ...edge, caller: 'elsewhere' }), held(window + lead));
    t.strictSame(answer(t, state, { ...edge, now: edge.now - 1 }), { outcome: 'reused' });
    t.match(answer(t, aState(), { ...edge, now: edge.now - 1 }), { row: 'unconfirmed' });
    t.equal(MAX_LEAD_FOR_RECENT, 1_000_000);
    t.end();
  });
}

test('within the window the parent gets the same pair again, for the same client only', (t) => {
  const state = aState({ confirmed: true });
  const retry = presenting({ generation: state.parent });
  for (const [age, outcome] of [
    [1, 'repeated'],
    [WINDOW, 'repeated'],
    [WINDOW + 1, 'reused'],
  ] as const) {
    t.match(answer(t, state, { ...retry, now: T + age }), { outcome }, `${age} µs after`);
  }
  for (const caller of ['elsewhere', '']) {
    t.strictSame(answer(t, state, { ...retry, now: T + WINDOW, caller }), held(0), `from "${caller}"`);
    t.strictSame(answer(t, state, { ...retry, now: T + 1, caller }), held(WINDOW - 1), `from "${caller}"`);
  }
  t.end();
});

test('with the window off only an overlapping request is recent', (t) => {
  const retry = (now: number) => presenting({ window: 0, generation: T - HOUR, now });
  t.match(
    answer(t, aState({ confirmed: true }), retry(T)),
    { outcome: 'repeated' },
    'at the very microsecond',
  );
  t.strictSame(answer(t, aState({ confirmed: true }), retry(T + 1)), { outcome: 'reused' });
  t.match(answer(t, aState(), retry(T + 1)), { row: 'unconfirmed', state: { latest: T + 1 } });
  t.end();
});

test('with the window off, after sequential refreshes only the last pair is good', (t) => {
  let state = aState();
  const lost: number[] = [];
  for (let i = 1; i <= 4; i++) {
    const again = rotate(state, presenting({ window: 0, generation: T - HOUR, now: T + i * 1_000 }));
    if (again.outcome !== 'issued') throw new Error(`refresh ${i} was ${again.outcome}`);
    lost.push(state.latest);
    state = again.state;
  }
  for (const generation of lost) {
    t.strictSame(checkAccess(state, generation), { outcome: 'superseded' });
    t.strictSame(rotate(state, presenting({ window: 0, generation })), { outcome: 'reused' });
  }
  t.match(checkAccess(state, state.latest), { outcome: 'good' });
  t.end();
});

test('an access token is good only if nothing newer was issued', (t) => {
  const state = aState();
  t.strictSame(checkAccess(state, T - 1), { outcome: 'superseded' });
  t.strictSame(
    checkAccess(state, T),
    { outcome: 'good', state: { ...state, confirmed: true } },
    'and confirms',
  );
  t.strictSame(checkAccess({ ...state, confirmed: true }, T), {
    outcome: 'good',
    state: { ...state, confirmed: true },
  });
  t.strictSame(
    checkAccess(state, T + 1),
    { outcome: 'good', state },
    'newer than the state: the state stays',
  );
  t.strictSame(state, aState(), 'the given state is not mutated');
  t.end();
});
