import type { Entry } from '../domain/audit/entry.ts';
import type { BearerRefusal, UserTokenRefusal, TokenRefusal } from '../domain/refusal-reasons.ts';
import { SCOPE_MAX_LENGTH } from '../domain/scopes.ts';
import { checkAccess, rotate } from '../domain/sessions/rotation.ts';
import {
  hasExpired,
  isTooOld,
  isLongLived,
  sessionEnd,
  sessionExpiry,
  type Lifetimes,
  type PresentedIdentity,
  type PresentedType,
} from '../domain/tokens/claims.ts';
import type { SessionState } from '../domain/tokens/session-state.ts';
import type { RecordedToken } from '../infra/postgres/inspect-token.ts';
import type { StoredToken } from '../infra/redis/inspect-token.ts';
import { isAway, type Away } from './away.ts';
import type { ServiceVerdict } from './explain-service-token.ts';

/** A token after the checks that need no store. The parts are unproven unless there is an identity. */
export type Presented = {
  header: Record<string, unknown>;
  claims: Record<string, unknown>;
  /** Those of the keys in use. */
  keyIds: string[];
} & (
  | { refusal: TokenRefusal; identity: null }
  | { refusal: null; identity: PresentedIdentity & { type: PresentedType } }
);

export interface Facts {
  presented: Presented;
  /** Milliseconds since 1970. */
  now: number;
  /** ISSUER, AUDIENCE, REFRESH_RETRY_WINDOW in seconds. */
  issuer: string;
  audience: string;
  window: number;
  lifetimes: Lifetimes;
  /** null if this process cannot see the states, or there is no identity. */
  stored: StoredToken | Away | null;
  /** null if there is no record, or no identity. */
  record: RecordedToken | Away | null;
  /** The event that ended the token; null if it is not known. */
  trail: Entry | null;
}

/** Why a token is good or refused. For `--json`. */
export interface Explanation {
  /** null if it is good: a code of `docs/errors.md`. `unknown`: a store that would have to say is away. */
  reason: BearerRefusal | 'unknown' | null;
  /** The checks in order; null is not checked. */
  checks: Record<(typeof CHECKS)[number], boolean | null>;
  token: {
    type: PresentedType | 'service' | null;
    kid: string | null;
    issuer: string | null;
    audience: string | null;
    /** Of a limited token, separated by spaces. */
    scope: string | null;
    issued_at: string | null;
    expires_at: string | null;
  };
  user: { id: number; username: string | null } | null;
  /** Of a service token. */
  client: ServiceVerdict['client'] | null;
  /** The session or long-lived token. */
  record: { id: number; name: string | null; created_at: string | null } | null;
  ended: {
    at: string | null;
    reason: string | null;
    event: string | null;
    by: Entry['actor'] | null;
    address: string | null;
  } | null;
  /** Sentences. */
  facts: string[];
  to_do: string;
}

const CHECKS = ['form', 'issuer', 'key', 'signature', 'audience', 'expiry', 'session', 'client'] as const;

/**
 * The check that fails for each reason; those before it have passed, except an issuer that is not proven. The last check
 * is `client` for a service token.
 */
const FAILED: Record<BearerRefusal | 'unknown', (typeof CHECKS)[number]> = {
  malformed: 'form',
  type: 'form',
  issuer: 'issuer',
  unknown_key: 'key',
  signature: 'signature',
  audience: 'audience',
  expired: 'expiry',
  superseded: 'session',
  revoked: 'session',
  reused: 'session',
  disabled: 'session',
  gone: 'session',
  unknown: 'session',
  right: 'client',
};

const NAMES: Record<PresentedType, string> = {
  access: 'an access token',
  refresh: 'a refresh token, good only to refresh',
  llt: 'a long-lived token',
  limited: 'a limited token, good only where no other scopes than its own are demanded',
  exchanged: 'an exchanged token, good only at the service of its audience',
};

/** What the owner or an operator should do, in one sentence. */
const TO_DO: Record<UserTokenRefusal | 'unknown', string> = {
  malformed: 'Send the token as it was issued: three parts, nothing before or after.',
  type: 'Send an access token or a long-lived token.',
  issuer: 'Ask the issuer that the token names, or compare ISSUER here with that of the service.',
  unknown_key:
    'If this installation has issued it, its key was retired: log in again. If not, it belongs to another installation, or SIGNING_KEYS_DIR and REFRESH_TOKEN_SECRET here are not those of the service.',
  signature: 'It was cut, changed or forged: use the token as it was issued, or log in again.',
  audience: 'Exchange a token for the audience of the service that is called.',
  expired: 'Refresh, or log in again if the refresh token has expired too.',
  superseded: 'Use the newest pair of the session. If the client has lost it, log in again.',
  revoked: 'Log in again.',
  reused: 'Log in again. A thief may have had the token: change the password.',
  disabled: 'An operator may enable the account: latchkey user enable --id N.',
  gone: 'Log in again.',
  unknown: 'Ask again when the store answers. Until then the service answers 503, and the token may be good.',
};

