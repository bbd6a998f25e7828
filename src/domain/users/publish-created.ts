import { ignoreOutage } from '../errors.ts';
import type { RevocationFeed } from '../feed/ports.ts';
import type { User } from '../user.ts';

/**
 * Tells the feed of an account that was just committed. An outage is ignored: the account is there, and services learn
 * of it at their first sight of it.
 */
export async function publishCreated(
  feed: Pick<RevocationFeed, 'publishChanges'>,
  user: Pick<User, 'id' | 'version'>,
): Promise<void> {
  await feed.publishChanges([{ user, status: 'created' }]).catch(ignoreOutage);
}
