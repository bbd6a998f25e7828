import { isAudience } from './audience.ts';

/** What a registered service may be allowed to do. */
export const RIGHTS = [
  'introspect',
  'revoke',
  'revocations',
  'readers',
  'users.read',
  'users.write',
  'users.reset',
  'users.email',
  'users.factors',
  'mails',
  'exchange',
  'limited',
] as const;

/** The right to call the service of an audience: to get service tokens for it. */
export type CallRight = `call:${string}`;
export type Right = (typeof RIGHTS)[number] | CallRight;

/** The rights of a service that was registered without a list. */
export const DEFAULT_RIGHTS: readonly Right[] = ['introspect', 'revoke', 'revocations'];

const CALL = 'call:';

export function callRight(audience: string): CallRight {
  return `${CALL}${audience}`;
}

/** The rights by their kinds, for log and metrics: audiences are many. */
export const RIGHT_KINDS = [...RIGHTS, 'call'] as const;

export function kindOf(right: Right): (typeof RIGHT_KINDS)[number] {
  return RIGHTS.find((each) => each === right) ?? 'call';
}

/** What a service can reach of a user's account. */
export type Deed =
  | 'read'
  /** Learns the e-mail address. */
  | 'read_address'
  | 'change'
  | 'delete'
  | 'end_tokens'
  | 'remove_factors'
  /** Has its address count as verified. */
  | 'prove_address'
  /** Keeps its mails from it, which its owner can undo by proving the address again. */
  | 'stop_mails'
  | 'set_password'
  /** Logs in as the user. */
  | 'take_over'
  /** Gets a token of the user for another service. */
  | 'exchange'
  /** Makes its long-lived and limited tokens look used. */
  | 'use_tokens';

/** `account.`: of any account. `holder.`: only of the account whose access token the service has been given. */
export type Effect =
  | `${'account' | 'holder'}.${Deed}`
  | 'account.create'
  | 'feed.read'
  /** Also learns when tokens of anybody ended last, for which it asks by their ids. */
  | 'readers.read'
  | 'service.call';

const TAKE_OVER = [
  'account.read',
  'account.end_tokens',
  'account.set_password',
  'account.take_over',
] as const;

/**
 * All that each right alone reaches: by the operations that ask for it, by what their answers show, and by the operations
 * that need no login. A second factor withstands a take-over by every one of them. `limited` widens `introspect`.
 */
export const COVERS: Record<(typeof RIGHT_KINDS)[number], readonly Effect[]> = {
  introspect: ['holder.read', 'account.use_tokens'],
  revoke: ['holder.end_tokens'],
  revocations: ['feed.read'],
  readers: ['readers.read'],
  'users.read': ['account.read'],
  'users.write': ['account.create', 'account.read', 'account.change', 'account.delete', 'account.end_tokens'],
  'users.reset': TAKE_OVER,
  'users.email': ['account.read_address'],
  'users.factors': ['account.remove_factors', 'account.end_tokens'],
  mails: [...TAKE_OVER, 'account.read_address', 'account.prove_address', 'account.stop_mails'],
  exchange: ['holder.exchange'],
  limited: [],
  call: ['service.call'],
};

function isRight(word: string): word is Right {
  return (
    RIGHTS.some((right) => right === word) || (word.startsWith(CALL) && isAudience(word.slice(CALL.length)))
  );
}

/** Those of the words that are rights, in the order of `RIGHTS`, then the calls by name. */
export function rightsAmong(words: readonly string[]): Right[] {
  const calls = [...new Set(words)].filter(isRight).filter((right) => kindOf(right) === 'call');
  return [...RIGHTS.filter((right) => words.includes(right)), ...calls.sort()];
}

/**
 * Reads a comma-separated list.
 * @returns the rights in order, or a message that says what is wrong.
 */
export function parseRights(list: string): Right[] | string {
  const words = list.split(',').map((word) => word.trim());
  const unknown = words.find((word) => !isRight(word));
  if (unknown !== undefined) {
    const what = unknown === '' ? 'a right is missing' : `there is no right ${JSON.stringify(unknown)}`;
    return `${what}; the rights are ${RIGHTS.join(', ')} and call:AUDIENCE`;
  }
  return rightsAmong(words);
}
