import { AuthError } from '../../../domain/errors.ts';
import type { StoreFailure } from '../../../telemetry/outcomes.ts';
import { StoreError } from '../../../telemetry/store-cause.ts';
import { causeOf } from './cause.ts';

/**
 * Any failure of Redis (down, hung, loading, read-only, full, moving slots) is an outage, and callers get a 503.
 * @param failed receives the cause.
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
    throw unavailable(cause);
  }
}

/** An outage with its cause, for the log. @param cause an error of ioredis. */
export function unavailable(cause: unknown): AuthError {
  const { code, reason } = causeOf(cause);
  return new AuthError('unavailable', { cause: new StoreError('Redis', code, reason, cause) });
}

/** Classifies an error of ioredis. Replies of Redis have a name of their own; timeouts differ only by their text. */
export function failureOf(cause: unknown): StoreFailure {
  const { name, message = '' } = cause as Partial<Error>;
  if (name === 'ReplyError') return 'reply';
  return /timed out/i.test(message) ? 'timeout' : 'connection';
}
