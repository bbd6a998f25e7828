/** rotation.md's table, as seen by a client. */
export type Outcome = 'next pair' | 'same pair' | 'overlap' | 'theft' | 'wrong clock';
export type Row = {
  title: string;
  /** Times in seconds before now. */
  state: { latest: number; parent?: number; first?: number; confirmed?: boolean };
  presented: number;
  /** The outcomes with window 0, and with 10 seconds for the same client and for another. */
  closed: Outcome;
  open: [same: Outcome, other: Outcome];
};

export const ROWS: Row[] = [
  {
    title: 'a token newer than the state: state was lost',
    state: { latest: 100, parent: 200 },
    presented: 50,
    closed: 'next pair',
    open: ['next pair', 'next pair'],
  },
  {
    title: 'the newest token',
    state: { latest: 20, parent: 60 },
    presented: 20,
    closed: 'next pair',
    open: ['next pair', 'next pair'],
  },
  {
    title: 'the newest token, a moment after its issue',
    state: { latest: 2, parent: 60 },
    presented: 2,
    closed: 'next pair',
    open: ['next pair', 'next pair'],
  },
  {
    title: 'a retry inside the window, the answer unused',
    state: { latest: 2, parent: 60 },
    presented: 60,
    closed: 'next pair',
    open: ['same pair', 'overlap'],
  },
  {
    title: 'a retry inside the window, the answer in use',
    state: { latest: 2, parent: 60, confirmed: true },
    presented: 60,
    closed: 'theft',
    open: ['same pair', 'overlap'],
  },
  {
    title: 'a late duplicate of an older refresh',
    state: { latest: 2, parent: 60 },
    presented: 90,
    closed: 'theft',
    open: ['overlap', 'overlap'],
  },
  {
    title: 'a token issued in a state that was lost',
    state: { latest: 20, parent: 60 },
    presented: 40,
    closed: 'next pair',
    open: ['next pair', 'next pair'],
  },
  {
    title: 'a token issued in a state that was lost, inside the window',
    state: { latest: 2, parent: 60 },
    presented: 40,
    closed: 'next pair',
    open: ['overlap', 'overlap'],
  },
  {
    title: 'a retry after the window, the answer unused',
    state: { latest: 20, parent: 60 },
    presented: 60,
    closed: 'next pair',
    open: ['next pair', 'next pair'],
  },
  {
    title: 'a retry after the window, the answer in use',
    state: { latest: 20, parent: 60, confirmed: true },
    presented: 60,
    closed: 'theft',
    open: ['theft', 'theft'],
  },
  {
    title: 'an older token after the window',
    state: { latest: 20, parent: 60 },
    presented: 90,
    closed: 'theft',
    open: ['theft', 'theft'],
  },
  {
    title: 'a token of the pair that got lost',
    state: { latest: 20, first: 30, parent: 60 },
    presented: 30,
    closed: 'theft',
    open: ['theft', 'theft'],
  },
  {
    title: 'a retry while the state is ahead of the clock: nothing is recent',
    state: { latest: -30, parent: 60 },
    presented: 60,
    closed: 'next pair',
    open: ['next pair', 'next pair'],
  },
  {
    title: 'a retry after the clock was set back by less than the window',
    state: { latest: -8, parent: 60, confirmed: true },
    presented: 60,
    closed: 'theft',
    open: ['same pair', 'overlap'],
  },
  {
    title: 'any token while the state is a minute ahead of the clock',
    state: { latest: -120, parent: 60 },
    presented: -120,
    closed: 'wrong clock',
    open: ['wrong clock', 'wrong clock'],
  },
];
