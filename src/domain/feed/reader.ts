import type { ServiceIdentity } from '../clients/service-client.ts';
import type { FeedEvent, FeedPosition, UserMark } from './ports.ts';

/** What a reader is sent. `position` is where it is then; null where more has to come first. */
export type FeedMessage = { position: FeedPosition | null } & (
  | { type: 'event'; event: FeedEvent }
  | {
      type: 'snapshot';
      tokens: readonly number[];
      users: readonly UserMark[];
      /** Seconds for which a revocation has to be remembered. */
      remember: number;
    }
  | { type: 'heartbeat' }
);

/** A connection of a service client. */
export interface FeedReader {
  client: ServiceIdentity;
  /** Never waits, whatever becomes of it. */
  send(messages: readonly FeedMessage[]): void;
  /** Bytes that were sent and have not left us. */
  backlog(): number;
  /** Resolves once what was sent has left us. @returns false where that takes too long, or the reader has gone. */
  flushed(): Promise<boolean>;
  /** Ends the connection. */
  end(): void;
}
