import type { OwnersSession } from './owner.ts';
import type { Random } from '../../test/support/random.ts';
import type { Timeline } from './timeline.ts';

export const THIEVES = [
  'polls',
  'refreshes just behind the owner',
  'has a token one generation old',
] as const;
export type Kind = (typeof THIEVES)[number];

/** A thief with a good network. @param stolen the pair whose refresh token it has. */
export function letLoose(
  { kind, caller, stolen }: { kind: Kind; caller: string; stolen: number },
  owner: OwnersSession,
  timeline: Timeline,
  random: Random,
): { pairs: number } {
  const { session } = owner;
  const haul = { pairs: 0 };
  let held = stolen;

  const refresh = () => {
    const reply = session.refresh({ token: held, now: timeline.now(), elapsed: 0, caller });
    if (reply === 'theft') owner.onTheft();
    else if ('retryAfter' in reply) timeline.after(reply.retryAfter + 0.001, refresh);
    else {
      haul.pairs++;
      held = reply.pair;
      session.access(held);
      watch();
    }
  };
  const watch = () => {
    if (kind === 'polls') timeline.after(random.between(200, 400), refresh);
    else timeline.after(random.between(1, 5), look);
  };
  const look = () => {
    if (session.access(held)) watch();
    else timeline.after(random.between(0.1, 1), refresh);
  };
  if (kind === 'has a token one generation old') refresh();
  else watch();
  return haul;
}
