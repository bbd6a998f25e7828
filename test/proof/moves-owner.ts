import type { Move } from './properties.ts';
import { presentAccess, presentRefresh } from './present.ts';
import type { Rule } from './rule.ts';
import { takeTurn, type Message, type Situation } from './situation.ts';
import type { World } from './world.ts';

/**
 * An owner keeps the newer of two pairs and stores a pair before it uses it. It may send at any time, in any number of
 * tabs. A tab that gives up waiting equals a lost answer.
 */
export function ownersMoves(s: Situation, world: World, rule: Rule): Move[] {
  const found: Move[] = [];
  const { messages } = s;
  const add = (what: string, after: Situation) => found.push({ what, before: s, after });

  if (messages.length < world.messages) {
    for (const caller of world.clients) {
      const message: Message = {
        at: 'sent',
        generation: s.held,
        caller,
        arrived: 0,
        delay: 0,
        counts: false,
      };
      add(`the owner sends a refresh${from(caller)}`, { ...s, messages: [...messages, message] });
    }
  }
  found.push(presentAccess(s, rule, s.held, 'the owner uses its access token'));

  for (const [index, message] of messages.entries()) {
    const others = messages.toSpliced(index, 1);
    switch (message.at) {
      case 'sent': {
        const arrived = s.now + 1;
        if (!world.waits) {
          found.push(taken(s, world, rule, { ...message, arrived }, others));
          break;
        }
        const inside: Message = { ...message, at: 'inside', arrived };
        add('a refresh of the owner arrives', { ...s, now: arrived, messages: [...others, inside] });
        if (world.duplicates && messages.length < world.messages)
          add('a refresh of the owner arrives, and will once more', {
            ...s,
            now: arrived,
            messages: [...messages, inside],
          });
        if (s.drops > 0)
          add('a refresh of the owner is lost', { ...s, messages: others, drops: s.drops - 1 });
        break;
      }
      case 'inside':
        found.push(taken(s, world, rule, message, others));
        break;
      case 'answer':
        add('the owner receives a pair', received(s, message, others));
        if (s.drops > 0) add('an answer is lost', { ...s, messages: others, drops: s.drops - 1 });
        break;
    }
  }
  return found;
}

const from = (caller: string) => ` from ${caller === '' ? 'nowhere' : caller}`;

function taken(s: Situation, world: World, rule: Rule, message: Message, others: Message[]): Move {
  const { generation, caller, arrived } = message;
  const { after, refresh, answer } = presentRefresh(s, world, rule, {
    generation,
    caller,
    arrived,
    by: 'owner',
  });
  after.messages = others;
  if (answer.outcome === 'issued' || answer.outcome === 'repeated') {
    const { latest } = answer.state;
    const delay = latest === after.issue.generation ? after.issue.age : 0;
    const counts = s.thief.hasStolen;
    const reply: Message = { at: 'answer', generation: latest, caller: '', arrived: 0, delay, counts };
    if (delay <= world.answerDelay) after.messages = [...others, reply];
  }
  return { what: `the owner's refresh${from(caller)}`, before: s, after, refresh };
}

function received(s: Situation, { generation, counts }: Message, messages: Message[]): Situation {
  if (generation <= s.held) return { ...s, messages };
  const { thief } = s;
  // No turn for the owner: a pair that is not the newest is useless, and the stolen pair is not new.
  const isTurn =
    counts && generation === s.session?.latest && generation > (thief.tokens[0]?.generation ?? 0);
  return { ...s, held: generation, messages, thief: isTurn ? takeTurn(thief, 'O') : thief };
}
