import { AuthError } from '../../domain/errors.ts';

/**
 * Whatever Redis answers instead of a reply (away, hung, loading, read-only, full, moving) is an outage, and an outage
 * is 503.
 * @throws AuthError `unavailable`
 */
export async function orUnavailable<Reply>(reply: Promise<Reply>): Promise<Reply> {
  try {
    return await reply;
  } catch (cause) {
    throw new AuthError('unavailable', { cause });
  }
}
