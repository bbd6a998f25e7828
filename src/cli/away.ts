/** A store that does not answer. */
export interface Away {
  isAway: true;
}

export function isAway(fact: object): fact is Away {
  return 'isAway' in fact;
}
