import type { StreamEvent } from './event-stream.ts';
import { isId, isVersion } from './verified-token.ts';
import { unavailable } from './verifier-error.ts';

/** All tokens of the user with an id up to and including `before`. */
export interface UserMark {
  user: number;
  before: number;
}

/** What the feed tells of an account. */
export interface UserEvent {
  type: 'created' | 'changed' | 'disabled' | 'enabled' | 'deleted';
  userId: number;
  /** The user's version as of this event. An event may come late or twice: the greatest version counts. */
  version: number;
}

/** The feed's names of these events. */
const USER_EVENTS = {
  user_created: 'created',
  user_changed: 'changed',
  user_disabled: 'disabled',
  user_enabled: 'enabled',
  user_deleted: 'deleted',
} as const;

export type FeedMessage =
  | {
      type: 'snapshot';
      tokens: number[];
      users: UserMark[];
      /** The accounts that were disabled, enabled or deleted in the last `remember` seconds. */
      statuses: UserEvent[];
      isLast: boolean;
      remember: number;
    }
  | { type: 'revoked'; token: number }
  | ({ type: 'user_revoked' } & UserMark)
  | { type: 'user'; event: UserEvent }
  /** The present version of each client that is not disabled, by its id. */
  | { type: 'clients'; versions: ReadonlyMap<string, number> }
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

const EVENTS = ['snapshot', 'revoked', 'user_revoked', 'clients'] as const;
type KnownEvent = (typeof EVENTS)[number] | keyof typeof USER_EVENTS;

function isKnown(event: string): event is KnownEvent {
  return (EVENTS as readonly string[]).includes(event) || Object.hasOwn(USER_EVENTS, event);
}

function readData(event: KnownEvent, text: string): FeedMessage | null {
  const data = parse(text);
  if (event === 'snapshot') return readSnapshot(data);
  if (event === 'clients') return readClients(data);
  if (event === 'revoked') return isId(data.token) ? { type: event, token: data.token } : null;
  if (event === 'user_revoked')
    return isUserMark(data) ? { type: event, user: data.user, before: data.before } : null;
  const told = readUserEvent(USER_EVENTS[event], data);
  return told && { type: 'user', event: told };
}

function readUserEvent(
  type: UserEvent['type'],
  { user, version }: Record<string, unknown>,
): UserEvent | null {
  return isId(user) && isVersion(version) ? { type, userId: user, version } : null;
}

function readSnapshot({
  tokens,
  users,
  statuses,
  last,
  remember,
}: Record<string, unknown>): FeedMessage | null {
  if (!Array.isArray(tokens) || !tokens.every(isId)) return null;
  if (!Array.isArray(users) || !users.every(isUserMark)) return null;
  const accounts = Array.isArray(statuses) ? statuses.map(readStatus) : [null];
  if (!accounts.every((each) => each !== null)) return null;
  if (typeof remember !== 'number' || !(remember > 0)) return null;
  return { type: 'snapshot', tokens, users, statuses: accounts, isLast: last === true, remember };
}

function readStatus(value: unknown): UserEvent | null {
  const { status, ...data } = Object(value) as Record<string, unknown>;
  const name = `user_${String(status)}`;
  return Object.hasOwn(USER_EVENTS, name)
    ? readUserEvent(USER_EVENTS[name as keyof typeof USER_EVENTS], data)
    : null;
}

function readClients({ versions }: Record<string, unknown>): FeedMessage | null {
  if (typeof versions !== 'object' || versions === null || Array.isArray(versions)) return null;
  const all = Object.entries(versions as Record<string, unknown>);
  if (!all.every((each): each is [string, number] => isVersion(each[1]))) return null;
  return { type: 'clients', versions: new Map(all) };
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
