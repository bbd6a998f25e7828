import { anyClientsMoves } from './moves-any-client.ts';
import { ownersMoves } from './moves-owner.ts';
import { thiefsMoves } from './moves-thief.ts';
import type { Move } from './properties.ts';
import type { Rule } from './rule.ts';
import type { Message, Situation } from './situation.ts';
import { scaleOf, type World } from './world.ts';

/** Everything that can happen next. */
export function moves(situation: Situation, world: World, rule: Rule): Move[] {
  return [
    ...(world.anyClient ? anyClientsMoves(situation, world, rule) : ownersMoves(situation, world, rule)),
    ...(world.thief === null ? [] : thiefsMoves(situation, world, rule)),
    ...surroundings(situation, world),
  ];
}

/** The moves of the network, the clock and the stores. */
function surroundings(s: Situation, world: World): Move[] {
  const { step, oldest } = scaleOf(world);
  const found: Move[] = [];
  const add = (what: string, after: Situation) => found.push({ what, before: s, after });

  const issue = { ...s.issue, age: Math.min(oldest, s.issue.age + 1) };
  const messages = older(s.messages, world);
  const drops = s.drops - (s.messages.length - messages.length);
  if (drops >= 0) add(`${step / 1e6} s pass`, { ...s, now: s.now + step, issue, messages, drops });

  if (world.clockBack > 0 && !isAhead(s)) {
    const back = world.clockBack * step;
    // Elapsed time inside the service does not follow the store's clock.
    const messages = s.messages.map((m) => (m.at === 'inside' ? { ...m, arrived: m.arrived - back } : m));
    const inside = s.thief.inside && { ...s.thief.inside, arrived: s.thief.inside.arrived - back };
    add(`the store's clock jumps ${back / 1e6} s back`, {
      ...s,
      now: s.now - back,
      messages,
      thief: { ...s.thief, inside },
    });
  }

  if (s.record && s.session && s.session.latest >= s.record.latest) {
    add('the record is written', { ...s, record: s.session, watchedInRecord: s.watched });
  }
  if (s.record) {
    add('STATE IS LOST, back to the record', {
      ...s,
      session: s.record,
      watched: s.watchedInRecord,
      messages: s.messages.map((message) => ({ ...message, counts: false })),
      thief: { ...s.thief, turns: '' },
    });
  }
  return found;
}

function older(messages: readonly Message[], { requestDelay, answerDelay }: World): Message[] {
  return messages
    .map((message) => ({ ...message, delay: message.delay + 1 }))
    .filter(({ at, delay }) => delay <= (at === 'answer' ? answerDelay : requestDelay));
}

/** Whether a generation lies in the future: the clock jumps back once, and then catches up. */
function isAhead({ now, session, issue }: Situation): boolean {
  return Math.max(session?.latest ?? 0, issue.generation) > now;
}
