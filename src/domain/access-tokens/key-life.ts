import type { KeySet, SigningKey } from './ports.ts';

/** The longest that a verifier may keep the JWKS, in seconds. */
const LONGEST_MAX_AGE = 300;

/** How often a replica says which key it signs with, in milliseconds. */
export const SIGNED_INTERVAL = 60_000;

/** After a key has signed for the last time: the word may be that late, and clocks that far apart; milliseconds. */
const LATE = SIGNED_INTERVAL + 10_000;

/**
 * How long verifiers may keep the JWKS: half of the lead, so that the other half is left for the file to reach every
 * replica. @param lead KEY_PUBLISH_LEAD. @returns seconds.
 */
export function jwksMaxAge(lead: number): number {
  return Math.min(LONGEST_MAX_AGE, Math.floor(lead / 2));
}

/**
 * Puts the key first that signs: the one with the highest file name that may. Where none may, or nobody can say, it is
 * the one with the lowest, which has most likely been there for longest.
 * @param keys the highest file name first. @param active those that may sign; null where that is not known.
 */
export function signerFirst(keys: readonly SigningKey[], active: ReadonlySet<string> | null): SigningKey[] {
  const signer = keys.find(({ kid }) => active?.has(kid)) ?? keys.at(-1);
  return signer ? [signer, ...keys.filter((key) => key !== signer)] : [];
}

export function signerOf(keys: KeySet): SigningKey {
  const [signer] = keys.signing;
  if (!signer) throw new Error('the key ring is empty');
  return signer;
}

/** What the replicas have noted of a key; milliseconds since 1970, by the database's clock. */
export interface KeyRecord {
  /** null where it was there before any was noted. */
  firstSeenAt: number | null;
  publishedAt: number | null;
  /** null while it may not sign. */
  signsSince: number | null;
  /** When a replica last said so; null for never. */
  signedAt: number | null;
}

/** Long-lived tokens that are good, by the key that signed them. They never expire. */
export interface LongLivedTokens {
  signedBy: ReadonlyMap<string, number>;
  /** Of a time when that was not noted, with the newest's creation in milliseconds since 1970. */
  unknown: { count: number; newest: number };
}

/**
 * `unseen`: no replica has it yet; `published`: in the JWKS, and not signing yet; `signing`; `verifying`: tokens that it
 * signed may live; `retirable`: none does.
 */
export type KeyState = 'unseen' | 'published' | 'signing' | 'verifying' | 'retirable';

export interface KeyLife {
  kid: string;
  state: KeyState;
  /** Since when it is in this state, or from when on in the next one; milliseconds since 1970, null where that is open. */
  since: number | null;
  /** From when on it signs, or can be retired. */
  next: number | null;
  /** Good long-lived tokens that it signed, or may have signed. */
  longLived: number;
}

interface Circumstances {
  records: ReadonlyMap<string, KeyRecord>;
  longLived: LongLivedTokens;
  /** Milliseconds since 1970. */
  now: number;
  /** KEY_PUBLISH_LEAD and ACCESS_TOKEN_TTL, in seconds. */
  lead: number;
  accessTokenTtl: number;
}

/** How things stand with each key. @param kids the highest file name first. */
export function judgeKeys(kids: readonly string[], circumstances: Circumstances): KeyLife[] {
  const { records, longLived, now, lead, accessTokenTtl } = circumstances;
  const signer = kids.findIndex((kid) => typeof records.get(kid)?.signsSince === 'number');
  return kids.map((kid, i) => {
    const record = records.get(kid);
    if (!record) return { kid, state: 'unseen', since: null, next: null, longLived: 0 };
    const { publishedAt, signsSince, signedAt } = record;
    const tokens = mayHaveSigned(kid, record, longLived);
    if (signsSince === null && signedAt === null) {
      const isNext = publishedAt !== null && (signer < 0 || i < signer);
      const next = isNext ? publishedAt + lead * 1000 : null;
      return { kid, state: 'published', since: publishedAt, next, longLived: tokens };
    }
    if (i === signer) return { kid, state: 'signing', since: signsSince, next: null, longLived: tokens };
    const signedLast = Math.max(signsSince ?? 0, signedAt ?? 0);
    const next = signedLast + LATE + accessTokenTtl * 1000;
    const state = now >= next && tokens === 0 ? 'retirable' : 'verifying';
    return { kid, state, since: signedLast, next: tokens > 0 ? null : next, longLived: tokens };
  });
}

function mayHaveSigned(kid: string, { firstSeenAt }: KeyRecord, tokens: LongLivedTokens): number {
  const { count, newest } = tokens.unknown;
  const isOlder = firstSeenAt === null || firstSeenAt <= newest;
  return (tokens.signedBy.get(kid) ?? 0) + (isOlder ? count : 0);
}
