import type { ServiceVersions } from '../services/directory.ts';
import type { ServiceIdentity } from '../services/registered-service.ts';
import type { FeedEvent, FeedPosition, UserMark, UserStatusAt } from './ports.ts';

/** A message to a reader. `position` is the reader's position after it; null if it has none, or more parts follow. */
export type FeedMessage = { position: FeedPosition | null } & (
  | { type: 'event'; event: FeedEvent }
  | {
      type: 'snapshot';
      tokens: readonly number[];
      users: readonly UserMark[];
      statuses: readonly UserStatusAt[];
      /** Seconds for which a revocation has to be remembered. */
      remember: number;
    }
  /** The versions of all services that are not disabled. */
  | { type: 'clients'; versions: ServiceVersions }
  | { type: 'heartbeat' }
);

/** A connection of a registered service. */
export interface FeedReader {
  service: ServiceIdentity;
  /** The id of its process, as it sent it; null for none, as of 1.0.0. */
  id: string | null;
  /** Never blocks, and reports no failure. */
  send(messages: readonly FeedMessage[]): void;
  /** Bytes that were sent and not flushed yet. */
  backlog(): number;
  /** Resolves once all sent bytes are flushed. @returns false if that takes too long, or the reader disconnected. */
  flushed(): Promise<boolean>;
  /** Ends the connection. */
  end(): void;
}