export function explain(facts: Facts): Explanation {
  const { presented, record, trail } = facts;
  const { identity, refusal } = presented;
  const reason = refusal ?? refusalOf(facts, identity);
  const known = record !== null && !isAway(record) ? record : null;
  const ended = endOf(facts, reason, known);
  return {
    reason,
    checks: checksOf(reason, 'session'),
    token: tokenOf(presented, identity?.type ?? null),
    client: null,
    user: identity && {
      id: identity.userId,
      username: known && !known.isUserDeleted ? known.user.username : null,
    },
    record: identity && {
      id: identity.tokenId,
      // A device may be named after its owner's address.
      name: known?.record.name.replaceAll(/\S*@\S*/g, '[removed]') ?? null,
      created_at: known ? iso(known.record.createdAt) : null,
    },
    ended: ended && {
      at: iso(ended.at),
      reason: ended.reason,
      event: trail?.event ?? null,
      by: trail?.actor ?? null,
      address: trail?.address ?? null,
    },
    facts: [...tokenFacts(facts), ...storeFacts(facts, identity)],
    to_do: toDo(reason, identity?.type, known),
  };
}

/** Of a service token whose signature is good. */
export function explainService(
  presented: Pick<Presented, 'header' | 'claims'>,
  { reason, client, facts, to_do }: ServiceVerdict,
): Explanation {
  return {
    reason,
    checks: checksOf(reason, 'client'),
    token: tokenOf(presented, 'service'),
    client,
    user: null,
    record: null,
    ended: null,
    facts: [...facts, keyFact(presented)],
    to_do,
  };
}

function tokenOf(
  { header, claims }: Pick<Presented, 'header' | 'claims'>,
  type: Explanation['token']['type'],
): Explanation['token'] {
  return {
    type,
    kid: textOf(header.kid),
    issuer: textOf(claims.iss),
    audience: textOf(claims.aud),
    scope: textOf(claims.scope, SCOPE_MAX_LENGTH),
    issued_at: isoOfSeconds(claims.iat),
    expires_at: isoOfSeconds(claims.exp),
  };
}

type Identity = PresentedIdentity & { type: PresentedType };

function toDo(
  reason: UserTokenRefusal | 'unknown' | null,
  type: PresentedType | undefined,
  known: RecordedToken | null,
): string {
  if (known?.isUserDeleted) return 'The account is deleted: its tokens stay ended.';
  if (known?.user.disabled) return TO_DO.disabled;
  if (known?.endReason === 'reuse')
    return 'Log in again. A superseded refresh token was used: a thief may have had it. docs/runbook.md says how to find out (LatchkeyReuseSpike).';
  if (reason === 'superseded' && type === 'refresh')
    return 'Do not send it: the service would end the session as stolen. Use the newest pair, or log in again.';
  const isOver = reason === 'revoked' || reason === 'gone' || reason === 'expired';
  if (isOver && type === 'llt') return 'Log in, and create a new long-lived token.';
  if (isOver && type === 'limited') return 'Log in, and create a new limited token.';
  if (isOver && type === 'exchanged') return 'Exchange a good access token again.';
  // An expired access token of a session that has ended: a refresh cannot work.
  if (isOver && (type === 'refresh' || known?.endReason)) return TO_DO.revoked;
  if (reason !== null) return TO_DO[reason];
  if (type === 'limited')
    return 'Nothing: the token is good. A service refuses it unless it demands scopes, and the token has all of them.';
  return 'Nothing: the token is good. If a service refuses it, compare its issuer and audience with those here.';
}

