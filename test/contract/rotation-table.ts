import type {
  Presentation,
  RotationOutcome,
  RotationRow,
  SessionState,
} from '../../src/domain/tokens/session-state.ts';

type Outcome = RotationRow | 'repeated' | 'held' | 'reused' | 'clock' | 'stale';
/** Of the client that has the latest pair, and of any other. */
type Outcomes = Outcome | [same: Outcome, other: Outcome];

interface Row {
  title: string;
  /** When each was issued, in microseconds before now. */
  state: { latest: number; parent?: number; first?: number; confirmed?: boolean };
  presented: number[];
  elapsed?: number;
  outcome: Outcomes;
  /** With a window of 10 s, if it differs. */
  open?: Outcomes;
}

const SECOND = 1_000_000;
const WINDOW = 10 * SECOND;

/** The table of docs/rotation.md. Each time is some seconds from a limit, because a store has a clock of its own. */
const ROWS: Row[] = [
  {
    title: 'a token newer than the state: state was lost',
    state: { latest: 20 * SECOND, confirmed: true },
    presented: [10 * SECOND, 20 * SECOND - 1],
    outcome: 'ahead',
  },
  {
    title: 'the newest token',
    state: { latest: 20 * SECOND, first: 30 * SECOND, confirmed: true },
    presented: [20 * SECOND],
    outcome: 'current',
  },
  {
    title: 'the newest token, a moment after its issue',
    state: { latest: 2 * SECOND },
    presented: [2 * SECOND],
    outcome: 'current',
  },
  {
    title: 'a retry inside the window, the answer unused',
    state: { latest: 2 * SECOND },
    presented: [60 * SECOND],
    outcome: 'unconfirmed',
    open: ['repeated', 'held'],
  },
  {
    title: 'a retry inside the window, the answer in use',
    state: { latest: 2 * SECOND, confirmed: true },
    presented: [60 * SECOND],
    outcome: 'reused',
    open: ['repeated', 'held'],
  },
  {
    title: 'a request that overlaps the refresh',
    state: { latest: 2 * SECOND, confirmed: true },
    presented: [60 * SECOND],
    elapsed: 4 * SECOND,
    outcome: ['repeated', 'held'],
  },
  {
    title: 'an older token that overlaps the refresh',
    state: { latest: 2 * SECOND, confirmed: true },
    presented: [60 * SECOND + 1],
    elapsed: 4 * SECOND,
    outcome: 'held',
  },
  {
    title: 'a late duplicate of an older refresh, or a token of a lost pair',
    state: { latest: 2 * SECOND, first: 5 * SECOND },
    presented: [90 * SECOND, 60 * SECOND + 1, 5 * SECOND, 2 * SECOND + 1],
    outcome: 'reused',
    open: 'held',
  },
  {
    title: 'a token issued in a state that was lost',
    state: { latest: 20 * SECOND, first: 30 * SECOND, confirmed: true },
    presented: [60 * SECOND - 1, 30 * SECOND + 1],
    outcome: 'gap',
  },
  {
    title: 'a token issued in a state that was lost, inside the window',
    state: { latest: 2 * SECOND },
    presented: [40 * SECOND],
    outcome: 'gap',
    open: 'held',
  },
  {
    title: 'a retry after the window, the answer unused',
    state: { latest: 20 * SECOND, first: 30 * SECOND },
    presented: [60 * SECOND],
    outcome: 'unconfirmed',
  },
  {
    title: 'a retry after the window, the answer in use',
    state: { latest: 20 * SECOND, confirmed: true },
    presented: [60 * SECOND],
    outcome: 'reused',
  },
  {
    title: 'every other superseded token is theft',
    state: { latest: 20 * SECOND, first: 30 * SECOND },
    presented: [90 * SECOND, 60 * SECOND + 1, 30 * SECOND, 20 * SECOND + 1],
    outcome: 'reused',
  },
  {
    title: 'the newest token while the state is ahead of the clock',
    state: { latest: -30 * SECOND },
    presented: [-30 * SECOND],
    outcome: 'current',
  },
  {
    title: 'a retry while the state is ahead of the clock: nothing is recent',
    state: { latest: -30 * SECOND },
    presented: [60 * SECOND],
    outcome: 'unconfirmed',
  },
  {
    title: 'a retry after the clock was set back by less than the window',
    state: { latest: -8 * SECOND, confirmed: true },
    presented: [60 * SECOND],
    outcome: 'reused',
    open: ['repeated', 'held'],
  },
  {
    title: 'any token that would be exchanged, while the state is a minute ahead of the clock',
    state: { latest: -70 * SECOND },
    presented: [-71 * SECOND, -70 * SECOND, 0, 60 * SECOND],
    outcome: 'clock',
  },
  {
    title: 'theft, even while the clock is wrong',
    state: { latest: -70 * SECOND, confirmed: true },
    presented: [60 * SECOND],
    outcome: 'reused',
  },
  {
    title: 'a request that has been inside for more than 5 s',
    state: { latest: 20 * SECOND, confirmed: true },
    presented: [10 * SECOND, 20 * SECOND, 40 * SECOND, 60 * SECOND],
    elapsed: 5 * SECOND + 1,
    outcome: 'stale',
  },
];

/** Whose the latest pair is, and who presents. A client without a known address is never the same client. */
const CLIENTS = [
  ['home', 'home'],
  ['home', 'elsewhere'],
  ['home', ''],
  ['', ''],
] as const;

/** Every row, with the window and without, from each client. */
export const CASES = ROWS.flatMap((row) =>
  row.presented.flatMap((presented) =>
    [0, WINDOW].flatMap((window) =>
      CLIENTS.map(([owner, caller]) => {
        const outcomes = [(window > 0 ? row.open : undefined) ?? row.outcome].flat();
        const [same, other = same] = outcomes as [Outcome, Outcome?];
        const outcome = caller === 'home' ? same : other;
        return {
          title: `${row.title}, presented ${presented} µs ago by "${caller}", window ${window}: ${outcome}`,
          outcome,
          /** The state, and who presents, at a time of the store's clock in microseconds. */
          at: (now: number): { state: SessionState; presented: Presentation } => {
            const { latest, parent = 60 * SECOND, first = latest, confirmed = false } = row.state;
            return {
              state: {
                latest: now - latest,
                parent: now - parent,
                first: now - first,
                confirmed,
                caller: owner,
              },
              presented: { generation: now - presented, now, elapsed: row.elapsed ?? 0, window, caller },
            };
          },
        };
      }),
    ),
  ),
);

/** What the table says of an outcome. */
export function answerOf(outcome: Outcome, state: SessionState, presented: Presentation): RotationOutcome {
  const { generation, now, window, caller } = presented;
  switch (outcome) {
    case 'reused':
      return { outcome };
    case 'repeated':
      return { outcome, state };
    case 'held':
      return { outcome, retryAfter: Math.max(0, state.latest + window - now) };
    case 'clock':
    case 'stale':
      return { outcome: 'refused', reason: outcome };
    default: {
      const latest = Math.max(state.latest + 1, generation + 1, now);
      const first = outcome === 'gap' || outcome === 'unconfirmed' ? state.first : latest;
      return {
        outcome: 'issued',
        row: outcome,
        state: { latest, parent: generation, first, confirmed: false, caller },
      };
    }
  }
}
