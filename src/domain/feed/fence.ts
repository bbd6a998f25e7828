import type { FeedPosition } from './ports.ts';

/** What a store says of the feed. */
export interface FeedLook {
  epoch: string;
  last: number;
  /** When the last full renewal began at the latest, or the epoch; and now: milliseconds by the store's clock. */
  renewed: number;
  now: number;
}
