import type { Move } from './properties.ts';
import { presentAccess, presentRefresh } from './present.ts';
import type { Rule } from './rule.ts';
import { takeTurn, type Situation, type Thief, type Token } from './situation.ts';
import type { World } from './world.ts';

/**
 * A thief steals one token of any pair at any moment, and then uses it and the received pairs at will. It keeps the
 * stolen token and one received pair, the older or the newer.
 */
export function thiefsMoves(s: Situation, world: World, rule: Rule): Move[] {
  const { thief } = s;
  if (!thief.hasStolen) return thefts(s);

  const found: Move[] = [];
  if (thief.inside) found.push(...taken(s, world, rule, thief.inside));
  for (const { generation, kind } of thief.tokens) {
    if (kind !== 'refresh') found.push(presentAccess(s, rule, generation, 'the thief uses an access token'));
    if (kind === 'access' || thief.inside) continue;
    const arrived = s.now + 1;
    if (!world.waits) {
      found.push(...taken(s, world, rule, { generation, arrived }));
      continue;
    }
    found.push({
      what: "the thief's refresh arrives",
      before: s,
      after: { ...s, now: arrived, thief: { ...thief, inside: { generation, arrived } } },
    });
  }
  return found;
}

function thefts(s: Situation): Move[] {
  const known = new Set([s.held, ...s.messages.map(({ generation }) => generation)]);
  for (const state of [s.session, s.record]) {
    if (state) for (const time of [state.latest, state.first, state.parent]) known.add(time);
  }
  known.delete(0);
  return [...known].flatMap((generation) =>
    (['refresh', 'access'] as const).map((kind) => {
      const thief = { ...s.thief, hasStolen: true, tokens: [{ generation, kind }] };
      return { what: `A THIEF STEALS an ${kind} token`, before: s, after: { ...s, thief } };
    }),
  );
}

function taken(s: Situation, world: World, rule: Rule, inside: NonNullable<Thief['inside']>): Move[] {
  const { after, refresh, answer } = presentRefresh(s, world, rule, {
    ...inside,
    caller: world.thief ?? '',
    by: 'thief',
  });
  const thief: Thief = { ...s.thief, inside: null };
  const done = (changed: Thief): Move => ({
    what: "the thief's refresh",
    before: s,
    refresh,
    after: { ...after, thief: changed },
  });
  if (answer.outcome !== 'issued' && answer.outcome !== 'repeated') return [done(thief)];
  const token: Token = { generation: answer.state.latest, kind: 'received pair' };
  if (thief.tokens.some(({ generation, kind }) => kind === token.kind && generation === token.generation))
    return [done(thief)];
  const served = takeTurn(thief, 'T');
  const [stolen, ...received] = served.tokens;
  const kept = (tokens: Token[]) => done({ ...served, tokens: stolen ? [stolen, ...tokens] : tokens });
  return received.length === 0 ? [kept([token])] : [kept([token]), kept(received)];
}
