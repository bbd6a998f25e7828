import type { FeedMessage, UserEvent } from './feed-message.ts';
import { reasonOf, unavailable, type VerifierError } from './verifier-error.ts';

/**
 * Passes on what the feed tells of users, one event after the other. A listener that fails stops neither the feed nor
 * the process: it is reported once, until it works again.
 */
export function makeTellOfUsers(
  onUser: (event: UserEvent) => unknown,
  report: (failure: VerifierError | null) => void,
): (message: FeedMessage) => void {
  let last = Promise.resolve();

  async function tell(event: UserEvent): Promise<void> {
    try {
      await onUser(event);
      report(null);
    } catch (error) {
      report(unavailable('fault', `onUser failed (${reasonOf(error)})`));
    }
  }

  return (message) => {
    const events =
      message.type === 'snapshot' ? message.statuses : message.type === 'user' ? [message.event] : [];
    for (const event of events) last = last.then(() => tell(event));
  };
}
