import { makeRandom } from '../support/random.ts';

/** Random choices from a seed. */
export function makeDice(seed: number) {
  const { chance, between } = makeRandom(seed);
  const below = (limit: number) => Math.floor(between(0, limit));
  const pick = <Item>(items: readonly Item[]): Item => {
    const item = items[below(items.length)];
    if (item === undefined) throw new Error('nothing to pick from');
    return item;
  };
  return {
    chance,
    below,
    pick,
    /** Letters and digits. */
    word: (length: number) => Array.from({ length }, () => below(36).toString(36)).join(''),
  };
}

export type Dice = ReturnType<typeof makeDice>;
