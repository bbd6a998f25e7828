import type { SessionState } from '../../src/domain/tokens/session-state.ts';
import type { Duration, Token } from './history.ts';
import { earlier, type Subjects } from './subjects.ts';

interface InFlight {
  generation: number;
  caller: string;
  /** Microseconds since it was sent. Setting the clock back does not shorten it. */
  waited: number;
}

/** The current point of a history: the state of the pure function, and the clients' tokens. */
export interface World {
  /** null is the tombstone of a theft. */
  state: SessionState | null;
  /** The store's clock as last heard, in microseconds. */
  now: number;
  /** The newest state, so that steps after a tombstone still have tokens to present. */
  last: SessionState;
  issued: number[];
  earlierStates: SessionState[];
  inFlight: InFlight[];
}

export function keep(state: SessionState, world: World): void {
  world.state = state;
  world.last = state;
  world.issued.push(state.latest);
  world.earlierStates.push(state);
}

export async function become(state: SessionState, world: World, subjects: Subjects): Promise<void> {
  world.state = state;
  world.last = state;
  await subjects.replace(state, world.now);
}

/** Makes all tokens and states older by `micros`. A negative number sets the clock back. */
export async function pass(micros: number, world: World, subjects: Subjects): Promise<void> {
  world.issued = world.issued.map((generation) => generation - micros);
  world.earlierStates = world.earlierStates.map((state) => earlier(state, micros));
  world.inFlight = world.inFlight.map(({ generation, caller, waited }) => ({
    generation: generation - micros,
    caller,
    waited: waited + Math.max(0, micros),
  }));
  world.last = earlier(world.last, micros);
  if (world.state) await become(earlier(world.state, micros), world, subjects);
}

export function generationOf(token: Token, { last, issued }: World): number {
  const { latest, parent, first } = last;
  if (typeof token === 'number') return issued[Math.max(0, issued.length - 1 - token)] ?? latest;
  if (token === 'latest') return latest;
  if (token === 'first') return first;
  const inGap = issued.find((generation) => parent < generation && generation < first);
  if (token === 'gap' && inGap !== undefined) return inGap;
  return parent === 0 ? latest : parent;
}

/** How long, or how far it is to a limit. */
export function microsOf(duration: Duration, { last, now }: World, window: number): number {
  if (typeof duration === 'number') return duration;
  const age = now - last.latest;
  const { beyond } = duration;
  switch (duration.to) {
    case 'window':
      return window + beyond - age;
    case 'lead for recent':
      return -(Math.max(1_000_000, window) + beyond) - age;
    case 'lead':
      return -(60_000_000 + beyond) - age;
    case 'issue':
      return age + beyond;
  }
}
