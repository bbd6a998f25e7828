import { AuthError } from '../../domain/errors.ts';
import type { RedisFailure } from '../../domain/metrics/outcomes.ts';

/**
 * Whatever Redis answers instead of a reply (away, hung, loading, read-only, full, moving) is an outage, and an outage
 * is 503.
 * @param failed is told why.
 * @throws AuthError `unavailable`
 */
export async function orUnavailable<Reply>(
  reply: Promise<Reply>,
  failed?: (cause: unknown) => void,
): Promise<Reply> {
  try {
    return await reply;
  } catch (cause) {
    failed?.(cause);
    throw new AuthError('unavailable', { cause });
  }
}

/** What kind of failure ioredis's error tells of: it names Redis's own answers, and its timeouts only by their text. */
export function failureOf(cause: unknown): RedisFailure {
  const { name, message = '' } = cause as Partial<Error>;
  if (name === 'ReplyError') return 'reply';
  return /timed out/i.test(message) ? 'timeout' : 'connection';
}
