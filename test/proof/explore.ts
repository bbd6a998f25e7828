import { moves } from './moves.ts';
import type { Move, Property } from './properties.ts';
import type { Rule } from './rule.ts';
import type { Situation } from './situation.ts';
import { normalize } from './time.ts';
import { firstSituation, scaleOf, type World } from './world.ts';

export interface Exploration {
  states: number;
  /** Whether every reachable situation was explored. */
  complete: boolean;
  /** A shortest history that breaks the property, one line per event. */
  counterexamples: Map<Property, string[]>;
}

/**
 * Explores everything that can happen in a world, breadth first. Ends when no situation is new, or when every property
 * is broken.
 * @throws Error if there are more than `maxStates` situations: the exploration then shows nothing.
 */
export function explore(
  world: World,
  rule: Rule,
  properties: readonly Property[],
  maxStates = 4_000_000,
): Exploration {
  const scale = scaleOf(world);
  const start = normalize(firstSituation(world, rule), scale);
  const seen = new Set([start.key]);
  /** For each situation in the order of discovery: its predecessor, and the number of the move from there. */
  const cameFrom: [from: number, move: number][] = [[-1, -1]];
  const counterexamples = new Map<Property, string[]>();
  let frontier = [start.situation()];
  let first = 0;

  while (frontier.length > 0) {
    const next: Situation[] = [];
    for (const [offset, situation] of frontier.entries()) {
      for (const [index, move] of moves(situation, world, rule).entries()) {
        for (const property of properties) {
          if (counterexamples.has(property) || property.holds(move, world, rule)) continue;
          const path = [...pathTo(first + offset, cameFrom), index];
          counterexamples.set(property, retrace(path, world, rule));
        }
        if (counterexamples.size === properties.length)
          return { states: seen.size, complete: false, counterexamples };
        if (move.after.session === null) continue;
        const { key, situation: after } = normalize(move.after, scale);
        if (seen.has(key)) continue;
        seen.add(key);
        cameFrom.push([first + offset, index]);
        next.push(after());
      }
    }
    if (seen.size > maxStates) throw new Error(`more than ${maxStates} states`);
    first += frontier.length;
    frontier = next;
  }
  return { states: seen.size, complete: true, counterexamples };
}

function pathTo(index: number, cameFrom: readonly [number, number][]): number[] {
  const path: number[] = [];
  for (let at = index; ;) {
    const [from, move] = cameFrom[at] ?? [-1, -1];
    if (from < 0) return path.reverse();
    path.push(move);
    at = from;
  }
}

/** The history of a path of moves. */
function retrace(path: readonly number[], world: World, rule: Rule): string[] {
  const scale = scaleOf(world);
  let situation = normalize(firstSituation(world, rule), scale).situation();
  return path.map((index) => {
    const move = moves(situation, world, rule)[index];
    if (!move) throw new Error('a path must be one that was taken');
    situation = normalize(move.after, scale).situation();
    return describe(move);
  });
}

function describe({ what, refresh }: Move): string {
  if (!refresh) return what;
  const { answer } = refresh;
  return `${what}: ${answer.outcome}${'row' in answer ? ` (${answer.row})` : ''}`;
}