/** Why the service refuses a token that it has signed. If Redis has the state, the service does not read the record. */
function refusalOf(facts: Facts, identity: Identity): UserTokenRefusal | 'unknown' | null {
  const { now, lifetimes, stored, record } = facts;
  if (hasExpired(identity, now) || isTooOld(identity, now, lifetimes)) return 'expired';
  const seen = stored === null || isAway(stored) ? null : stored;
  if (seen?.tombstone) return seen.tombstone;
  if (seen?.isUserDisabled) return 'disabled';
  if (!seen?.state) {
    if (record === null) return 'gone';
    if (isAway(record)) return 'unknown';
    const { userId, type, revokedAt } = record.record;
    if (userId !== identity.userId || (type === 'llt') !== isLongLived(identity.type)) return 'gone';
    if (revokedAt !== null) return 'revoked';
    if (record.user.disabled) return 'disabled';
  }
  const createdAt = record === null || isAway(record) ? null : record.record.createdAt;
  if (!isLongLived(identity.type) && createdAt !== null && sessionEnd(createdAt, lifetimes) <= now)
    return 'expired';
  if (isSuperseded(facts, identity)) return 'superseded';
  // The record may be behind.
  return stored !== null && isAway(stored) ? 'unknown' : null;
}

/** The state by which the service judges; null if no store has told it. */
function stateOf({ stored, record }: Facts): SessionState | null {
  if (stored !== null && !isAway(stored) && stored.state) return stored.state;
  return record === null || isAway(record) ? null : record.record.state;
}

/** An exchanged token lives as long as its session, a refresh token until `rotate` takes it for stolen. */
function isSuperseded(facts: Facts, identity: Identity): boolean {
  const state = stateOf(facts);
  if (state === null) return false;
  if (identity.type === 'access') return checkAccess(state, identity.generation).outcome === 'superseded';
  return identity.type === 'refresh' && presentAgain(facts, state, identity) === 'reused';
}

/** What a refresh would lead to, from a device that is not known to be the one of the newest pair. */
function presentAgain({ now, window }: Facts, state: SessionState, { generation }: Identity) {
  const presented = { generation, now: now * 1000, elapsed: 0, window: window * 1_000_000, caller: '' };
  return rotate(state, presented).outcome;
}

/** @param last the check of what the token belongs to; the other one of the two is not made. */
function checksOf(reason: Explanation['reason'], last: 'session' | 'client'): Explanation['checks'] {
  const order: readonly string[] = [...CHECKS.slice(0, CHECKS.indexOf('session')), last];
  const named = reason && FAILED[reason];
  const failed = named === null ? order.length : order.indexOf(order.includes(named) ? named : last);
  const verdicts = CHECKS.map((check) => {
    const i = order.indexOf(check);
    // What a token says of its issuer counts once its signature is proven.
    if (check === 'issuer' && failed <= order.indexOf('signature') && i < failed) return [check, null];
    if (i >= 0 && i < failed) return [check, true];
    return [check, i === failed && reason !== 'unknown' ? false : null];
  });
  return Object.fromEntries(verdicts) as Explanation['checks'];
}

function keyFact({ header }: Pick<Presented, 'header'>): string {
  return `Key ${textOf(header.kid) ?? ''} (${textOf(header.alg) ?? ''}) has signed it.`;
}

function tokenFacts({ presented, issuer, audience }: Facts): string[] {
  const { header, claims, keyIds, identity, refusal } = presented;
  if (identity) return [`It is ${NAMES[identity.type]}.`, keyFact(presented)];
  switch (refusal) {
    case 'unknown_key':
      return [`It names the key ${textOf(header.kid) ?? 'none'}. The keys here are ${keyIds.join(', ')}.`];
    case 'issuer':
      return [`It names the issuer ${textOf(claims.iss) ?? 'none'}. The issuer here is ${issuer}.`];
    case 'audience':
      return [`It is for ${textOf(claims.aud) ?? 'none'}. The audience here is ${audience}.`];
    default:
      return ['What it says of itself is not proven.'];
  }
}

function storeFacts(facts: Facts, identity: Presented['identity']): string[] {
  if (!identity) return [];
  const state = stateOf(facts);
  const isOlder = identity.type === 'refresh' && state !== null && identity.generation < state.latest;
  return [
    storedFact(facts.stored),
    ...recordFacts(facts.record),
    ...(isOlder ? [NEXT[presentAgain(facts, state, identity)]] : []),
  ];
}

function storedFact(stored: Facts['stored']): string {
  if (stored === null)
    return 'Without Redis the states are in the memory of the service: the record decides here.';
  if (isAway(stored)) return 'Redis does not answer.';
  if (stored.tombstone === 'reused')
    return 'Redis knows it as stolen: a superseded refresh token was used. The record is about to follow.';
  if (stored.tombstone) return 'Redis knows it as ended.';
  if (!stored.state) return 'Redis does not hold it: the next request reads the record.';
  const { latest, confirmed } = stored.state;
  if (latest === 0) return 'Redis holds it.';
  return `Redis holds its session: the newest pair is of ${iso(latest / 1000) ?? ''} and was ${confirmed ? '' : 'not '}used.`;
}

