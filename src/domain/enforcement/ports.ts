import type { FeedPosition } from '../feed/ports.ts';
import type { Right } from '../rights.ts';

/** One process of a service that reads the feed. */
export interface ReaderKey {
  serviceId: string;
  /** The id that it gave itself at its start, or NAMELESS. */
  reader: string;
}

/** One text for a key. No service id holds a space. */
export function readerName({ serviceId, reader }: ReaderKey): string {
  return `${serviceId} ${reader}`;
}

/** Stands for the readers of a service that have no id, as of 1.0.0, and for those beyond MOST_READERS. */
export const NAMELESS = '';

/** The readers of one service that have a row each. */
export const MOST_READERS = 2000;

/** A reader that was seen so many milliseconds ago is silent: it is noted every 10 s, and confirms every 30 s. */
export const SEEN = 45_000;

/** What a reader does once it has heard nothing for `maxStaleness`. */
export const STALE_POLICIES = ['introspect', 'refuse', 'accept'] as const;
export type StalePolicy = (typeof STALE_POLICIES)[number];

/** What a reader says of itself. Nothing of it but the position and the policy decides anything. */
export interface ReaderFacts {
  instance: string | null;
  software: string | null;
  version: string | null;
  audience: string | null;
  /** In seconds; null if it has not said what it does when stale. */
  maxStaleness: number | null;
  whenStale: StalePolicy | null;
  /** The ids of the signing keys that it holds. */
  keys: readonly string[];
}

/** A reader has applied everything up to `position`. */
export interface Confirmation extends ReaderKey, ReaderFacts {
  position: FeedPosition;
}

/** Times in milliseconds since 1970, by the later of PostgreSQL's clock and the replica's that noted them. */
export interface ReaderRecord extends ReaderKey, ReaderFacts {
  /** The service's name. */
  name: string;
  /** null before the first confirmation, as is `confirmedAt`. */
  position: FeedPosition | null;
  confirmedAt: number | null;
  /** When it was last connected, or confirmed. */
  seenAt: number;
}

/** Whose end is asked about: a token, all ended tokens of a user, or everything that has ended until now. */
export type Target = { token: number } | { user: number } | { all: true };

/** The end of a target as it is on record. Times in milliseconds since 1970. */
export interface EndedTarget {
  /** The latest end. */
  endedAt: number;
  /** The latest publication of what is published, by the later of both clocks; 0 if nothing is. */
  publishedAt: number;
  /** Tokens that have ended and whose publication is not confirmed; null if there are too many to follow. */
  pending: readonly number[] | null;
  /** When the last of the long-lived and limited tokens expires; 0 if there are none, null for never. */
  longLivedUntil: number | null;
}

/** What an answer needs of a reader. */
export type JudgedReader = Omit<ReaderRecord, 'software' | 'version' | 'audience' | 'keys' | 'confirmedAt'>;

/** What all who wait for an answer share. */
export interface ReadersLook {
  /** PostgreSQL's clock, in milliseconds since 1970. */
  now: number;
  readers: readonly JudgedReader[];
  /** Of the tokens that were asked for, those that are published, each with the time. */
  published: ReadonlyMap<number, number>;
}

/**
 * `current` and `behind`: seen within SEEN. `nameless`: rows that stand for any number of readers, whenever they were
 * seen.
 */
export type ReaderTally = Record<'current' | 'behind' | 'silent' | 'nameless', number>;

/** Where the next page of the list begins: after this reader. */
export type ReaderPosition = ReaderKey;

/** Every method fails with AuthError('unavailable') without a primary. */
export interface FeedReaderStore {
  /**
   * Writes these confirmations. Those of a service that is gone are left out. The last one that a reader
   * sends counts, also if it goes back.
   * @param at the replica's clock.
   */
  confirm(confirmations: readonly Confirmation[], at: number): Promise<void>;

  /**
   * Notes who is connected.
   * @param connected.isNew whether the row may be added: otherwise a late note would bring back who said goodbye.
   * @returns those without a row. @param at the replica's clock
   */
  note(connected: readonly (ReaderKey & { isNew: boolean })[], at: number): Promise<ReaderKey[]>;

  /** Folds the readers of a service beyond `most`, the longest silent first, into its nameless row. */
  fold(most: number): Promise<void>;

  /** Removes who was not seen for `silence` milliseconds, by the earlier of both clocks. */
  removeSilent(silence: number, at: number): Promise<void>;

  /** @returns false if there is no such row. */
  remove(key: ReaderKey): Promise<boolean>;

  /** Removes the readers of a service; only those with this instance, unless it is null. @returns how many */
  forget(serviceId: string, instance: string | null): Promise<number>;

  /**
   * Counts the readers by what they have confirmed.
   * @param from who has confirmed less is behind. @param at the replica's clock
   */
  tally(from: FeedPosition, at: number): Promise<ReaderTally>;

  /**
   * The least position in this epoch that a named reader has confirmed, of those seen within SEEN.
   * @returns null if one has confirmed none of this epoch; Infinity if nobody was seen
   */
  least(epoch: string, at: number): Promise<number | null>;

  /** @returns null if the target is unknown or has not ended. */
  ended(target: Target): Promise<EndedTarget | null>;

  /** @param tokenIds tokens of which it wants to know whether they are published. */
  look(tokenIds: readonly number[]): Promise<ReadersLook>;

  /** Enabled services with this right and without a reader, by name. */
  servicesWithoutReader(right: Right): Promise<{ serviceId: string; name: string }[]>;

  /** How many readers say that they hold a key, by its id. */
  keyHolders(): Promise<ReadonlyMap<string, number>>;

  /** In the order of service and reader. */
  page(after: ReaderPosition | null, limit: number): Promise<ReaderRecord[]>;
}
