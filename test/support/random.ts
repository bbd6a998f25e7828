/** mulberry32: the same numbers everywhere for the same seed. */
export function makeRandom(seed: number) {
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    chance: (probability: number) => next() < probability,
    between: (low: number, high: number) => low + next() * (high - low),
    /** Log-uniform: as many values below the geometric mean of the bounds as above. */
    spread: (low: number, high: number) => low * (high / low) ** next(),
  };
}

export type Random = ReturnType<typeof makeRandom>;