function recordFacts(record: Facts['record']): string[] {
  if (record === null) return ['There is no record of it.'];
  if (isAway(record)) return ['PostgreSQL does not answer.'];
  const { user, isUserDeleted, isPending } = record;
  return [
    ...(isUserDeleted ? ['The account is deleted.'] : user.disabled ? ['The account is disabled.'] : []),
    ...(isPending ? ['A replica has yet to tell Redis of its end.'] : []),
  ];
}

/** @returns when and why it ended, by the record; null if it has not, by what is known. */
function endOf(
  facts: Facts,
  reason: Explanation['reason'],
  known: RecordedToken | null,
): { at: number | null; reason: string | null } | null {
  const { now, lifetimes } = facts;
  const state = stateOf(facts);
  if (!known || !state) return null;
  const { record, endReason } = known;
  if (record.revokedAt !== null) return { at: record.revokedAt, reason: endReason };
  if (reason === 'superseded') return { at: state.latest / 1000, reason: 'a newer pair was issued' };
  const end =
    record.type === 'session' ? sessionExpiry(record.createdAt, state.latest, lifetimes) : record.expiresAt;
  return end !== null && end <= now ? { at: end, reason: 'expired' } : null;
}

/** What a refresh with an older refresh token leads to. */
const NEXT = {
  issued: 'A newer pair was issued, and never used: a refresh with this token gets the next pair.',
  repeated: 'A newer pair was issued a moment ago: a refresh gets it again.',
  held: 'A newer pair was issued a moment ago: the same device gets it again, and others have to wait.',
  refused: 'A newer pair was issued, and a clock is wrong.',
  reused: 'A newer pair was issued and used.',
};

/** For the terminal. */
export function forPeople(explanation: Explanation): string {
  const { reason, checks, token, client, user, record, ended, facts, to_do } = explanation;
  const unasked = client ? 'session' : 'client';
  const verdicts = { true: 'passes', false: 'FAILS', null: 'not checked' };
  const rows: [string, string | null][] = [
    ['issuer', token.issuer],
    ['audience', token.audience],
    ['scopes', token.scope],
    ['issued', token.issued_at],
    ['expires', token.expires_at ?? (token.type === 'llt' ? 'never' : null)],
    ['client', client && `${client.id}${client.name === null ? '' : ` (${client.name})`}`],
    ['user', user && `${user.id}${user.username === null ? '' : ` (${user.username})`}`],
    [
      token.type === 'llt' || token.type === 'limited' ? 'token' : 'session',
      record && `${record.id}${record.name === null ? '' : ` (${JSON.stringify(record.name)})`}`,
    ],
    ['created', record?.created_at ?? null],
    [reason === 'superseded' ? 'replaced' : 'ended', ended && `${ended.at ?? ''}: ${ended.reason ?? ''}`],
    [
      'by',
      ended?.event ? `${ended.event} of ${actorText(ended.by)}, address ${ended.address ?? 'none'}` : null,
    ],
    ...CHECKS.filter((check) => check !== unasked).map((check): [string, string] => [
      `${check}?`,
      verdicts[`${checks[check]}`],
    ]),
  ];
  return [
    verdictOf(reason),
    ...facts,
    ...rows.flatMap(([name, value]) => (value === null ? [] : [`  ${name.padEnd(9)}  ${value}`])),
    `To do: ${to_do}`,
  ].join('\n');
}

function verdictOf(reason: Explanation['reason']): string {
  if (reason === null) return 'The token is good.';
  if (reason === 'unknown') return 'It cannot be told now whether the token is good.';
  return `The token is not good: ${reason}.`;
}

function actorText(actor: Entry['actor'] | null): string {
  switch (actor?.type) {
    case 'user':
      return `user ${actor.user_id}`;
    case 'service':
      return `service ${actor.client_id}`;
    case 'operator':
      return `operator ${actor.name} on ${actor.host}`;
    default:
      return actor?.type ?? 'unknown';
  }
}

/** A text from an unproven token, in printable characters. An address has no place in a token of ours. */
function textOf(value: unknown, longest = 100): string | null {
  if (typeof value !== 'string') return null;
  if (value.includes('@')) return '(not shown)';
  return value.slice(0, longest).replaceAll(/[^\x20-\x7e]/g, '?');
}

function isoOfSeconds(value: unknown): string | null {
  return typeof value === 'number' ? iso(value * 1000) : null;
}

/** @param ms milliseconds since 1970. */
function iso(ms: number | null): string | null {
  const date = new Date(ms ?? NaN);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
