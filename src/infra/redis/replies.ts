import type { RotationOutcome, RotationRow, SessionState } from '../../domain/tokens/session-state.ts';
import type { Accepted, Known, Superseded, Unusable } from '../../domain/tokens/token-state-store.ts';

// Apart from token-states.ts, because it is read beside the heads of the scripts, which list the same fields.

/** A reply of a script: the outcome, then fields by position as its header lists them. */
type Reply = string[];

/** Decodes rotate.lua. */
export function decodeRotation(
  userId: number,
  reply: Reply,
): Unusable | (RotationOutcome & Known & { now: number }) {
  const unusable = decodeUnusable(reply);
  if (unusable) return unusable;
  const [outcome, now, detail, latest, parent, first, confirmed, caller, createdAt, ...user] = reply;
  const state = decodeState(latest, parent, first, confirmed === '1', caller);
  const known = { ...decodeKnown(userId, createdAt, user), now: Number(now) };
  switch (outcome) {
    case 'issued':
      return { outcome, row: detail as RotationRow, state, ...known };
    case 'repeated':
      return { outcome, state, ...known };
    case 'held':
      return { outcome, retryAfter: Number(detail), ...known };
    case 'refused':
      return { outcome, reason: detail === 'clock' ? 'clock' : 'stale', ...known };
    case 'reused':
      return { outcome, ...known };
    default:
      throw unknownReply('rotate.lua', reply);
  }
}

/** Decodes check.lua for an access token. */
export function decodeAccess(userId: number, reply: Reply): Unusable | Accepted | Superseded {
  const unusable = decodeUnusable(reply);
  if (unusable) return unusable;
  const [outcome, createdAt, username, name, userCreatedAt, roles, latest, parent, first, caller] = reply;
  const known = decodeKnown(userId, createdAt, [username, name, userCreatedAt, roles]);
  if (outcome === 'superseded') return { outcome, ...known };
  if (outcome !== 'good') throw unknownReply('check.lua', reply);
  if (latest === undefined) return { outcome, ...known };
  return { outcome, ...known, confirmed: decodeState(latest, parent, first, true, caller) };
}

/** Decodes check.lua for a long-lived token. */
export function decodeLongLived(userId: number, reply: Reply): Unusable | Accepted {
  const unusable = decodeUnusable(reply);
  if (unusable) return unusable;
  const [outcome, createdAt, username, name, userCreatedAt, roles, usedAt] = reply;
  if (outcome !== 'good') throw unknownReply('check.lua', reply);
  const known = decodeKnown(userId, createdAt, [username, name, userCreatedAt, roles]);
  return usedAt === undefined ? { outcome, ...known } : { outcome, ...known, usedAt: Number(usedAt) };
}

/** Decodes one entry of last-uses.lua. @returns milliseconds since 1970; 0 if the store does not know the token. */
export function decodeLastUse([latest, usedAt]: readonly [string | null, string | null]): number {
  return Math.max(Math.floor(Number(latest ?? 0) / 1000), Number(usedAt ?? 0));
}

/** Decodes the replies that rotate.lua and check.lua have in common. */
function decodeUnusable(reply: Reply): Unusable | null {
  const [outcome, now] = reply;
  if (outcome === 'missing') return { outcome, now: Number(now) };
  if (outcome === 'revoked' || outcome === 'disabled') return { outcome };
  // The call that finds the theft replies with more fields.
  if (outcome === 'reused' && reply.length === 1) return { outcome };
  return null;
}

type Field = string | undefined;

function decodeKnown(
  userId: number,
  createdAt: Field,
  [username = '', name = '', userCreatedAt, roles = '']: Field[],
): Known {
  return {
    createdAt: Number(createdAt),
    user: {
      id: userId,
      username,
      name,
      createdAt: Number(userCreatedAt),
      disabled: false,
      roles: roles === '' ? [] : roles.split(','),
    },
  };
}

/** Decodes the fields of a state as they are stored. */
export function decodeState(
  latest: Field,
  parent: Field,
  first: Field,
  confirmed: boolean,
  caller: Field = '',
): SessionState {
  return { latest: Number(latest), parent: Number(parent), first: Number(first), confirmed, caller };
}

/** An unknown reply is an error, never a good token. */
function unknownReply(script: string, [outcome]: Reply): Error {
  return new Error(`${script} answered ${outcome ?? 'nothing'}`);
}
