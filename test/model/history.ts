/** A random history is plain data. Any part of it is a history too, so a failing one can be shortened. */
export interface History {
  seed: number;
  /** REFRESH_RETRY_WINDOW in microseconds. */
  window: number;
  steps: Step[];
}

export type Step =
  /** Refresh tokens presented at once: one directly after the other, before any answer. */
  | { do: 'refresh'; requests: RefreshRequest[] }
  /** A refresh is sent. */
  | { do: 'send'; token: Token; caller: string }
  /** It arrives: after waiting inside the service, or late from the network. It may arrive again. */
  | { do: 'deliver'; nth: number; inside: boolean; again: boolean }
  /** Access tokens are presented at once: before any answer. */
  | { do: 'use'; tokens: Token[] }
  /** Time passes. A negative number sets the store's clock back. */
  | { do: 'pass'; micros: Duration }
  /** The state falls back to an earlier one. */
  | { do: 'lose'; nth: number };

/** The token's generation: by its place in the state, or by its distance from the newest ever issued. */
export type Token = 'latest' | 'parent' | 'gap' | 'first' | number;

export interface RefreshRequest {
  token: Token;
  caller: string;
  elapsed: Duration;
}

/** In microseconds, or relative to a limit of the table. */
export type Duration = number | { to: 'window' | 'lead for recent' | 'lead' | 'issue'; beyond: number };

/** mulberry32: small, quick and portable. @returns numbers from 0 to 1. */
function makeRandom(seed: number) {
  let state = seed >>> 0;
  return function random(): number {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const SECOND = 1_000_000;
const STEPS = { fewest: 6, most: 15 };

/** The history of a seed. */
export function aHistory(seed: number): History {
  const random = makeRandom(seed);
  const below = (n: number) => Math.floor(random() * n);
  /** One of the choices, by their weights. */
  const oneOf = <Choice>(...choices: [Choice, ...Choice[]]) => choices[below(choices.length)] ?? choices[0];

  const token = (): Token =>
    oneOf<Token>(
      'latest',
      'latest',
      'latest',
      'parent',
      'parent',
      'gap',
      'gap',
      'first',
      0,
      0,
      1,
      2,
      below(9),
    );
  const caller = () => oneOf('home', 'home', 'home', 'home', 'elsewhere', 'elsewhere', '');
  const beyond = () => oneOf(-1, 0, 1, 2);
  const elapsed = (): Duration =>
    oneOf<Duration>(0, 0, 0, 0, below(20_000), { to: 'issue', beyond: beyond() }, 5 * SECOND + beyond());
  const micros = (): Duration =>
    oneOf<Duration>(
      oneOf(0, 1, below(2_000), below(SECOND), 3 * SECOND, 4 * SECOND),
      oneOf(11 * SECOND, 61 * SECOND, 900 * SECOND),
      { to: 'window', beyond: beyond() },
      { to: 'window', beyond: beyond() },
      oneOf<Duration>(-below(SECOND), -5 * SECOND, -61 * SECOND),
      { to: oneOf('lead for recent', 'lead'), beyond: beyond() },
    );

  const makers: [number, () => Step | Step[]][] = [
    [9, () => ({ do: 'refresh', requests: requests(oneOf(1, 1, 1, 1, 2, 3)) })],
    [3, () => ({ do: 'send', token: token(), caller: caller() })],
    [3, () => ({ do: 'deliver', nth: below(4), inside: random() < 0.5, again: random() < 0.5 })],
    [4, () => ({ do: 'use', tokens: Array.from({ length: oneOf(1, 1, 2, 3) }, token) })],
    [6, () => ({ do: 'pass', micros: micros() })],
    [2, () => ({ do: 'lose', nth: oneOf(0, 0, 1, 2, 3, below(6)) })],
    [1, () => losesWhatWasIssued()],
  ];
  const requests = (count: number) =>
    Array.from({ length: count }, () => ({ token: token(), caller: caller(), elapsed: elapsed() }));
  /** The only steps that lead to a token between parent and first. Random steps rarely find them. */
  const losesWhatWasIssued = (): Step[] => [
    { do: 'lose', nth: 0 },
    { do: 'refresh', requests: [{ token: 'latest', caller: caller(), elapsed: 0 }] },
    { do: 'pass', micros: micros() },
    { do: 'refresh', requests: requests(1) },
    { do: 'pass', micros: micros() },
    { do: 'refresh', requests: [{ token: 'gap', caller: caller(), elapsed: elapsed() }] },
  ];
  const total = makers.reduce((sum, [weight]) => sum + weight, 0);
  const step = (): Step | Step[] => {
    let rest = below(total);
    for (const [weight, make] of makers) {
      if (rest < weight) return make();
      rest -= weight;
    }
    throw new Error('the weights do not add up');
  };

  const count = STEPS.fewest + below(STEPS.most - STEPS.fewest + 1);
  const window = oneOf(0, 10 * SECOND);
  return { seed, window, steps: Array.from({ length: count }, step).flat() };
}
