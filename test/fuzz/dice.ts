import { makeRandom } from '../support/random.ts';

/** Random choices from a seed. @param run what the dice of one run share: how many items were dealt. */
export function makeDice(seed: number, run: { dealt: number }) {
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
    /** The items one after the other, so that a few hundred requests of a run get each of them. */
    deal: <Item>(items: readonly Item[]): Item => items[run.dealt++ % items.length] as Item,
    /** Letters and digits. */
    word: (length: number) => Array.from({ length }, () => below(36).toString(36)).join(''),
  };
}

export type Dice = ReturnType<typeof makeDice>;
