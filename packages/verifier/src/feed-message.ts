import type { StreamEvent } from './event-stream.ts';
import { isId } from './verified-token.ts';
import { unavailable } from './verifier-error.ts';

/** All tokens of the user with an id up to and including `before`. */
export interface UserMark {
  user: number;
  before: number;
}

export type FeedMessage =
  | { type: 'snapshot'; tokens: number[]; users: UserMark[]; isLast: boolean; remember: number }
  | { type: 'revoked'; token: number }
  | ({ type: 'user_revoked' } & UserMark)
  | { type: 'user_changed'; user: number }
  | { type: 'heartbeat' };

/**
 * @returns null for an unknown event, which a later version of Latchkey may send.
 * @throws VerifierError if a known event is malformed: skipping it could miss a revocation.
 */
export function readMessage({ event, data }: StreamEvent): FeedMessage | null {
  if (event === 'heartbeat') return { type: 'heartbeat' };
  if (!isKnown(event)) return null;
  const message = readData(event, data);
  if (!message) throw unavailable('unexpected_answer', `the feed sent a ${event} event that is malformed`);
  return message;
}

const EVENTS = ['snapshot', 'revoked', 'user_revoked', 'user_changed'] as const;

function isKnown(event: string): event is (typeof EVENTS)[number] {
  return (EVENTS as readonly string[]).includes(event);
}

function readData(event: (typeof EVENTS)[number], text: string): FeedMessage | null {
  const data = parse(text);
  if (event === 'snapshot') return readSnapshot(data);
  if (event === 'revoked') return isId(data.token) ? { type: event, token: data.token } : null;
  if (event === 'user_changed') return isId(data.user) ? { type: event, user: data.user } : null;
  return isUserMark(data) ? { type: event, user: data.user, before: data.before } : null;
}

function readSnapshot({ tokens, users, last, remember }: Record<string, unknown>): FeedMessage | null {
  if (!Array.isArray(tokens) || !tokens.every(isId)) return null;
  if (!Array.isArray(users) || !users.every(isUserMark)) return null;
  if (typeof remember !== 'number' || !(remember > 0)) return null;
  return { type: 'snapshot', tokens, users, isLast: last === true, remember };
}

function parse(text: string): Record<string, unknown> {
  try {
    return Object(JSON.parse(text)) as Record<string, unknown>;
  } catch {
    return {};
  }
}

function isUserMark(value: unknown): value is UserMark {
  const { user, before } = Object(value) as Record<string, unknown>;
  return isId(user) && isId(before);
}
