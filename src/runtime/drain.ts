/** Whether this replica is draining: it is not ready, and its responses close their connections. */
export interface Drain {
  isDraining: () => boolean;
  begin: () => void;
}

export function makeDrain(): Drain {
  let draining = false;
  return {
    isDraining: () => draining,
    begin: () => {
      draining = true;
    },
  };
}
