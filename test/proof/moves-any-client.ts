import type { Move } from './properties.ts';
import { presentAccess, presentRefresh } from './present.ts';
import type { Rule } from './rule.ts';
import type { Situation, Watched } from './situation.ts';
import type { World } from './world.ts';

/** Any client presents any token at any moment, one after another. One pair, any, is watched from its issue on. */
export function anyClientsMoves(s: Situation, world: World, rule: Rule): Move[] {
  const found: Move[] = [];
  for (const generation of generationsOf(s)) {
    found.push(presentAccess(s, rule, generation, 'an access token'));
    const move = found.at(-1);
    if (move?.access?.answer.outcome === 'good' && s.watched?.generation === generation)
      move.after = { ...move.after, watched: { ...s.watched, used: true } };
    for (const caller of world.clients) found.push(...presented(s, world, rule, generation, caller));
  }
  return found;
}

function presented(s: Situation, world: World, rule: Rule, generation: number, caller: string): Move[] {
  const arrived = s.now + 1;
  const { after, refresh, answer } = presentRefresh(s, world, rule, {
    generation,
    caller,
    arrived,
    by: 'any client',
  });
  const move = (watched: Watched | null): Move => ({
    what: `a refresh token from ${caller}`,
    before: s,
    refresh,
    after: { ...after, watched },
  });
  if (answer.outcome !== 'issued') return [move(s.watched)];
  const issued = { generation: answer.state.latest, token: generation, used: false, lost: false };
  const watched = s.watched && seen(s.watched, generation);
  const kept = move(watched);
  kept.after = { ...kept.after, held: answer.state.latest };
  return s.record ? [move(watched), move(issued), kept] : [move(watched), move(issued)];
}

/** The effect of a new pair on the watched one. */
function seen(watched: Watched, presented: number): Watched {
  if (presented === watched.generation) return { ...watched, used: true };
  return { ...watched, lost: watched.lost || (presented === watched.token && !watched.used) };
}

/** The generations that can be presented. `held` is one that a client kept after the stores forgot it. */
function generationsOf({ session, record, watched, held }: Situation): Set<number> {
  const known = new Set([held]);
  for (const state of [session, record])
    if (state) for (const time of [state.latest, state.parent, state.first]) known.add(time);
  if (watched) known.add(watched.generation).add(watched.token);
  known.delete(0);
  return known;
}
