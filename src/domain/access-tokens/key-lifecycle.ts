import type { KeySet, RefreshSecret, SigningKey } from './ports.ts';

/** The longest that a verifier may keep the JWKS, in seconds. */
const LONGEST_MAX_AGE = 300;

/** How often a replica records which key it signs with, in milliseconds. */
export const SIGNED_INTERVAL = 60_000;

/** A record that lies further ahead than this comes from a server whose clock was ahead: it is out of date. */
export const AHEAD = 10_000;

/**
 * How much later than its last record a key may have signed: one interval, and the clocks' difference; milliseconds.
 */
export const LATE = SIGNED_INTERVAL + AHEAD;

/**
 * After an outage of the record, how long replicas take to record again what they sign with, in milliseconds: one
 * attempt may hang, and the next follows 5 s later. Until then their silence does not show that none signs.
 */
export const SETTLED = 10_000;

/**
 * How long verifiers may keep the JWKS: half of the lead. The other half is for the file to reach every replica.
 * @param lead KEY_PUBLISH_LEAD. @returns seconds.
 */
export function jwksMaxAge(lead: number): number {
  return Math.min(LONGEST_MAX_AGE, Math.floor(lead / 2));
}

/**
 * Puts the signing key first: of those that may sign, the one with the highest file name. If none may, or the database
 * cannot tell, the key with the lowest file name signs, which has most likely been there for longest.
 * @param keys the highest file name first. @param active those that may sign; null if that is not known.
 */
export function signerFirst<Key extends Pick<SigningKey, 'kid'>>(
  keys: readonly Key[],
  active: ReadonlySet<string> | null,
): Key[] {
  const signer = keys.find(({ kid }) => active?.has(kid)) ?? keys.at(-1);
  return signer ? [signer, ...keys.filter((key) => key !== signer)] : [];
}

/**
 * The same for refresh secrets: the first one that is on record signs. If none is, or the database cannot tell, the first
 * one signs.
 */
export function refreshSignerFirst(
  secrets: readonly RefreshSecret[],
  recorded: ReadonlySet<string> | null,
): RefreshSecret[] {
  const signer = secrets.find(({ kid }) => recorded?.has(kid)) ?? secrets[0];
  return signer ? [signer, ...secrets.filter((secret) => secret !== signer)] : [];
}

export function signerOf(keys: KeySet): SigningKey {
  const [signer] = keys.signing;
  if (!signer) throw new Error('the key ring is empty');
  return signer;
}

/** What the replicas have recorded about a key; milliseconds since 1970, by the database's clock. */
export interface KeyRecord {
  /** When the last replica loaded it; null for the keys of the first replica ever. */
  publishedAt: number | null;
  /** null while it may not sign. */
  signsSince: number | null;
  /** When a replica last signed with it, as recorded; null for never. */
  signedAt: number | null;
}

/**
 * `unseen`: no replica has it yet. `published`: in the JWKS, but not signing yet. `signing`. `verifying`: tokens that
 * it signed may still be good. `retirable`: none is.
 */
export type KeyState = 'unseen' | 'published' | 'signing' | 'verifying' | 'retirable';

export interface KeyLife {
  kid: string;
  state: KeyState;
  /** When it was published, began to sign or last signed; milliseconds since 1970, null if not known. */
  since: number | null;
  /** When it begins to sign, or can be retired; milliseconds since 1970, null if not known. */
  next: number | null;
  /** Good long-lived tokens that it signed. */
  longLived: number;
}

interface Circumstances {
  records: ReadonlyMap<string, KeyRecord>;
  /** How many long-lived tokens have neither ended nor expired, by the key that signed them. */
  longLived: ReadonlyMap<string, number>;
  /** Milliseconds since 1970. */
  now: number;
  /** KEY_PUBLISH_LEAD, in seconds. */
  lead: number;
  /** Seconds for which a token that is not long-lived may be good. */
  longestTtl: number;
}

/** The state of each key. @param kids the highest file name first. */
export function describeKeys(kids: readonly string[], circumstances: Circumstances): KeyLife[] {
  const { records, longLived, now, lead, longestTtl } = circumstances;
  const signer = kids.findIndex((kid) => typeof records.get(kid)?.signsSince === 'number');
  return kids.map((kid, i) => {
    const record = records.get(kid);
    if (!record) return { kid, state: 'unseen', since: null, next: null, longLived: 0 };
    const { publishedAt, signsSince, signedAt } = record;
    const tokens = longLived.get(kid) ?? 0;
    if (signsSince === null && signedAt === null) {
      // Stryker disable next-line EqualityOperator: the signer itself has a time in `signsSince`
      const isNext = publishedAt !== null && (signer < 0 || i < signer);
      const next = isNext ? publishedAt + lead * 1000 : null;
      return { kid, state: 'published', since: publishedAt, next, longLived: tokens };
    }
    if (i === signer) return { kid, state: 'signing', since: signsSince, next: null, longLived: tokens };
    const signedLast = Math.max(signsSince ?? 0, signedAt ?? 0);
    const next = signedLast + LATE + longestTtl * 1000;
    const state = now >= next && tokens === 0 ? 'retirable' : 'verifying';
    return { kid, state, since: signedLast, next: tokens > 0 ? null : next, longLived: tokens };
  });
}
